"""Keep jobs from starting on nodes that are about to leave, see which run there, and have Slurm know how they end."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from gpuprov.cluster import services
from gpuprov.core.errors import EngineError, UsageError
from gpuprov.core.names import expand_names
from gpuprov.core.side_by_side import ask_side_by_side
from gpuprov.roles.slurm.daemons import ANSWER_BUDGET_S, resume, run_slurm
from gpuprov.roles.slurm.words import (
    COLUMNS,
    FORMAT,
    STARTED,
    STOPPED,
    WAITING,
    drain_reason,
    parse_jobs,
    parse_steps,
    parse_words,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from gpuprov.drivers.base import Driver
    from gpuprov.roles.departure import Job
    from gpuprov.roles.slurm.words import NodeWord, QueuedJob

_WORKERS = 16
_MOST_JOBS = 10_000  # a controller holds no more unless somebody sets MaxJobCount; the host's lock is held meanwhile
# Without a controller nobody starts jobs, but those that it started go on: slurmd runs each step as a process.
_STEPS = """for p in /proc/[0-9]*; do
read -r name <"$p/comm" && [ "$name" = slurmstepd ] && tr '\\0\\n' '  ' <"$p/cmdline" && echo
done 2>/dev/null; true"""


def ask_words(driver: Driver, controller: str) -> dict[str, NodeWord]:
    """What Slurm says of each node.

    Raises:
        GpuprovError: The controller does not answer.
    """
    return parse_words(run_slurm(driver, controller, ["sinfo", "-h", "-N", "-o", FORMAT]))


def take_out_of_service(driver: Driver, controller: str, names: Collection[str]) -> tuple[str, ...]:
    """Drain those of the nodes that Slurm has and nobody has drained; returns all that a killed run had drained.

    Those whose host is unreachable take no jobs, and stay as they are: they are known by their reason.

    Raises:
        GpuprovError: Slurm does not answer, or refused.
    """
    words = ask_words(driver, controller)
    open_ones = [name for name in sorted(names) if name in words and not (words[name].drained or words[name].away)]
    if open_ones:
        nodes = f"nodename={','.join(open_ones)}"
        run_slurm(driver, controller, ["scontrol", "update", nodes, "state=drain", f"reason={drain_reason()}"])
    return tuple(name for name, word in words.items() if word.abandoned)


def queued_jobs(driver: Driver, controller: str, names: Collection[str], *, queue: bool) -> tuple[Job, ...]:
    """The jobs that end with nodes: those on them, and those whose srun or salloc runs on one.

    Args:
        driver: Reaches the controller.
        controller: The node that has it.
        names: The nodes.
        queue: Whether the controller's queue goes as well, and with it every job.

    Raises:
        GpuprovError: Slurm does not answer.
    """
    states = f"{STARTED},{WAITING}" if queue else STARTED
    found = _list_jobs(driver, controller, "-t", states)
    return tuple(entry.job for entry in found if queue or ends_with(entry, names))


def _list_jobs(driver: Driver, controller: str, *options: str) -> tuple[QueuedJob, ...]:
    found = parse_jobs(run_slurm(driver, controller, ["squeue", "-h", *options, "--Format", COLUMNS]))
    if len(found) > _MOST_JOBS:
        raise EngineError(
            f"`squeue` lists too many jobs on {controller}, which runs Slurm's controller",
            evidence=f"{len(found)} jobs; at most {_MOST_JOBS} are examined",
            fix=services.status_command(driver, controller, "slurmctld"),
        )
    return found


def ends_with(entry: QueuedJob, names: Collection[str]) -> bool:
    """Whether a job ends with one of these nodes; one of which it is not known where it runs does."""
    if entry.client in names:
        return True
    try:
        return bool(set(expand_names(entry.job.place)) & set(names))
    except UsageError:  # a list of nodes that is too long to be shown, or is none
        return True


def find_steps(driver: Driver, names: Sequence[str]) -> tuple[Job, ...]:
    """The jobs that run on nodes although there is no controller: seen from within.

    Raises:
        GpuprovError: A node does not answer.
    """

    def ask(name: str) -> tuple[Job, ...]:
        return parse_steps(driver.run(name, ["sh", "-c", _STEPS], timeout_s=ANSWER_BUDGET_S).stdout, name)

    found = ask_side_by_side([partial(ask, name) for name in names], workers=_WORKERS)
    return tuple(job for jobs in found for job in jobs)


def end_jobs(driver: Driver, controller: str, names: Sequence[str], jobs: Sequence[Job]) -> tuple[str, ...]:
    """Have Slurm end jobs now: what it can requeue waits again; returns the ids of those.

    A node that is marked DOWN loses its jobs at once; that it is drained stays.

    Raises:
        GpuprovError: Slurm does not answer, or refused.
    """
    here = [name for name in names if name in ask_words(driver, controller)]
    if here:
        down = ["scontrol", "update", f"nodename={','.join(here)}", "state=down", f"reason={drain_reason()}"]
        run_slurm(driver, controller, down)
    ids = {job.id for job in jobs if job.id.replace("_", "").isdecimal()}
    if not ids:
        return ()
    left = _list_jobs(driver, controller, "-t", STARTED)
    running = [entry.job.id for entry in left if entry.job.id in ids and not entry.job.ending]
    if running:
        run_slurm(driver, controller, ["scancel", *running])
    waiting = _list_jobs(driver, controller, "-r", "-t", WAITING)
    return tuple(entry.job.id for entry in waiting if entry.job.id in ids)


def cancel_jobs(driver: Driver, controller: str, jobs: Sequence[Job]) -> None:
    """Cancel jobs, waiting or running; raises GpuprovError where Slurm does not answer, or refuses."""
    run_slurm(driver, controller, ["scancel", *(job.id for job in jobs)])


def put_back_in_service(
    driver: Driver, controller: str, *, running: Collection[str], stopped: Collection[str]
) -> tuple[str, ...]:
    """Let nodes take jobs that gpuprov drained and no other process needs so; returns their names.

    A node that is unreachable is DOWN: Slurm would believe for a minute that it is there, and start jobs. It takes it
    back when it registers.

    Raises:
        GpuprovError: Slurm does not answer, or refused.
    """
    ours = [name for name, word in ask_words(driver, controller).items() if word.abandoned or word.own]
    back, away = ([name for name in ours if name in names] for names in (running, stopped))
    if back:
        resume(driver, controller, back)
    if away:
        nodes = f"nodename={','.join(away)}"
        run_slurm(driver, controller, ["scontrol", "update", nodes, "state=down", f"reason={drain_reason()}"])
        run_slurm(driver, controller, ["scontrol", "update", nodes, "state=undrain", f"reason={STOPPED}"])
    return (*back, *away)
