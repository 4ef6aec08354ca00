"""`jobs pull`: what a job printed and wrote, copied to this machine; holds no lock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.core.errors import UsageError
from gpuprov.lifecycle.find_controller import get_controller
from gpuprov.project.pulled_job import PulledJob
from gpuprov.roles.work.received import receive_tree
from gpuprov.shapes.jobs import ENDED, JobPulled

if TYPE_CHECKING:
    from pathlib import Path

    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver


def pull_job(driver: Driver, cluster: str, job: str, to: Path, *, reporter: Reporter, person: str = "") -> JobPulled:
    """Copy the runs of a job that have ended and are not here yet.

    Args:
        driver: The engine.
        cluster: Name of the cluster.
        job: Its id, or that of one run.
        to: The folder that gets them; of several runs, each in a folder of its own.
        reporter: Is told what goes on.
        person: Whose job; empty for one of the account.

    Raises:
        UsageError: There is no such job, it has not ended, or something else is where it is to go.
        EngineError: It could not be read or written, or goes over a limit.
        TimedOut: Nothing moved any more.
    """
    controller = get_controller(driver, cluster, verb=f"gpuprov jobs pull {job}", person=person)
    submission = job.partition(".")[0]
    jobs = [one for one in controller.show([job]).jobs if one.submission == submission]
    is_one = "." in job or [one.id for one in jobs] == [job]
    ended = [one for one in jobs if one.state in ENDED]
    if not ended:
        raise UsageError(
            f"job {job} has not ended; nothing was copied",
            evidence=", ".join(f"{one.id} {one.state}" for one in jobs[:5]),
            fix=controller.named(f"wait for it: gpuprov jobs wait {job}"),
        )
    pulled = PulledJob(to, again=controller.named(f"gpuprov jobs pull {job}"), is_one=is_one)
    ids = {one.id.partition(".")[2] or "0": one.id for one in ended}
    wanted = pulled.lacks(ids)
    came: tuple[str, ...] = ()
    files = total_bytes = links = 0
    if wanted:
        runs = controller.runs_of(submission)
        store = f"{runs}/{next(iter(wanted))}" if is_one else runs
        with pulled.receiving() as place:
            got = receive_tree(
                controller, store, place, reporter, wants=pulled.wants(wanted), quiet=pulled.is_of_project
            )
            files, total_bytes, links = got.files, got.total_bytes, got.quiet
            came = pulled.take_in(place, wanted)
    return JobPulled(
        id=job, folder=str(pulled.folder), jobs=tuple(ids[number] for number in came), here=len(ended) - len(wanted),
        open=len(jobs) - len(ended), files=files, bytes=total_bytes, links=links,
    )  # fmt: skip
