"""The roles: the one list of what a node can be for. Specs, options, modules and docs take the roles from here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.core.errors import UsageError
from gpuprov.roles.plain import PlainRole
from gpuprov.roles.scrub_rule import scrub_rule
from gpuprov.roles.slurm.role import SlurmRole
from gpuprov.roles.worker.role import WorkerRole
from gpuprov.shapes.base import changed
from gpuprov.shapes.cluster_spec import ClusterSpec
from gpuprov.spec.draft import SHARE
from gpuprov.spec.shared_folder import PLACE, own_place, share_mount

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from gpuprov.cluster.images import MissingImages
    from gpuprov.cluster.observed import Observed
    from gpuprov.cluster.placement import Mounts
    from gpuprov.cluster.state import ClusterState
    from gpuprov.drivers.base import Driver
    from gpuprov.gpu.models import HostGpus
    from gpuprov.provision.recipe import Recipe
    from gpuprov.roles.base import Role
    from gpuprov.roles.crew import Crew
    from gpuprov.shapes.choices import RoleName
    from gpuprov.shapes.engine import ImageState
    from gpuprov.shapes.node import Mount
    from gpuprov.spec.draft import Draft
    from gpuprov.spec.rule import SpecRule
    from gpuprov.spec.shared_folder import ServiceFolder
    from gpuprov.verify.models import Rule


class Roles(dict[str, "Role"]):
    """The roles, by name; what plans need of all of them together."""

    def mounts(self, spec: ClusterSpec) -> Mounts:
        """The folder that nodes share, by the roles whose nodes do; those of services, by role and name of a node."""
        found: dict[RoleName | tuple[RoleName, str], tuple[Mount, ...]] = {}
        for role in self.values():
            if role.shares:
                found[role.name] = share_mount(spec)
            folders = role.service_folders(spec)
            for node in {node for folder in folders for node in folder.nodes}:
                found[role.name, node] = tuple(folder.mount for folder in folders if node in folder.nodes)
        return found

    def service_folders(self, spec: ClusterSpec) -> tuple[ServiceFolder, ...]:
        """The folders of the host in which services of the cluster's nodes keep what they know."""
        return tuple(folder for role in self.values() for folder in role.service_folders(spec))

    def outliving_folders(self, cluster: str) -> tuple[ServiceFolder, ...]:
        """Those of them that an earlier cluster of that name may have left."""
        return tuple(folder for role in self.values() for folder in role.outliving_folders(cluster))

    def refuse_crew(self, crew: Crew) -> None:
        """Refuse nodes that could not work together.

        Raises:
            UsageError: Why.
        """
        for role in self.values():
            role.refuse_crew(crew)

    def find_forgetting(self, state: ClusterState, wanted: ClusterSpec) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The nodes on which jobs may run that nobody would know any more, and those that knew of them.

        As nodes that leave, they are held and asked for jobs; a cluster without any gets a new, empty queue.

        Args:
            state: The cluster as it is.
            wanted: What it becomes.
        """
        recorded = state.recorded
        if not isinstance(recorded, ClusterSpec):
            return (), ()
        roles = [role for role in self.values() if role.forgets(recorded, wanted)]
        nodes = tuple(node.name for role in roles for node in state.nodes_of(role.name))
        controllers = tuple(controller for role in roles for controller in role.controller_names(recorded))
        return nodes, controllers if nodes else ()


PLAIN = PlainRole()
ROLES = Roles({role.name: role for role in (PLAIN, SlurmRole(), WorkerRole())})
ROLE_NAMES = tuple(ROLES)
_RULES: tuple[SpecRule, ...] = (
    *(rule for role in ROLES.values() for rule in role.rules),
    scrub_rule({role.name for role in ROLES.values() if role.scrubs}),
)


def role_of(name: str) -> Role:
    """The role of that name.

    Raises:
        UsageError: There is none of that name.
    """
    role = ROLES.get(name)
    if role is None:
        raise UsageError(
            f"there is no role {name!r}",
            evidence=f"roles: {', '.join(ROLE_NAMES)}",
            fix=f"use one of them: {ROLE_NAMES[0]}",
        )
    return role


def role_recipe(driver: Driver, spec: ClusterSpec, role: str, gpus: HostGpus) -> Recipe:
    """What goes into the image of a role's nodes."""
    from gpuprov.cluster.images import node_recipe  # here, for a list of nodes needs no image and starts sooner without
    from gpuprov.cluster.services import init_of

    return node_recipe(spec, role_of(role).recipe_of(spec), gpus, init=init_of(driver))


def find_role_images(
    driver: Driver, spec: ClusterSpec, roles: Iterable[str], gpus: HostGpus, built: Mapping[str, ImageState]
) -> tuple[Mapping[str, ImageState], MissingImages | None]:
    """The images of these roles, by role, and what is missing; `built` are those that this run has built."""
    from gpuprov.cluster.images import find_images

    recipes = {role: role_recipe(driver, spec, role, gpus) for role in sorted({*roles})}
    return find_images(driver, recipes, built, host_ports=spec.network.host_ports)


def roles_of(names: Iterable[str]) -> tuple[Role, ...]:
    """The roles of these names, each once, in the order of the registry; unknown names are left out."""
    present = set(names)
    return tuple(role for role in ROLES.values() if role.name in present)


def role_of_image(labels: Mapping[str, str]) -> str:
    """What an image is for: the role of whose labels it has the most, though an earlier version gave it fewer."""

    def likeness(name: str) -> tuple[int, int]:
        own = set(ROLES[name].recipe.labels)
        return len(own & set(labels)), -len(own - set(labels))

    return max(ROLES, key=likeness)


def checks_of_roles() -> tuple[Rule, ...]:
    """What `verify` asks of the nodes of each role, besides what it asks of all nodes."""
    return tuple(check for role in ROLES.values() for check in role.checks())


def settle(draft: Draft, observed: Observed) -> ClusterSpec:
    """The draft with all that was left open filled in, for good.

    Raises:
        UsageError: Nothing is free, or something else has what was asked for.
        SpecError: Listing every problem.
    """
    return judge(fill(draft, observed), observed)


def fill(draft: Draft, observed: Observed) -> ClusterSpec:
    """The draft with all that was left open filled in.

    Where nobody said whether nodes share a folder, a new cluster whose nodes take jobs gets one of its own if this user
    can give folders to others, and no cluster of the same name on another engine has it.

    Raises:
        UsageError: Nothing is free.
    """
    spec = observed.around.settle(draft)
    if SHARE not in draft.left or observed.state.settled is not None or not role_of(spec.nodes.role).shares:
        return spec
    can = observed.host.folders.look(PLACE).can_give and not observed.around.find_sharers(own_place(spec.name))
    return changed(spec, share=can)


def judge(spec: ClusterSpec, observed: Observed) -> ClusterSpec:
    """The spec, if it is none that is wrong, or whose networks something else has; errors are those of `settle`."""
    check_spec(spec)
    observed.around.refuse_taken_by_others(spec)
    return spec


def check_spec(spec: ClusterSpec, *, left: frozenset[str] = frozenset()) -> None:
    """Refuse a spec that is wrong, its role included; what was `left` open is not judged.

    Raises:
        SpecError: Listing every problem.
    """
    from gpuprov.spec import validate  # here, for tables of nodes start sooner without

    validate.check_spec(spec, roles=ROLE_NAMES, rules=_RULES, left=left)


def load_draft(path: Path) -> Draft:
    """Read a spec file, which may leave values open.

    Raises:
        SpecError: Listing every problem.
    """
    from gpuprov.spec import load  # as above

    return load.load_draft(path, roles=ROLE_NAMES, rules=_RULES)
