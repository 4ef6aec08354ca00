"""The processes of a run that Dask connects: its scheduler, and a worker for each GPU."""

from __future__ import annotations

import asyncio
import os
import platform
import secrets
import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from gpuprov.shapes.program_runs import Meeting
from gpuwork.errors import HostLacks, TimedOut
from gpuwork.packages import pip_command
from gpuwork.programs.certificate import read_security

if TYPE_CHECKING:
    from gpuwork.programs.run_folder import RunFolder

MEET_S: Final = 300.0
# A worker that says nothing for so long is taken for dead; Dask looks as often, so that it takes twice as long at most
SILENT_S: Final = 5.0
_DEATH_S: Final = 10.0  # without a scheduler
_CONNECT_S: Final = 4.0  # also what it costs that a worker died between two rounds
_TCP_S: Final = 12.0  # Dask takes no less
_HERE: Final = "127.0.0.1"
_LOOK_S: Final = 0.1
_SETTINGS: Final = {
    "distributed.scheduler.worker-ttl": f"{SILENT_S:g}s",
    "distributed.scheduler.active-memory-manager.start": False,
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    "distributed.worker.memory.terminate": False,
    "distributed.worker.profile.enabled": False,
    "distributed.comm.timeouts.connect": f"{_CONNECT_S:g}s",
    "distributed.comm.timeouts.tcp": f"{_TCP_S:g}s",
    "distributed.comm.compression": False,
}


def settle_dask() -> None:
    """Have Dask behave as a run needs it, whatever its settings on this machine are.

    Raises:
        HostLacks: Dask is not installed.
    """
    try:
        import dask
        import distributed  # noqa: F401
    except ImportError as error:
        raise HostLacks(
            "Dask cannot be imported",
            evidence=str(error)[:300],
            fix=f"{pip_command(['distributed'])}; in nodes: `image: {{toolkit: true}}` in the spec of the cluster",
        ) from error
    dask.config.set(_SETTINGS)


def serve_scheduler(run: RunFolder) -> int:
    """Be the scheduler of a run until somebody ends it."""
    settle_dask()
    asyncio.run(_serve_scheduler(run))
    return 0


async def _serve_scheduler(run: RunFolder) -> None:
    from distributed import Scheduler

    host = own_address(run)
    page = {"dashboard_address": f"{_HERE}:0"}
    async with Scheduler(host=host, port=0, protocol="tls", security=read_security(run.path), **page) as scheduler:
        run.write_meeting(
            Meeting(
                address=scheduler.address,
                node=platform.node(),
                page=_page_of(scheduler),
                number=secrets.token_hex(8),
            )
        )
        await scheduler.finished()


def _page_of(scheduler: Any) -> int | None:  # noqa: ANN401  (Dask's)
    """The port of the page; Dask has none without Bokeh."""
    with suppress(ImportError, AttributeError, KeyError):
        import bokeh  # noqa: F401

        return int(scheduler.http_server.port)
    return None


def serve_worker(run: RunFolder, number: int) -> int:
    """Be a worker of a run until its scheduler ends; again if another scheduler is there then.

    Raises:
        TimedOut: There is no scheduler.
    """
    settle_dask()
    served: str | None = None
    while run.find_end() is None:
        meeting = wait_for_meeting(run, unlike=served)
        if meeting is None:
            break
        asyncio.run(_serve_worker(run, number, meeting))
        served = meeting.number
        if run.record.local:
            break
    return 0


async def _serve_worker(run: RunFolder, number: int, meeting: Meeting) -> None:
    from distributed import Worker

    from gpuwork.programs.member import RunMember

    worker = Worker(
        meeting.address,
        host=own_address(run),
        security=read_security(run.path),
        nthreads=1,
        name=f"worker-{number}",
        plugins=[RunMember(run, number)],
        dashboard=False,
        death_timeout=_DEATH_S,
        memory_limit=0,
        local_directory=str(run.path / f"dask-{number}-{os.getpid()}"),
    )
    async with worker:
        await worker.finished()


def wait_for_meeting(run: RunFolder, *, unlike: str | None = None, limit_s: float = MEET_S) -> Meeting | None:
    """Where a run meets; None if it has ended.

    Args:
        unlike: The number of a scheduler that is gone.
        limit_s: How long to wait.

    Raises:
        TimedOut: Nobody said where in time.
    """
    until = time.monotonic() + limit_s
    while run.find_end() is None:
        meeting = run.find_meeting()
        if meeting is not None and meeting.number != unlike:
            return meeting
        if time.monotonic() >= until:
            log = run.log("scheduler")
            raise TimedOut(
                f"the scheduler of the run did not start within {limit_s:g} s",
                evidence=f"{run.path} does not have its address",
                fix=f"tail {log}; is the first job of the run waiting?",
            )
        time.sleep(_LOOK_S)
    return None


def own_address(run: RunFolder) -> str:
    """The address by which the other machines of the run reach this one."""
    if run.record.local:
        return _HERE
    with suppress(OSError):
        address = socket.gethostbyname(platform.node())
        if not address.startswith("127."):
            return address
    from distributed.utils import get_ip

    return str(get_ip())
