"""Slurm on the cluster's nodes: bring changed files to running nodes, and wait until every node is ready."""

from __future__ import annotations

import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from gpuprov.cluster import services
from gpuprov.cluster.secrets import MUNGE_KEY
from gpuprov.core.errors import EngineError, UsageError
from gpuprov.core.names import fold
from gpuprov.core.side_by_side import each
from gpuprov.core.waiting import Wait
from gpuprov.drivers.base import File
from gpuprov.planes.slurm.files import APPLIED
from gpuprov.spec.addressing import node_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver
    from gpuprov.planes.slurm.files import Member
    from gpuprov.spec.models import ClusterSpec

READY = frozenset({"idle", "mixed", "allocated", "completing"})
_READY_BUDGET_S = 90.0
_COMMAND_BUDGET_S = 30.0
_WORKERS = 8
_FOLDERS = ("/etc/slurm/", "/etc/munge/")
# While there is no controller yet, sinfo asks again a second later, and for ten seconds; ping ends at once.
_STATES = "scontrol ping >/dev/null 2>&1 && exec sinfo -h -N -o '%N %T'"
_LOOK = 'sha256sum -- "$@"; stat -c "%a %u:%g %n" -- "$@"'


def node_states(driver: Driver, controller: str) -> dict[str, str]:
    """Slurm's word for each node, such as `idle` or `down*`; empty while the controller does not answer."""
    result = driver.run(controller, ["sh", "-c", _STATES], timeout_s=_COMMAND_BUDGET_S)
    if result.exit_code:
        return {}
    return dict(line.split() for line in result.stdout.splitlines() if line.strip())


def is_ready(state: str) -> bool:
    """Whether a node takes or runs jobs; `*` marks a node that does not answer."""
    return state in READY


def wait_ready(driver: Driver, controller: str, names: Sequence[str], reporter: Reporter) -> None:
    """Wait until Slurm takes jobs on every node.

    Raises:
        TimedOut: With each node's last state.
    """

    def observe() -> dict[str, str]:
        states = node_states(driver, controller)
        for name in names:
            reporter.node(name, states.get(name, "unknown to Slurm"))
        return {name: states.get(name, "unknown") for name in names}

    Wait(
        what=f"Slurm to be ready on {len(names)} nodes",
        timeout_s=_READY_BUDGET_S,
        fix=f"gpuprov exec {controller} -- sinfo -R; {services.log_command(driver, controller)}",
    ).until(observe, lambda states: all(is_ready(state) for state in states.values()))


def refuse_running_jobs(driver: Driver, controller: str, names: Sequence[str]) -> None:
    """Refuse to take nodes away under a running job.

    Raises:
        UsageError: A job runs on one of them.
    """
    argv = ["squeue", "-h", "-t", "running,completing", "-w", ",".join(names), "-o", "%i on %N"]
    result = driver.run(controller, argv, timeout_s=_COMMAND_BUDGET_S)
    jobs = result.stdout.strip()
    if result.exit_code == 0 and jobs:
        raise UsageError(
            f"jobs are running on nodes that would be removed or restarted: {', '.join(names)}",
            evidence=jobs,
            fix=f"wait for them, or cancel them: gpuprov exec {controller} -- scancel JOB",
        )


def controller_name(spec: ClusterSpec) -> str:
    """The node on which slurmctld runs."""
    return node_name(spec.nodes.prefix, spec.slurm.controller)


def renew_files(
    driver: Driver,
    spec: ClusterSpec,
    members: Sequence[Member],
    old: Sequence[str],
    files: Callable[[str], Sequence[File]],
    *,
    reporter: Reporter,
) -> tuple[str, ...]:
    """Bring files to nodes that were there before, restart the daemons that read them, and wait until Slurm is ready.

    The digest of what the daemons have read is taken away first and written last, so that a run killed in between, or
    daemons that have read what somebody else wrote, are seen and repaired by the next.

    Args:
        driver: Reaches the nodes.
        spec: Names the controller.
        members: Every node of the cluster.
        old: Those that run and may hold older files.
        files: The required files, by node.
        reporter: Hears each node's state.

    Returns:
        One line for each set of files that nodes lacked.
    """
    stale = outdated(driver, old, files)
    names = [member.name for member in members if member.slurm]
    renewed = [name for name in names if any(file.path.startswith(_FOLDERS) for file in stale.get(name, ()))]
    each(lambda name: driver.push(name, [File(path=APPLIED, content=b"")]), renewed)
    each(lambda name: driver.push(name, [file for file in stale[name] if file.path != APPLIED]), list(stale))
    if renewed:
        each(
            lambda name: _restart(driver, name, "munge"),
            [name for name in renewed if MUNGE_KEY in [file.path for file in stale[name]]],
        )
        restart_daemons(driver, controller_name(spec), renewed)
        each(lambda name: driver.push(name, [file for file in files(name) if file.path == APPLIED]), renewed)
    if controller_name(spec) in names:  # else nobody can be asked
        wait_ready(driver, controller_name(spec), names, reporter)
    return renewal_lines(stale)


def renewal_lines(stale: Mapping[str, Sequence[File]]) -> tuple[str, ...]:
    """Lines of a plan or an outcome: one for each set of files, with the nodes that lack them."""
    nodes: dict[str, list[str]] = {}
    for name, files in stale.items():
        paths = ", ".join(file.path for file in files if file.path != APPLIED)
        nodes.setdefault(f"renew {paths}" if paths else "restart Slurm", []).append(name)
    return tuple(f"{change} on {fold(names)}" for change, names in nodes.items())


def outdated(driver: Driver, names: Iterable[str], files: Callable[[str], Sequence[File]]) -> dict[str, list[File]]:
    """Which of its files each running node has not, or has otherwise; nodes with all of them are left out."""

    def look(name: str) -> tuple[str, list[File]]:
        wanted = files(name)
        argv = ["sh", "-c", _LOOK, "sh", *(file.path for file in wanted)]
        said = driver.run(name, argv, timeout_s=_COMMAND_BUDGET_S).stdout.splitlines()
        return name, [file for file in wanted if not set(_describe(file)) <= set(said)]

    with ThreadPoolExecutor(_WORKERS) as pool:
        return {name: stale for name, stale in pool.map(look, names) if stale}


def _describe(file: File) -> tuple[str, str]:
    """The output of `_LOOK` for a correct file."""
    digest = hashlib.sha256(file.content).hexdigest()
    return f"{digest}  {file.path}", f"{file.mode:o} {file.uid}:{file.gid} {file.path}"


def restart_daemons(driver: Driver, controller: str, names: Iterable[str]) -> None:
    """Make running daemons read changed files; jobs go on, as slurmd's steps outlive it.

    slurmctld comes first: a slurmd that asks about nodes its controller does not know is refused.

    Raises:
        EngineError: A daemon did not come back.
    """
    _restart(driver, controller, "slurmctld")
    each(lambda name: _restart(driver, name, "slurmd"), list(names))


def _restart(driver: Driver, name: str, service: services.Service) -> None:
    result = services.restart(driver, name, service)
    if result.exit_code:
        log = services.read_log(driver, name, service)
        raise EngineError(
            f"{service} did not restart on {name}",
            evidence=json.dumps((result.stdout + result.stderr + log)[-1500:]),
            fix=services.status_command(driver, name, service),
        )
