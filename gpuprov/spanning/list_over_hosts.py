"""`list` of the nodes of all hosts that `host add` has remembered; all are asked side by side."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from gpuprov.core.silence_limit import scaled_limit_s
from gpuprov.host.remote.answers import read_answer
from gpuprov.host.remote.ask import MemberRequest
from gpuprov.host.remote.several import read_each
from gpuprov.shapes.nodes import Nodes
from gpuprov.shapes.orders import ListOrder
from gpuprov.spanning.parts.over_hosts import QUESTION_S, part_error

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.core.errors import GpuprovError
    from gpuprov.host.remote.hosts import Hosts
    from gpuprov.host.remote.machine import RemoteMachine
    from gpuprov.shapes.nodes import NodeRow


@dataclass(frozen=True, kw_only=True)
class ListedNodes:
    """The nodes of all hosts that answer, and why the others do not."""

    rows: tuple[NodeRow, ...]
    failed: Mapping[str, GpuprovError]
    asked: int

    @property
    def error(self) -> GpuprovError | None:
        """The error of `list` where some hosts do not answer."""
        return part_error(self.failed, of=self.asked)


def list_over_hosts(known: Mapping[str, RemoteMachine], hosts: Hosts, *, everything: bool) -> ListedNodes:
    """The nodes of all clusters on these hosts."""
    request = MemberRequest(order=ListOrder(everything=everything), total_s=scaled_limit_s(QUESTION_S))
    told, failed = read_each(hosts.ask(dict.fromkeys(known.values(), request)), partial(read_answer, Nodes))
    return ListedNodes(
        rows=tuple(chain.from_iterable(nodes.nodes for nodes in told.values())), failed=failed, asked=len(known)
    )
