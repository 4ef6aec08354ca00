"""A role is what a node is for: the batch system or the queue that gives it work, or nothing but the node itself.

`nodes.role` in a spec names the role of a cluster's nodes, and a label that of each node. Roles differ in the object
that this class describes and nowhere else: no other module compares a role's name. roles/registry.py lists them all.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

from gpuprov.core.errors import EngineError
from gpuprov.core.side_by_side import each
from gpuprov.drivers.base import LABEL_ORDER
from gpuprov.provision.role_recipe import RoleRecipe
from gpuprov.roles.crew import Ready
from gpuprov.shapes.cluster_spec import ClusterSpec, NodesSpec
from gpuprov.spec.spec_error import SpecError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from gpuprov.cluster.state import ClusterState
    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver, File, NodeState
    from gpuprov.provision.role_recipe import Init
    from gpuprov.roles.crew import Crew
    from gpuprov.roles.departure import Departure, Job
    from gpuprov.roles.secret_file import SecretFile
    from gpuprov.roles.usage import Uses
    from gpuprov.roles.work.job_controller import JobController
    from gpuprov.roles.work.job_room import JobRoom
    from gpuprov.roles.work.queue_page import QueuePage
    from gpuprov.roles.work.rest import RestService
    from gpuprov.shapes.engine import ImageState
    from gpuprov.shapes.whole import Member
    from gpuprov.spec.rule import SpecRule
    from gpuprov.spec.shared_folder import ServiceFolder
    from gpuprov.verify.models import Expectation, Rule

    FilesOf = Callable[[str], Sequence[File]]
    Secret = Callable[[], bytes]
    Render = Callable[[Member], tuple[File, ...]]


@dataclass(frozen=True, kw_only=True)
class QueueFolder:
    """Where a controller keeps on its own disk what it knows of jobs, and how that gets onto the disk of another one.

    Attributes:
        path: The folder.
        user: Whose it is.
        service: What writes there.
        arrival: A script that the service runs as root before it starts, where it is there.
        version: A shell line that prints the version of what writes there.
        count: A shell line that prints how many jobs or messages it has; nothing where the service does not say.
    """

    path: str
    user: str
    service: str
    arrival: str
    version: str
    count: str


@dataclass(frozen=True, kw_only=True)
class Diagnostics:
    """What a bundle collects.

    Attributes:
        node: Shell lines that are run in each node of the role, by the name of the part.
        cluster: A shell line that is run in one node, for the role as a whole; empty for none.
    """

    node: Mapping[str, str] = field(default_factory=dict)
    cluster: str = ""


class Role:
    """What nodes of one role have besides being nodes. What a role does not override is right for plain nodes.

    Attributes:
        name: As `nodes.role` and the label write it.
        title: As people call it, in tables and phases.
        has_services: Whether services of its own run in nodes, which have to read files and get ready.
        first_network: Whether its nodes find each other on the first network, so that each must be on it.
        shares: Whether its nodes share a folder, where their cluster has one.
        has_people: Whether jobs run as the person who submits them.
        scrubs: Whether it overwrites memory of GPUs before they have a job of another person, where the spec says so.
        can_account: Whether it can record all jobs, where the spec says so.
        recipe: What it adds to the image of its nodes.
        secret_files: Files in its nodes that no bundle may show.
        marks: Files that record what was applied, each with the words for a node that lacks nothing else.
        rules: For the values of a spec that only it reads.
        queue: Of its controller; None where it has none.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    has_services: ClassVar[bool] = False
    first_network: ClassVar[bool] = False
    shares: ClassVar[bool] = False
    has_people: ClassVar[bool] = False
    scrubs: ClassVar[bool] = False
    can_account: ClassVar[bool] = False
    recipe: ClassVar[RoleRecipe] = RoleRecipe()
    secret_files: ClassVar[tuple[SecretFile, ...]] = ()
    marks: ClassVar[Mapping[str, str]] = MappingProxyType({})
    rules: ClassVar[tuple[SpecRule, ...]] = ()
    queue: ClassVar[QueueFolder | None] = None

    def checks(self) -> tuple[Rule, ...]:
        """What `verify` asks of its nodes; on nodes of other roles each is skipped."""
        return ()

    def recipe_of(self, spec: ClusterSpec) -> RoleRecipe:
        """What it adds to the image of the nodes of a cluster."""
        return self.recipe

    def service_folders(self, spec: ClusterSpec) -> tuple[ServiceFolder, ...]:
        """The folders of the host in which services keep what they know; none where a node's disk has it."""
        return ()

    def outliving_folders(self, cluster: str) -> tuple[ServiceFolder, ...]:
        """Those that an earlier cluster of that name may have left."""
        return ()

    def save_figures(self, driver: Driver, state: ClusterState) -> ServiceFolder | None:
        """Have what services have on record in a folder `saved` of theirs, in a form for another host.

        Returns the folder in which that is; None where nothing is on record.

        Raises:
            EngineError: A service did not do so.
        """
        return None

    def notes(self, spec: ClusterSpec) -> tuple[str, ...]:
        """What whoever brings up a cluster, or asks what that would change, has to know of its spec: a line each."""
        return ()

    def forgets(self, recorded: ClusterSpec, wanted: ClusterSpec) -> bool:
        """Whether what is known of jobs is lost where a cluster becomes another one."""
        return False

    def refuse_joining(self, node: str, spec: ClusterSpec, state: ClusterState) -> None:
        """Refuse a new node that could not take part.

        Raises:
            UsageError: The cluster has nothing that it could join.
        """

    def controller_name(self, spec: ClusterSpec) -> str | None:
        """The node that the others need, such as the one with the controller; None where they need none."""
        return None

    def controller_names(self, spec: ClusterSpec) -> tuple[str, ...]:
        """That node, and those that take its place where it is unreachable, in their order."""
        controller = self.controller_name(spec)
        return () if controller is None else (controller,)

    def slowest(self, spec: ClusterSpec) -> str | None:
        """The node whose services take much longer to start than the others', which is therefore started first."""
        return None

    def begins_with(self, node: str, spec: ClusterSpec) -> bool:
        """Whether a cluster of such nodes can begin with this one alone."""
        return True

    def refuse_crew(self, crew: Crew) -> None:
        """Refuse nodes that could not work together.

        Raises:
            UsageError: One that the others need is missing, or is of another role.
        """

    def read_secret(self, driver: Driver, state: ClusterState) -> bytes:
        """Read from its nodes the secret that they share; empty where there is none yet. The host's lock is not held.

        Raises:
            EngineError: A node that must be read cannot be.
        """
        return b""

    def new_secret(self) -> bytes:
        """A secret for nodes that share none yet; empty where they need none."""
        return b""

    def gather_files(
        self, driver: Driver, crew: Crew, state: ClusterState, image: ImageState | None, secret: Secret
    ) -> Render:
        """Find what its files are made from; returns the pure function that renders a member's files.

        Args:
            driver: The engine.
            crew: The cluster's nodes as they are to be.
            state: The cluster as it is.
            image: Of the role's new nodes; None where there are none.
            secret: Gives what `read_secret` read, or raises what that raised.

        Raises:
            UsageError: The image was not built for this role.
        """
        return lambda _member: ()

    def refuse_removing(self, state: ClusterState, names: Sequence[str]) -> None:
        """Refuse to remove nodes for good that others need which stay.

        Raises:
            UsageError: The nodes that stay could not work without one of them.
        """

    def abandoned(self, driver: Driver, state: ClusterState) -> tuple[str, ...]:
        """The nodes that a killed run of gpuprov has left out of service, as far as one can tell."""
        return ()

    def take_out_of_service(self, driver: Driver, state: ClusterState, names: Sequence[str]) -> tuple[str, ...]:
        """Have no more work begin on nodes until `put_back_in_service`, also of a later process if this one is killed.

        What somebody else keeps from work stays his.

        Returns:
            What `abandoned` would have, before.

        Raises:
            GpuprovError: It could not be done.
        """
        return ()

    def jobs(self, driver: Driver, state: ClusterState, departure: Departure) -> tuple[Job, ...]:
        """The work that would end with nodes.

        Raises:
            GpuprovError: Nobody can tell.
        """
        return ()

    def end_jobs(
        self, driver: Driver, state: ClusterState, departure: Departure, jobs: Sequence[Job]
    ) -> tuple[str, ...]:
        """Have it known at once that these end; returns the ids of those that will run again.

        Raises:
            GpuprovError: It could not be said.
        """
        return ()

    def cancel_jobs(self, driver: Driver, state: ClusterState, jobs: Sequence[Job]) -> None:
        """Have these end, or never begin; the nodes stay in service.

        Raises:
            GpuprovError: It could not be said.
        """

    def put_back_in_service(
        self, driver: Driver, state: ClusterState, *, running: Sequence[str] = (), stopped: Sequence[str] = ()
    ) -> tuple[str, ...]:
        """Undo `take_out_of_service` for the nodes that are still there; returns their names.

        Args:
            driver: The engine.
            state: The cluster as it is now: a node that does not run takes work once it is started.
            running: Nodes on other hosts that run.
            stopped: Nodes on other hosts that do not.

        Raises:
            GpuprovError: It could not be done.
        """
        return ()

    def mark_away(
        self, driver: Driver, state: ClusterState, names: Sequence[str], *, host: str, since: str
    ) -> tuple[str, ...]:
        """Have no work begin on nodes of another host, which does not answer; ends none. Returns a line for each.

        Raises:
            GpuprovError: It could not be said.
        """
        return ()

    def mark_back(self, driver: Driver, state: ClusterState, names: Sequence[str]) -> tuple[str, ...]:
        """Undo `mark_away` where nobody has said anything else since; returns a line for each node.

        Raises:
            GpuprovError: It could not be said.
        """
        return ()

    def can_apply(self, state: ClusterState) -> bool:
        """Whether running nodes can be brought to new files now."""
        return True

    def apply(self, driver: Driver, crew: Crew, stale: Mapping[str, Sequence[File]], files: FilesOf) -> None:
        """Write files into running nodes, and have the services that read them read them again.

        Args:
            driver: The engine.
            crew: The nodes that run.
            stale: By node of this role, the files that it lacks or has otherwise.
            files: All files of a node as they are to be.
        """
        each(lambda name: driver.push(name, stale[name]), list(stale))

    def wait_ready(self, driver: Driver, crew: Crew, reporter: Reporter) -> Ready:
        """Wait until its running nodes take work.

        Raises:
            TimedOut: With each node's last state.
        """
        return Ready()

    def states(self, driver: Driver, state: ClusterState) -> dict[str, str]:
        """Its word for each node, such as `idle`; nodes of which it knows nothing are left out."""
        return {}

    def is_ready(self, word: str) -> bool:
        """Whether a node with that word takes or runs work."""
        return True

    def forget(self, init: Init) -> str:
        """Shell lines by which a running copy of a node gives up its source's part in the role."""
        return ""

    def questions(self, expected: Expectation, *, timeout_s: float) -> dict[str, dict[str, object]]:
        """Commands whose output its checks read, by name; each has `argv` and `timeout_s` (verify/probe.py)."""
        return {}

    def diagnostics(self) -> Diagnostics:
        """What a bug report needs of it."""
        return Diagnostics()

    def diagnosed_node(self, state: ClusterState) -> NodeState:
        """The node in which the line for the whole role runs.

        Raises:
            EngineError: There is none.
        """
        raise EngineError(
            f"the role {self.name} has no controller node",
            evidence=f"cluster {state.name}",
            fix="gpuprov cluster status",
        )

    def job_controller(self, driver: Driver, state: ClusterState) -> JobController | None:
        """Where its users hand in jobs and ask for them; None where its nodes take none.

        Raises:
            UsageError: It takes none now.
            EngineError: The node that would is missing.
        """
        return None

    def uses(self, driver: Driver, state: ClusterState, since: datetime, until: datetime) -> Uses | None:
        """What it knows of all its jobs' GPUs between two moments; None where it records none.

        Raises:
            GpuprovError: It does not say.
        """
        return None

    def goes_along(self, spec: ClusterSpec) -> tuple[str, ...]:
        """What goes with all nodes of a cluster besides what is theirs, in words for whoever is asked."""
        return ()

    def job_room(self, driver: Driver, state: ClusterState) -> JobRoom | None:
        """What a job can have of the nodes of a cluster that takes some; None if unknown."""
        return None

    def queue_page(self, driver: Driver, state: ClusterState) -> QueuePage | None:
        """Where its queue shows itself to a browser; None where it has no such page.

        Raises:
            UsageError: It has none now.
            EngineError: The node that would show it cannot.
        """
        return None

    def rest(self, state: ClusterState) -> RestService | None:
        """Where programs can ask it by HTTP; None where they cannot.

        Raises:
            UsageError: They cannot now.
        """
        return None

    def next_steps(self, spec: ClusterSpec, nodes: Sequence[str]) -> tuple[str, ...]:
        """What to type next on a cluster that has these nodes of it; the caller names the cluster."""
        return ()


def spec_of(state: ClusterState) -> ClusterSpec:
    """The cluster's recorded spec, or that which it was begun with; for looking at its nodes.

    Where the record cannot be read, the nodes' names tell what `cluster up` calls them. Nothing may be written from
    that, and `state.spec` refuses.
    """
    begun = state.settled or ClusterSpec(name=state.name)
    if not isinstance(state.recorded, SpecError):
        return begun
    own = sorted(node.name for node in state.nodes if node.complete and LABEL_ORDER not in node.labels)
    prefixes = [match[1] for name in own if (match := re.fullmatch(r"(.+)[0-9]{3}", name))]
    return ClusterSpec(name=state.name, nodes=NodesSpec(prefix=prefixes[0])) if prefixes else begun
