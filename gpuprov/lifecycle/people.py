"""Bring running nodes to the people of their cluster: accounts, keys and folders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpuprov.cluster.people_files import APPLIED, SETTLE, is_about_people
from gpuprov.cluster.state import observe_cluster
from gpuprov.core.errors import EngineError
from gpuprov.core.excerpt import LINE, excerpt
from gpuprov.core.side_by_side import each
from gpuprov.drivers.base import LABEL_ROLE, File
from gpuprov.roles.base import Departure, spec_of
from gpuprov.roles.registry import roles_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuprov.cluster.state import ClusterState
    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver
    from gpuprov.roles.base import FilesOf, Job, Role

_SETTLE_S: Final = 60.0
_TOLD: Final = 5  # troubles of a node in lines of their own


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
            each(lambda name: _settle(driver, name, lacking[name], reporter), names)
            each(lambda name: driver.push(name, [file for file in files(name) if file.path == APPLIED]), names)


def find_jobs_of(driver: Driver, cluster: str, person: str) -> tuple[Job, ...]:
    """The jobs of somebody that run or wait.

    Args:
        driver: Reaches the node that takes the cluster's jobs.

    Raises:
        GpuprovError: Nobody can tell.
    """
    return tuple(job for _, _, jobs in _jobs_of(driver, cluster, person) for job in jobs)


def cancel_jobs_of(driver: Driver, cluster: str, person: str) -> None:
    """Cancel them; raises GpuprovError where that could not be said."""
    for role, state, jobs in _jobs_of(driver, cluster, person):
        role.cancel_jobs(driver, state, jobs)


def _jobs_of(driver: Driver, cluster: str, person: str) -> list[tuple[Role, ClusterState, tuple[Job, ...]]]:
    state = observe_cluster(driver, cluster)
    found = []
    for role in roles_of(node.labels.get(LABEL_ROLE, "") for node in state.nodes):
        names = tuple(node.name for node in state.nodes)
        everything = Departure(nodes=names, lost=(*names, *role.controller_names(spec_of(state))))
        jobs = role.jobs(driver, state, everything) if role.has_people else ()
        found.append((role, state, tuple(job for job in jobs if job.user == person)))
    return found


def _settle(driver: Driver, name: str, files: Sequence[File], reporter: Reporter) -> None:
    driver.push(name, [File(path=APPLIED, content=b"")])
    driver.push(name, [file for file in files if file.path != APPLIED])
    result = driver.run(name, [SETTLE], cwd="/", timeout_s=_SETTLE_S)
    if result.exit_code:
        raise EngineError(
            f"the folders of people could not be made on {name}",
            evidence=excerpt((result.stderr or result.stdout)[-LINE:].strip() or f"exit status {result.exit_code}"),
            fix=f"gpuprov exec {name} -- {SETTLE}",
        )
    troubles = [line for line in result.stdout.splitlines() if line.strip()]
    for line in troubles[:_TOLD]:
        reporter.warn(f"{name}: {excerpt(line, LINE)}")
    if len(troubles) > _TOLD:
        reporter.warn(f"{name}: {len(troubles) - _TOLD} more; all of them: gpuprov verify")
