"""What a host is, has, and has to do, at one moment: what other hosts ask it before they place nodes on it."""

from __future__ import annotations

import platform
import time
from typing import TYPE_CHECKING, cast

from gpuprov import __version__
from gpuprov.cluster.gpu_board import look_at_gpus
from gpuprov.cluster.leases import Neighbours
from gpuprov.cluster.told_gpus import tell_part
from gpuprov.core.errors import GpuprovError
from gpuprov.lifecycle.rows import list_rows
from gpuprov.machine.facts import CACHE_FOLDER, free_bytes
from gpuprov.machine.survey import survey
from gpuprov.shapes.base import of_object
from gpuprov.shapes.error import ErrorParts
from gpuprov.shapes.host import Host as HostDocument
from gpuprov.shapes.host import SeenEngine

if TYPE_CHECKING:
    from gpuprov.drivers.base import Driver
    from gpuprov.machine.base import Host
    from gpuprov.shapes.choices import Engine, GpuMode
    from gpuprov.shapes.engine import EngineFacts
    from gpuprov.shapes.nodes import NodeRow


def survey_host(host: Host, *, gpu_mode: GpuMode = "auto") -> HostDocument:
    """Look at all of it side by side; changes nothing, takes no lock, and nothing that is broken is an error here."""
    seen = survey(host.engines, _ask)
    gpus, gpu_error = None, None
    try:
        gpus = tell_part(look_at_gpus(host.gpus(gpu_mode), Neighbours(host)), host=host.name)
    except GpuprovError as error:
        gpu_error = of_object(ErrorParts, error)
    return HostDocument(
        host=host.name,
        gpuprov=__version__,
        machine=platform.machine(),
        kernel=platform.release(),
        clock_s=round(time.time(), 3),
        disk_free_bytes=free_bytes(host.root / CACHE_FOLDER),
        limits=host.limits(),
        engines=(
            *(
                SeenEngine(engine=cast("Engine", name), facts=facts, error=None)
                for name, (facts, _) in seen.answers.items()
            ),
            *(
                SeenEngine(engine=cast("Engine", name), facts=None, error=of_object(ErrorParts, error))
                for name, error in seen.errors.items()
            ),
        ),
        nodes=tuple(row for _, rows in seen.answers.values() for row in rows),
        gpus=gpus,
        gpu_error=gpu_error,
    )


def _ask(driver: Driver) -> tuple[EngineFacts, tuple[NodeRow, ...]]:
    return driver.facts(), list_rows(driver, everything=False)
