"""What `cluster up` would do: the spec is compared with what was observed; nothing is changed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from gpuprov import __version__
from gpuprov.cluster.choice import describe_choice
from gpuprov.cluster.files import planned_members
from gpuprov.cluster.node_limits import crowding_line
from gpuprov.cluster.plan import plan_cluster
from gpuprov.cluster.recorded_changes import refuse_handed_on
from gpuprov.cluster.room import refuse_without_room
from gpuprov.cluster.service_folders import look_and_plan_folders
from gpuprov.cluster.shared_addresses import refuse_shared_addresses
from gpuprov.lifecycle.image_age import find_older
from gpuprov.lifecycle.out_of_service import Leave
from gpuprov.roles.crew import Crew
from gpuprov.roles.departure import Departure
from gpuprov.roles.registry import find_role_images
from gpuprov.spec.draft import Draft

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.cluster.images import MissingImages
    from gpuprov.cluster.observed import Observed
    from gpuprov.cluster.part import ClusterPart
    from gpuprov.cluster.plan import Plan
    from gpuprov.cluster.service_folders import FoldersPlan
    from gpuprov.cluster.state import ClusterState
    from gpuprov.machine.overlay.plan import OverlayRequest
    from gpuprov.roles.registry import Roles
    from gpuprov.shapes.cluster_spec import ClusterSpec
    from gpuprov.shapes.engine import ImageState


@dataclass(frozen=True, kw_only=True)
class PlanOrder:
    """What a cluster is to become.

    Attributes:
        left: Paths of values of the spec that nobody has said, to be chosen.
        part: What this host is to do of a cluster that spans hosts; `spec` is then this host's.
        prune: Remove nodes from create-node and clone that the spec does not have.
        again: Nodes to replace by new ones of the same name, from which nothing can be lost any more: whoever asks for
            this holds them, and no job runs there.
        gives_up: Do without the options of nodes that this version does not know; else such a cluster is refused.
    """

    spec: ClusterSpec
    left: frozenset[str] = frozenset()
    part: ClusterPart | None = None
    prune: bool = False
    again: tuple[str, ...] = ()
    gives_up: bool = False

    @property
    def draft(self) -> Draft:
        """The spec with what was left open in it."""
        return Draft(spec=self.spec, left=self.left)


@dataclass(frozen=True, kw_only=True)
class UpPlan:
    """What is asked for, what is there, and the difference.

    Attributes:
        spec: With nothing left open.
        todo: What nodes and networks lack.
        crew: The nodes whose files this host's nodes have, of all hosts.
        overlay: This host's end of the network between hosts.
        leaves: The nodes that are to be removed or restarted, if there are any, and those whose jobs would be
            forgotten.
        images: Those of new nodes, by role.
        missing: Those of them that are missing.
    """

    order: PlanOrder
    observed: Observed
    spec: ClusterSpec
    todo: Plan
    folders: FoldersPlan
    crew: Crew
    overlay: OverlayRequest | None
    leaves: tuple[Leave, ...]
    images: Mapping[str, ImageState] = field(default_factory=dict)
    missing: MissingImages | None = None

    @property
    def choice(self) -> str:
        """What was chosen other than usual, in a sentence."""
        return describe_choice(self.order.draft, self.spec) if self.todo.networks.create else ""

    @property
    def reuse(self) -> str:
        """What an earlier cluster left in the folder of a new one, in a sentence."""
        new = self.todo.networks.create and not self.observed.state.nodes
        return self.folders.share.reuse_note() if new else ""

    @property
    def crowding(self) -> str:
        """That nodes will have more processes than the host, if so and this changes any."""
        if not (self.todo.create or self.todo.repair):
            return ""
        promised = [design.limits.processes for design in self.todo.members]
        promised += [node.limits.processes for node in self.observed.state.others if node.ours]
        return crowding_line(promised, self.observed.host.limits())

    @property
    def beside(self) -> tuple[str, ...]:
        """One line for each node that stays though it is none of the spec, or not as that has it."""
        return (*self.todo.beside_lines(), *self.todo.role_lines(self.spec.nodes.role))

    def find_older(self) -> dict[str, str]:
        """The nodes that stay with an older image, and what it lacks."""
        found = find_older(self.observed.driver, self.observed.state, self.spec)
        return {name: lack for name, lack in found.items() if name not in self.todo.remove}

    def with_images(self) -> UpPlan:
        """The same, with the images of new nodes, as far as there are any."""
        roles = (design.role for design in self.todo.create)
        seen = self.observed
        images, missing = find_role_images(seen.driver, self.spec, roles, seen.gpus, seen.built)
        return replace(self, images=images, missing=missing)


def plan_up(order: PlanOrder, spec: ClusterSpec, observed: Observed, roles: Roles) -> UpPlan:
    """Compare, and refuse what clashes with the host.

    Args:
        spec: The same with nothing left open.
        observed: What is there.
        roles: What nodes are for.

    Raises:
        GpuprovError: It cannot be done as it was ordered.
    """
    driver, host, state, part = observed.driver, observed.host, observed.state, order.part
    place = observed.place(roles.mounts(spec), nodes=len(part.nodes) if part else spec.nodes.count)
    refuse_handed_on(spec, state.recorded)
    todo = plan_cluster(
        spec,
        state,
        part.place(place) if part else place,
        version=__version__,
        expect=driver,
        prune=order.prune,
        again=order.again,
        gives_up=order.gives_up,
    )
    refuse_without_room(driver, host, nodes=len(todo.create))
    starting = [*todo.start, *todo.restart]
    refuse_shared_addresses(starting, (*state.nodes, *state.others), command=driver.command)
    members = planned_members(todo)
    there = part.whole.reachable_members() if part else members
    crew = Crew(spec=spec, members=there, sssd=part.sssd if part else "")
    if part is None or part.matches(members):  # else the hosts have yet to agree
        roles.refuse_crew(crew)
    return UpPlan(
        order=order,
        observed=observed,
        spec=spec,
        todo=todo,
        folders=look_and_plan_folders(observed, spec, todo.members, roles.service_folders(spec)),
        crew=crew,
        overlay=part.overlay(driver) if part else None,
        leaves=_find_leaves(spec, state, todo, roles),
    )


def _find_leaves(spec: ClusterSpec, state: ClusterState, todo: Plan, roles: Roles) -> tuple[Leave, ...]:
    forgetting, forgotten = roles.find_forgetting(state, spec)
    remove = [name for name in todo.remove if name not in todo.replace]
    departure = Departure(
        nodes=tuple(dict.fromkeys((*remove, *todo.restart, *forgetting))),
        lost=tuple(dict.fromkeys((*remove, *forgotten))),
    )
    return (Leave(state=state, departure=departure),) if departure.nodes else ()
