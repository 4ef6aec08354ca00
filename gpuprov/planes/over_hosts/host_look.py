"""What a host is, has, and has to do, at one moment: what other hosts ask it before they place nodes on it."""

from __future__ import annotations

import platform
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpuprov.cluster.gpu_board import look_at_gpus
from gpuprov.cluster.leases import Neighbours
from gpuprov.core.errors import GpuprovError
from gpuprov.host.facts import CACHE_FOLDER, free_bytes
from gpuprov.host.survey import survey
from gpuprov.planes.across.rows import list_rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.cluster.gpu_board import GpuBoard
    from gpuprov.drivers.base import Driver
    from gpuprov.host.base import Host
    from gpuprov.shapes.engine import EngineFacts
    from gpuprov.shapes.nodes import NodeRow
    from gpuprov.spec.models import GpuMode


@dataclass(frozen=True, kw_only=True)
class HostLook:
    """A host.

    Attributes:
        machine: Its processor, as the kernel names it.
        clock_s: Its time, in seconds since 1970.
        disk_free_bytes: Where images and nodes lie.
        limits: The kernel's limits that nodes share, by check; None where one cannot be read.
        engines: What each engine says that responds.
        silent: Why engines that are installed do not respond.
        nodes: Of all clusters and of all engines that respond.
        board: Its GPUs and their holders; None where there is a `gpu_error`.
        gpu_error: Why they cannot be told.
    """

    machine: str
    kernel: str
    clock_s: float
    disk_free_bytes: int
    limits: Mapping[str, int | None]
    engines: Mapping[str, EngineFacts]
    silent: Mapping[str, GpuprovError] = field(default_factory=dict)
    nodes: tuple[NodeRow, ...] = ()
    board: GpuBoard | None = None
    gpu_error: GpuprovError | None = None


def survey_host(host: Host, *, gpu_mode: GpuMode = "auto") -> HostLook:
    """Look at all of it side by side; changes nothing, takes no lock, and nothing that is broken is an error here."""
    seen = survey(host.engines, _ask)
    board, gpu_error = None, None
    try:
        board = look_at_gpus(host.gpus(gpu_mode), Neighbours(host))
    except GpuprovError as error:
        gpu_error = error
    return HostLook(
        machine=platform.machine(),
        kernel=platform.release(),
        clock_s=time.time(),
        disk_free_bytes=free_bytes(host.root / CACHE_FOLDER),
        limits=host.limits(),
        engines={name: facts for name, (facts, _) in seen.answers.items()},
        silent=seen.errors,
        nodes=tuple(row for _, rows in seen.answers.values() for row in rows),
        board=board,
        gpu_error=gpu_error,
    )


def _ask(driver: Driver) -> tuple[EngineFacts, tuple[NodeRow, ...]]:
    return driver.facts(), list_rows(driver, everything=False)
