"""The containers of `gpuprov run` on this host: which there are, what they wrote, and how they end."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from gpuprov.cluster.find_engine import absent_beside_silence, warn_of_silence
from gpuprov.cluster.held_gpus import gpu_paths, leased_uuids
from gpuprov.core.all_faults import AllFaults
from gpuprov.core.errors import UsageError
from gpuprov.core.names import name_of_run, node_of_run
from gpuprov.core.nearest import ask_back
from gpuprov.core.outcome import Outcome, with_forced
from gpuprov.drivers.base import LABEL_ACCESS, LABEL_DETACHED, LABEL_IMAGE, LABEL_ROLE, LABEL_SHARING, ROLE_JOB
from gpuprov.lifecycle.run_record import note_runs, on_record
from gpuprov.machine.survey import Survey, survey
from gpuprov.shapes.runs import RunRow

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from gpuprov.core.errors import GpuprovError
    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver, JobState, NodeState, Stream
    from gpuprov.machine.base import Host
    from gpuprov.shapes.node import Exposure
    from gpuprov.shapes.run_order import EndRunsOrder, RunOrder

_ALIVE = ("running", "restarting", "paused")


def _row(job: JobState, *, engine: str, host: str) -> RunRow:
    node = job.node
    held = leased_uuids(node)
    return RunRow(
        name=name_of_run(node.name),
        node=node.name,
        host=host,
        engine=engine,
        state=job.state,
        status=job.words,
        exit_code=job.exit_code,
        detached=LABEL_DETACHED in node.labels,
        gpus=held,
        devices=gpu_paths(node.devices),
        sharing=node.labels.get(LABEL_SHARING, "") if held else "",
        simulated=bool(held) and node.labels.get(LABEL_ACCESS) == "simulated",
        image=node.labels.get(LABEL_IMAGE, ""),
        command=job.command,
        created=job.created,
        ports=node.exposed,
    )


def refuse_taken(order: RunOrder, driver: Driver, nodes: Iterable[NodeState], host: Host) -> None:
    """Refuse a name or ports that something else has; all of it is told.

    Args:
        nodes: All that the engine has.

    Raises:
        UsageError: There is something.
    """
    there = list(nodes)
    faults = AllFaults()
    faults.found(lambda: _refuse_name(order.name, driver, there))
    for exposure in order.published:
        faults.found(partial(_refuse_port, exposure, driver, there, host))
    faults.tell("nothing was started")


def _refuse_name(name: str, driver: Driver, nodes: Iterable[NodeState]) -> None:
    for node in nodes:
        if not name or node.name not in (name, node_of_run(name)):
            continue
        if is_run(node):
            raise UsageError(
                f"the name {name} is taken by another container of `gpuprov run`",
                evidence=f"{node.name} in {driver.name} is {node.status}",
                fix=f"choose another --name, or remove that one: gpuprov run rm {name}",
            )
        if node.name == node_of_run(name):
            raise UsageError(
                f"the name {name} is taken",
                evidence=f"{driver.name} has a container {node.name} that gpuprov did not make",
                fix="choose another --name",
            )


def _refuse_port(exposure: Exposure, driver: Driver, nodes: Sequence[NodeState], host: Host) -> None:
    port = exposure.host_port
    for node in nodes:
        if port in [taken.host_port for taken in node.exposed]:
            raise UsageError(
                f"port {port} of the host is already forwarded",
                evidence=f"{driver.name} forwards it to {node.name}, which is {node.status}",
                fix="choose another port of the host: --publish HOST:CONTAINER",
            )
    listener = host.listener(exposure.listen, port)
    if listener:
        raise UsageError(
            f"port {port} of the host is in use",
            evidence=listener,
            fix="choose another port of the host: --publish HOST:CONTAINER",
        )


def is_run(node: NodeState) -> bool:
    """Whether it is a container of `gpuprov run`."""
    return node.labels.get(LABEL_ROLE) == ROLE_JOB


@dataclass(frozen=True, kw_only=True)
class RunsHere:
    """What the engines of a host have.

    Attributes:
        jobs: By engine.
        errors: Why engines that are installed do not answer, which may have some.
    """

    jobs: tuple[tuple[Driver, tuple[JobState, ...]], ...]
    errors: Mapping[str, GpuprovError]

    def rows(self, *, host: str) -> tuple[RunRow, ...]:
        """All of them."""
        return tuple(_row(job, engine=driver.name, host=host) for driver, jobs in self.jobs for job in jobs)

    @property
    def by_name(self) -> dict[str, tuple[Driver, JobState]]:
        """All of them, by the name that people use."""
        return {name_of_run(job.node.name): (driver, job) for driver, jobs in self.jobs for job in jobs}

    def get(self, names: Sequence[str]) -> dict[str, tuple[Driver, JobState]]:
        """Those of these names; the engine's own name of one, as `docker ps` and `gpuprov gpus` show it, does as well.

        Raises:
            UsageError: There is none of a name.
            EngineError: Nor is there, and an engine does not answer.
        """
        wanted, known = list(dict.fromkeys(map(name_of_run, names))), self.by_name
        absent = [name for name in wanted if name not in known]
        if absent:
            raise absent_runs(absent, known, self.errors)
        return {name: known[name] for name in wanted}


def look_at_runs(host: Host, *, reporter: Reporter) -> RunsHere:
    """Ask all engines of a host, side by side; those that do not answer are named.

    Raises:
        GpuprovError: None answers.
    """
    seen = survey(host.engines, lambda driver: (driver, tuple(driver.list_jobs())))
    seen.require_answer()
    warn_of_silence(seen.errors, reporter)
    return RunsHere(jobs=tuple(seen.answers.values()), errors=seen.errors)


def absent_runs(names: Sequence[str], there: Iterable[str], errors: Mapping[str, GpuprovError]) -> GpuprovError:
    """The error where no container has these names; one may be on an engine that does not answer.

    Args:
        names: What was typed.
        there: Names that some have.
        errors: Why engines do not answer.
    """
    if errors:
        seen = Survey[object](answers={}, errors=errors, absent={})
        return absent_beside_silence(f"container {', '.join(names)} of `gpuprov run`", seen)
    known = sorted(there)
    return UsageError(
        f"`gpuprov run` has no container {', '.join(names)}{ask_back(names, known)}",
        evidence=f"containers: {', '.join(known) or 'none'}",
        fix="list them: gpuprov run ps; nodes: gpuprov list",
    )


def note_absent(names: Sequence[str], there: Collection[str], *, reporter: Reporter) -> tuple[str, ...]:
    """Those of the names that are there; the others are said."""
    for name in names:
        if name_of_run(name) not in there:
            reporter.note(f"`gpuprov run` has no container {name}")
    return tuple(name for name in names if name_of_run(name) in there)


def show_run_log(
    host: Host,
    name: str,
    *,
    follow: bool,
    tail: int | None,
    write: Callable[[Stream, bytes], object],
    reporter: Reporter,
) -> None:
    """Hand on what one has written, and with `follow` what it writes until it ends.

    Raises:
        UsageError: There is none of that name.
    """
    ((driver, job),) = look_at_runs(host, reporter=reporter).get([name]).values()
    driver.read_job_log(job.node.name, follow=follow, tail=tail, write=write)


def end_runs(order: EndRunsOrder, host: Host, *, reporter: Reporter) -> Outcome:
    """Stop some, whose leases stay as long as they exist, or remove some with their leases.

    One that is to be removed and is not there (any more) is no error, and is said.

    Raises:
        UsageError: There is none of a name, or one that is to be removed runs; nothing was changed.
    """
    there = look_at_runs(host, reporter=reporter)
    names = order.names
    if order.act == "rm" and not there.errors:
        names = note_absent(names, there.by_name, reporter=reporter)
    found = there.get(names)
    faults = AllFaults()
    if order.act == "rm" and not order.force:
        for _, job in found.values():
            faults.found(partial(_refuse_running, job))
    faults.tell("nothing was removed")
    with reporter.phase("stop" if order.act == "stop" else "remove"):
        if order.act == "stop":
            alive = {name: known for name, known in found.items() if known[1].state != "exited"}
            changed = [_stop(driver, name, job, host, reporter) for name, (driver, job) in alive.items()]
        else:
            changed = [_remove(driver, name, job, host, reporter) for name, (driver, job) in found.items()]
    return Outcome(changed=tuple(changed))


def _refuse_running(job: JobState) -> None:
    if job.state in _ALIVE:
        name = name_of_run(job.node.name)
        raise UsageError(
            f"{name} has not ended",
            evidence=f"{job.node.name}: {job.words}",
            fix=f"gpuprov run stop {name}; gpuprov run rm {name}; or end it now: gpuprov run rm --force {name}",
        )


def _stop(driver: Driver, name: str, job: JobState, host: Host, reporter: Reporter) -> str:
    forced = driver.stop_node(job.node.name)
    if leased_uuids(job.node):
        note_runs(driver, [job.node.name], host, reporter=reporter)
    return with_forced("stopped", name, {name: forced} if forced else {})


def _remove(driver: Driver, name: str, job: JobState, host: Host, reporter: Reporter) -> str:
    with on_record(driver, [job.node.name], host, reporter=reporter) if leased_uuids(job.node) else nullcontext():
        driver.delete_node(job.node.name)
    return f"removed {name}"
