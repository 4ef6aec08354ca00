"""Where a cluster takes jobs, and where the page of its queue is, whatever its nodes are for."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from gpuprov.cluster.held_gpus import leased_uuids
from gpuprov.cluster.state import observe_cluster, pick_nodes
from gpuprov.cluster.whole import members_elsewhere
from gpuprov.core.errors import UsageError
from gpuprov.core.names import name_cluster
from gpuprov.drivers.base import LABEL_ROLE
from gpuprov.lifecycle.sssd import enter_directory_home
from gpuprov.roles.registry import roles_of
from gpuprov.shapes.cluster_spec import ClusterSpec, JobsSpec
from gpuprov.spec.people import home_of

if TYPE_CHECKING:
    from gpuprov.cluster.state import ClusterState
    from gpuprov.drivers.base import Driver
    from gpuprov.roles.base import Role
    from gpuprov.roles.work.job_controller import JobController
    from gpuprov.roles.work.queue_page import QueuePage
    from gpuprov.spec.spec_error import SpecError

_NAMED: Final = 20
_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,30}", re.ASCII)  # as a spec has them


def get_controller(driver: Driver, cluster: str, *, verb: str = "gpuprov jobs", person: str = "") -> JobController:
    """The controller of the first of its roles that has one; no lock is held.

    Args:
        verb: What the user typed.
        person: For whom the user acts; empty for the account of jobs.

    Raises:
        UsageError: There is no such cluster, its nodes take no jobs (now), or nobody may act for that person.
        EngineError: What takes them is missing.
    """
    state, roles = roles_of_cluster(driver, cluster, verb=verb)
    for role in roles:
        controller = role.job_controller(driver, state)
        if controller is not None:
            spec = _recorded(state)
            if person:
                _refuse_acting(driver, controller.node, spec, person)
            people = tuple(sorted(one.name for one in spec.people)) if role.has_people else ()
            folder, room = state.shared_folder, partial(role.job_room, driver, state)
            found = replace(controller, defaults=_limits(state), folder=folder, find_room=room)
            return replace(found, person=person, people=people, shares_account=not role.has_people)
    raise UsageError(
        f"the nodes of cluster {cluster} take no jobs",
        evidence=f"their roles: {', '.join(role.name for role in roles)}",
        fix=name_cluster("create nodes that do: gpuprov cluster up --role slurm", cluster),
    )


def _recorded(state: ClusterState) -> ClusterSpec:
    """What is recorded of a cluster; an empty spec where that cannot be read."""
    return state.recorded if isinstance(state.recorded, ClusterSpec) else ClusterSpec(name=state.name)


def _refuse_acting(driver: Driver, node: str, spec: ClusterSpec, person: str) -> None:
    """Refuse to act for somebody, unless the cluster's spec lets those do so who may use the engine."""
    what = f"nobody acts for {person} in cluster {spec.name}"
    names = [one.name for one in spec.people]
    has_account = any(one.name == person and not one.in_directory for one in spec.people)
    if not has_account and not (spec.sssd and _NAME.fullmatch(person)):
        add = name_cluster(f"gpuprov person list; gpuprov person add {person}", spec.name)
        raise UsageError(what, evidence=f"its people: {', '.join(sorted(names)[:_NAMED]) or 'none'}", fix=add)
    if not spec.jobs.submit_as:
        fix = name_cluster("in the spec, jobs: {submit_as: true}; then gpuprov cluster up", spec.name)
        raise UsageError(what, evidence="its spec does not have jobs.submit_as", fix=f"{fix} -f FILE")
    if not has_account and not enter_directory_home(driver, node, person):
        home = home_of(person, shared=True)
        evidence = f"neither its nodes nor its directory have an account of such a person with the home {home}"
        raise UsageError(what, evidence=evidence, fix=f"gpuprov exec {node} -- getent passwd {person}")


def _limits(state: ClusterState) -> JobsSpec | SpecError:
    """What jobs of the cluster get; nothing where it was never brought up, and an error where nobody can tell."""
    if isinstance(state.recorded, ClusterSpec):
        return state.recorded.jobs
    return state.recorded or JobsSpec()


def count_gpus(driver: Driver, cluster: str) -> int:
    """The GPUs that running nodes here and nodes of other hosts hold; 1 where there are none.

    So many jobs with a GPU run side by side.
    """
    state = observe_cluster(driver, cluster)
    here = sum(len(leased_uuids(node)) for node in state.nodes if node.status == "running")
    return max(1, here + sum(len(member.gpus) for member in members_elsewhere(state)))


def roles_of_cluster(driver: Driver, cluster: str, *, verb: str) -> tuple[ClusterState, tuple[Role, ...]]:
    """A cluster as it is, and what its nodes are for; the verb is what the user typed.

    Raises:
        UsageError: There is no such cluster, or it has no nodes.
    """
    state = observe_cluster(driver, cluster)
    return state, tuple(roles_of(node.labels.get(LABEL_ROLE, "") for node in pick_nodes(state, None, verb=verb)))


def get_queue_page(driver: Driver, cluster: str) -> QueuePage:
    """The page of the first of the cluster's roles that has one; no lock is held.

    Raises:
        UsageError: There is no such cluster, or it has no such page (now).
        EngineError: The node that would show it cannot.
    """
    state, roles = roles_of_cluster(driver, cluster, verb="gpuprov queue page")
    for role in roles:
        page = role.queue_page(driver, state)
        if page is not None:
            return page
    raise UsageError(
        f"cluster {cluster} has no queue with a page",
        evidence=f"its nodes are for: {', '.join(role.name for role in roles)}; workers have one",
        fix=name_cluster("list its jobs: gpuprov jobs", cluster),
    )
