"""What the hosts that `host add` has remembered have: their GPUs and who holds them, their processors; reads only."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from gpuprov.cluster.told_gpus import board_of
from gpuprov.core.errors import GpuprovError
from gpuprov.core.silence_limit import scaled_limit_s
from gpuprov.host.remote.answers import read_answer
from gpuprov.host.remote.ask import MemberRequest
from gpuprov.host.remote.several import away_since, read_each
from gpuprov.shapes.hardware import Hardware
from gpuprov.shapes.host import Host
from gpuprov.shapes.orders import HardwareOrder, LookOrder
from gpuprov.spanning.parts.over_hosts import QUESTION_S
from gpuprov.workflows.hardware import ANSWER_S

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.cluster.gpu_board import GpuBoard
    from gpuprov.host.remote.hosts import HostAnswers, Hosts
    from gpuprov.host.remote.machine import RemoteMachine


@dataclass(frozen=True, kw_only=True)
class Silences:
    """Why hosts do not tell.

    Attributes:
        failed: By host.
        away: Since when hosts are unreachable.
        asked: How many hosts were.
    """

    failed: Mapping[str, GpuprovError] = field(default_factory=dict)
    away: Mapping[str, str] = field(default_factory=dict)
    asked: int = 0


@dataclass(frozen=True, kw_only=True)
class HostBoards:
    """The GPUs of each host that answers."""

    boards: Mapping[str, GpuBoard]
    silences: Silences


@dataclass(frozen=True, kw_only=True)
class HostsHardware:
    """The processors and GPUs of each host that answers, and of its nodes."""

    hardware: Mapping[str, Hardware]
    silences: Silences


def gpus_over_hosts(known: Mapping[str, RemoteMachine], hosts: Hosts) -> HostBoards:
    """All GPUs of these hosts and their holders; a host whose GPUs cannot be told is one that does not tell."""
    question = MemberRequest(order=LookOrder(), total_s=scaled_limit_s(QUESTION_S))
    answers = hosts.ask(dict.fromkeys(known.values(), question))
    looks, failed = read_each(answers, partial(read_answer, Host))
    boards = {}
    for host, look in looks.items():
        if look.gpus is not None:
            boards[host] = board_of(look.gpus)
        elif look.gpu_error is not None:
            error = look.gpu_error
            failed[host] = GpuprovError(f"{host}: {error.what}", evidence=error.evidence, fix=f"on {host}: {error.fix}")
    return HostBoards(boards=boards, silences=_silences(failed, answers))


def hardware_over_hosts(known: Mapping[str, RemoteMachine], hosts: Hosts, cluster: str) -> HostsHardware:
    """What these hosts have, and the running nodes of a cluster on them."""
    question = MemberRequest(order=HardwareOrder(cluster=cluster), total_s=scaled_limit_s(QUESTION_S + ANSWER_S))
    answers = hosts.ask(dict.fromkeys(known.values(), question))
    hardware, failed = read_each(answers, partial(read_answer, Hardware))
    return HostsHardware(hardware=hardware, silences=_silences(failed, answers))


def _silences(failed: Mapping[str, GpuprovError], answers: HostAnswers) -> Silences:
    return Silences(failed=failed, away=away_since(answers), asked=len(answers))
