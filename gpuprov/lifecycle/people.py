"""Bring running nodes to the people of their cluster: accounts, keys and folders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpuprov.cluster.people_files import APPLIED, SETTLE, is_about_people
from gpuprov.cluster.state import observe_cluster
from gpuprov.core.errors import EngineError
from gpuprov.core.excerpt import LINE, excerpt
from gpuprov.core.names import fold, name_cluster
from gpuprov.core.nearest import ask_back
from gpuprov.core.side_by_side import each
from gpuprov.drivers.base import LABEL_ROLE, File
from gpuprov.roles.base import spec_of
from gpuprov.roles.departure import Departure
from gpuprov.roles.registry import roles_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from gpuprov.cluster.state import ClusterState
    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver
    from gpuprov.roles.base import FilesOf, Role
    from gpuprov.roles.departure import Job
    from gpuprov.shapes.cluster_spec import ClusterSpec
    from gpuprov.shapes.whole import Member

_SETTLE_S: Final = 60.0
_TOLD: Final = 5  # troubles in lines of their own


def settle_people(driver: Driver, stale: Mapping[str, Sequence[File]], files: FilesOf, *, reporter: Reporter) -> None:
    """Write what nodes lack of the files about people, and have them make folders and end what is left of others.

    A digest is taken away first and written last, so that a run that is killed in between is seen by the next.

    Args:
        driver: Reaches the nodes.
        stale: By node, the files that it lacks or has otherwise; those about other things are left alone.
        files: All files of a node as they are to be.
        reporter: Is told of folders that belong to somebody else, which stay as they are.

    Raises:
        EngineError: A node could not do it.
    """
    lacking = {name: [file for file in files if is_about_people(file)] for name, files in stale.items()}
    names = [name for name, files in lacking.items() if files]
    if names:
        with reporter.phase("people"):
            troubles: dict[str, list[str]] = {}
            each(lambda name: troubles.update({name: _settle(driver, name, lacking[name])}), names)
            _tell(troubles, reporter)
            each(lambda name: driver.push(name, [file for file in files(name) if file.path == APPLIED]), names)


def _tell(troubles: Mapping[str, Sequence[str]], reporter: Reporter) -> None:
    """Warn of each trouble once, with the nodes that say it: all of them have the same shared folder."""
    nodes: dict[str, list[str]] = {}
    for name, lines in sorted(troubles.items()):
        for line in lines:
            nodes.setdefault(line, []).append(name)
    told = [f"{fold(names)}: {excerpt(line, LINE)}" for line, names in nodes.items()]
    for line in told[:_TOLD]:
        reporter.warn(line)
    if len(told) > _TOLD:
        reporter.warn(f"people: {len(told) - _TOLD} more; all of them: gpuprov verify")


def login_notes(spec: ClusterSpec, members: Collection[Member]) -> tuple[str, ...]:
    """That the node to which people log in is not there, where it is not: a line."""
    login, names = spec.slurm.login, [member.name for member in members]
    if login is None or login in names:
        return ()
    create = name_cluster(f"gpuprov create-node {login} --role {spec.nodes.role} --gpus 0", spec.name)
    return (f"slurm.login names {login}, which is no node{ask_back([login], names)}; to create it: {create}",)


def find_jobs_of(driver: Driver, cluster: str, *people: str) -> tuple[Job, ...]:
    """The jobs of people that run or wait.

    Args:
        driver: Reaches the node that takes the cluster's jobs.

    Raises:
        GpuprovError: Nobody can tell.
    """
    return tuple(job for _, _, jobs in _jobs_of(driver, cluster, people) for job in jobs)


def cancel_jobs_of(driver: Driver, cluster: str, person: str) -> None:
    """Cancel them; raises GpuprovError where that could not be said."""
    for role, state, jobs in _jobs_of(driver, cluster, [person]):
        role.cancel_jobs(driver, state, jobs)


def _jobs_of(driver: Driver, cluster: str, people: Collection[str]) -> list[tuple[Role, ClusterState, tuple[Job, ...]]]:
    state = observe_cluster(driver, cluster)
    found = []
    for role in roles_of(node.labels.get(LABEL_ROLE, "") for node in state.nodes):
        names = tuple(node.name for node in state.nodes)
        everything = Departure(nodes=names, lost=(*names, *role.controller_names(spec_of(state))))
        jobs = role.jobs(driver, state, everything)
        found.append((role, state, tuple(job for job in jobs if job.user in people)))
    return found


def _settle(driver: Driver, name: str, files: Sequence[File]) -> list[str]:
    """Returns what stays somebody else's, a line for each folder."""
    driver.push(name, [File(path=APPLIED, content=b"")])
    driver.push(name, [file for file in files if file.path != APPLIED])
    result = driver.run(name, [SETTLE], cwd="/", timeout_s=_SETTLE_S)
    if result.exit_code:
        raise EngineError(
            f"the folders of people could not be made on {name}",
            evidence=excerpt((result.stderr or result.stdout)[-LINE:].strip() or f"exit status {result.exit_code}"),
            fix=f"gpuprov exec {name} -- {SETTLE}",
        )
    return [line for line in result.stdout.splitlines() if line.strip()]
