"""The protocol that every engine obeys: a Driver makes and finds things, and runs commands in nodes.

The contract suite (tests/contract) holds for every implementation. All methods raise EngineError (or a
subclass) with three parts; none lets an SDK's exception through. Labels are plain `gpuprov.*` keys here; a
driver maps them to what its engine has (`user.gpuprov.*` config keys in LXD and Incus, labels in Docker).
Nothing that lacks the label `gpuprov.cluster`, or has the labels of another thing because it was copied or renamed
outside gpuprov, is ever changed or removed: NotOurs is raised instead.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from gpuprov.core.errors import EngineError
from gpuprov.shapes.node import ShownNode

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from gpuprov.core.disk import Disk, StorageUse
    from gpuprov.drivers.capabilities import Capability
    from gpuprov.drivers.job_times import JobTimes
    from gpuprov.drivers.networks import NetworkRequest, NetworkState
    from gpuprov.gpu.models import EngineAccess
    from gpuprov.shapes.choices import Restart
    from gpuprov.shapes.engine import EngineFacts, ImageState, Origin
    from gpuprov.shapes.node import Attachment, CharDevice, Exposure, Mount, Settings

LABEL_CLUSTER = "gpuprov.cluster"
LABEL_ROLE = "gpuprov.role"
LABEL_ACCOUNT = "gpuprov.account"  # number of the account that jobs run as, in an image; kept by the nodes made from it
LABEL_PEOPLE = "gpuprov.people"  # of an image, kept by its nodes: they take accounts of people as files
LABEL_GPUS = "gpuprov.gpus"
LABEL_GPU_TYPES = "gpuprov.gpu-types"  # short names of the models of its GPUs, in order of minor
LABEL_GPU_UNITS = "gpuprov.gpu-units"  # type and minors of each GPU and part of one, in the order of their UUIDs
LABEL_GPU_CORES = "gpuprov.gpu-cores"  # of its host that are nearest to each, in that order, where these differ
LABEL_SHARING = "gpuprov.sharing"
LABEL_ACCESS = "gpuprov.access"
LABEL_ACCESS_REASON = "gpuprov.access-reason"  # in words, as it was decided; says nothing about the node itself
LABEL_DRIVER = "gpuprov.driver"
LABEL_HOST_GPUS = "gpuprov.host-gpus"  # on the host's PCI bus when the node was made; not part of its design
LABEL_IMAGE = "gpuprov.image"
LABEL_QUEUE = "gpuprov.queue-version"  # of an image: the version of what keeps the queue of its role
LABEL_RECIPE = "gpuprov.recipe"  # JSON: what an image was made from (provision/recipe_record.py); kept by its nodes
LABEL_PACKAGES = "gpuprov.packages"  # of an image: what dpkg has in it (provision/package_versions.py)
LABEL_ADDRESS = "gpuprov.address"
LABEL_PRIVATE_ADDRESS = "gpuprov.private-address"
LABEL_SPEC = "gpuprov.spec"
LABEL_BEGUN = "gpuprov.begun"  # on a network: bridges, subnets and names of nodes for which it was made, as a spec
LABEL_HOST = "gpuprov.host"  # on a network: this host's name in a cluster that spans hosts
LABEL_HOSTS = "gpuprov.hosts"  # on a network: names of the hosts that its cluster spanned when it was made
LABEL_HOST_PORTS = "gpuprov.host-ports"  # on a network: ports of the host that its nodes may reach (spec/host_ports.py)
LABEL_MEMBERS = "gpuprov.members"  # on a network: JSON, the nodes of all hosts of a cluster (cluster/whole.py)
LABEL_REPLACED = "gpuprov.replaced"  # on a network: JSON, nodes that are being replaced (cluster/replacements.py)
LABEL_VERSION = "gpuprov.version"
LABEL_LIMITS = "gpuprov.limits"  # JSON: limits that a node was given when it was made (cluster/node_limits.py)
LABEL_ORDER = "gpuprov.order"  # JSON: what create-node or clone was asked for
LABEL_SELF = "gpuprov.self"  # whose labels these are: a copy has them too, and another name; drivers write and read it
LABEL_PROCESS = "gpuprov.process"  # of a job: the process whose command it is
LABEL_DETACHED = "gpuprov.detached"  # on a job that goes on without that process, and stays when it has ended
LABEL_SUBMITTER = "gpuprov.submitter"  # of a job: the account of its host that started it
LABEL_FINGERPRINT = "gpuprov.fingerprint"  # written last: without it the thing is unfinished

BUILDER = "gpuprov-build"  # one name, so that the next build finds what a killed one left
MOST_FILE_BYTES = 4_000_000
READ_S = 10.0  # for a file of a node
ENDED_FIRST = 500  # added to the score by which the kernel chooses whom to end where memory runs out
ROLE_BUILDER = "builder"  # of the node in which an image is being made
ROLE_JOB = "job"  # of a node that a command is

Stream = Literal["stdout", "stderr"]
PathKind = Literal["file", "folder", "other", "absent"]  # what stands at a path, links followed


class Unreadable(EngineError):
    """A file of a node is absent, is not a regular file, or could not be read within the limits."""


@dataclass(frozen=True, kw_only=True)
class File:
    """A file to write into a node; owner and group are numbers inside the node."""

    path: str
    content: bytes
    mode: int = 0o644
    uid: int = 0
    gid: int = 0


@dataclass(frozen=True, kw_only=True)
class EngineGpus:
    """GPUs that the engine hands into a node itself, by a way that its facts offer."""

    access: EngineAccess
    uuids: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class JobTerms:
    """How a job runs, besides what every node has.

    Attributes:
        detached: Whether it goes on without this process, and stays when it has ended, until it is removed.
        restart: When the engine starts it again; `tries` times at most with `on-failure`, where that is no 0.
        user: As whom, as the engine takes it; empty for the image's.
        published: Ports of the host that lead into it.
        unset: Variables of the image that it does not have.
        reads: Whether it has a standard input, and `terminal` whether its streams are a terminal.
    """

    detached: bool = False
    restart: Restart = "no"
    tries: int = 0
    user: str = ""
    published: tuple[Exposure, ...] = ()
    unset: tuple[str, ...] = ()
    reads: bool = False
    terminal: bool = False


NO_TERMS = JobTerms()


@dataclass(frozen=True, kw_only=True)
class NodeRequest:
    """Everything the engine must know to make a node.

    Attributes:
        host: Name of the host that it is for.
        image: Identity of the image, as `find_image` or `list_images` gave it.
        environment: Variables of the node's processes, of its init and of commands that run in it.
        engine_gpus: GPUs that come neither by `devices` nor by `mounts`.
        gives_way: Whether the host's own programs have more of the CPUs where these are short, and live where memory
            runs out.
        terms: Of a job.
    """

    name: str
    image: str
    labels: Mapping[str, str]
    attachments: tuple[Attachment, ...] = ()
    devices: tuple[CharDevice, ...] = ()
    mounts: tuple[Mount, ...] = ()
    files: tuple[File, ...] = ()
    privileged: bool = False
    cpus: int | None = None
    memory_bytes: int | None = None
    processes: int | None = None
    gives_way: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    engine_gpus: EngineGpus | None = None
    host: str = ""
    terms: JobTerms = NO_TERMS


class NodeState(ShownNode, frozen=True, kw_only=True):
    """What the engine says of an instance, ours or not; a foreign one has no labels.

    Attributes:
        id: The engine's own name for this very instance; another one of the same name has another.
        copy_of: Set where the instance is foreign because it has the labels of another one.
        member: Set where the instance is not on this host, but on that member of the engine's own cluster; it is
            foreign then, and its name alone counts.
    """

    id: str = ""
    copy_of: Origin | None = None
    member: str = ""

    @property
    def ours(self) -> bool:
        """Whether gpuprov made it."""
        return LABEL_CLUSTER in self.labels

    @property
    def complete(self) -> bool:
        """Whether its creation ran to the end."""
        return LABEL_FINGERPRINT in self.labels


@dataclass(frozen=True, kw_only=True)
class JobState:
    """A job, and how far it is.

    Attributes:
        state: In the engine's word, such as `running`, `restarting` or `exited`.
        words: The same with how long, such as `Up 5 minutes`.
        exit_code: Of one that has ended.
        created: When it was made, in UTC.
    """

    node: NodeState
    state: str
    words: str
    command: str
    created: str
    exit_code: int | None = None


@dataclass(frozen=True, kw_only=True)
class ExecResult:
    """A finished command; streams are decoded as UTF-8 with replacement."""

    exit_code: int
    stdout: str
    stderr: str


class Driver(Protocol):
    """One engine.

    Attributes:
        host: Name of the host that it runs on.
        command: The engine's own client, as people type it.
        nameserver: Address at which nodes find a resolver; None for the host's address on their bridge.
        process_groups: Where a node's control group may be, below the root of all; `{name}` and `{id}` are the node's.
    """

    name: str
    host: str
    command: str
    capabilities: frozenset[Capability]
    nameserver: str | None
    process_groups: tuple[str, ...]

    @property
    def builder(self) -> str:
        """Name of the node in which images are made."""

    @property
    def snapshot_pauses(self) -> bool:
        """Whether a node that runs stands still while `snapshot_node` copies its files, which may take minutes."""

    def facts(self) -> EngineFacts:
        """Describe the engine; raises HostNotReady when it has no storage to put nodes on."""

    def disk(self) -> Disk | None:
        """The space of the storage that nodes are on; None if the engine does not report it. Asks for nothing else."""

    def usage(self) -> list[StorageUse]:
        """What each thing takes of that storage, foreign ones too, as far as it can be counted in a few seconds."""

    def owner_on_host(self, uid: int) -> int:
        """The user of the host to whom a folder must belong so that it is user `uid`'s where it is mounted read-write.

        This holds for unprivileged nodes; in a privileged one, users are those of the host. EngineError where the
        engine does not tell.
        """

    def list_nodes(self) -> list[NodeState]:
        """Every instance of the engine, foreign ones too; images and builders of ours are left out.

        Snapshots may be missing: LXD lists none.
        """

    def find_node(self, name: str) -> NodeState | None:
        """One instance, or None."""

    def create_node(self, request: NodeRequest) -> None:
        """Make a stopped instance with its devices, networks, mounts and files.

        The label LABEL_FINGERPRINT is written last. Raises NotOurs if the name is taken by something foreign and
        EngineError if it is taken at all; what it made is removed again when it fails.
        """

    def start_node(self, name: str) -> None:
        """Start it, or let a frozen one go on; no change if it runs."""

    def stop_node(self, name: str, *, timeout_s: float = 10.0) -> str:
        """Stop it, by force once `timeout_s` has passed; no change if it is stopped. Returns what was forced."""

    def delete_node(self, name: str) -> str:
        """Remove it, running or not, whatever it does; no change if it is absent. Raises NotOurs.

        Returns what was forced besides its processes' end, if any.
        """

    def clone_node(self, source: str, request: NodeRequest) -> None:
        """Make a stopped copy of `source` that has the request's name, labels, networks, devices and files.

        `request.image` is ignored, and nothing but the disk is inherited from the source.
        """

    def set_labels(self, name: str, labels: Mapping[str, str]) -> None:
        """Add or change labels of a node."""

    def set_devices(self, name: str, devices: Sequence[CharDevice], mounts: Sequence[Mount]) -> None:
        """Replace the device and mount set of a node; networks and exposures stay.

        A running node keeps running; without the capability `devices-live` it is restarted.
        """

    def settings(self, request: NodeRequest) -> Settings:
        """What `NodeState.settings` shows for an unmodified node of this request.

        Image, labels and files of the request are not looked at. Raises NotCapable where no such node can be made.
        """

    def set_settings(self, name: str, request: NodeRequest) -> None:
        """Bring a node's settings to the request's; what is not `live` takes effect when it starts next.

        Without the capability `devices-live` a running node is restarted for it.
        Labels, files and exposures stay; devices and mounts stay, or become the request's at once.
        """

    def push(self, name: str, files: Sequence[File]) -> None:
        """Write files into a node, running or stopped, over whatever is there but a folder; parents are created."""

    def pull(self, name: str, path: str, *, most_bytes: int = MOST_FILE_BYTES, timeout_s: float = READ_S) -> bytes:
        """Read a regular file of a node, which may be hostile; Unreadable if it is absent, no file, or over a limit."""

    def look(self, name: str, path: str) -> PathKind:
        """What stands at a path of a running node."""

    def read_tree(self, name: str, path: str, take: Callable[[bytes], object]) -> str:
        """Hand on a file or folder of a running node, which may be hostile, as a tar of any length, piece by piece.

        It takes as long as it takes, but TimedOut where nothing moves any more. Exceptions of `take` end it. Returns
        what the node complained about.
        """

    def write_tree(self, name: str, path: str, tar: Iterable[bytes]) -> None:
        """Put what a tar of any length has as `item` into a running node, as that path, in one move at its end.

        A file there is replaced; a folder there, or none above it, is an EngineError. The tar ends with a file `whole`.
        Exceptions of `tar` end it, and nothing of it is left then. TimedOut where nothing moves any more.
        """

    def run(
        self,
        name: str,
        argv: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        cwd: str | None = None,
        timeout_s: float | None = None,
        stdin: bytes = b"",
    ) -> ExecResult:
        """Run a command as root in a running node and wait; the exit status is not judged. Raises TimedOut.

        The node may be hostile: what the command writes is limited, and it is ended from outside the node if need be.

        A command that is given `stdin` has ended when its output has, also that of what it left in the background.
        """

    def run_job(
        self,
        request: NodeRequest,
        argv: Sequence[str],
        *,
        started: Callable[[], object],
        write: Callable[[Stream, bytes], object],
    ) -> int:
        """Run a command as the main process of a node of its own, and return its exit status; capability `jobs`.

        The engine itself removes the node when the command ends, also when this process is gone by then. Until the
        command runs, the node is not `complete`. An exception in this process, as by an interruption, ends the
        command (SIGTERM, then SIGKILL) and removes the node before it goes on.

        Args:
            request: The node, as for `create_node`, which must not exist; without attachments it is on the engine's own
                default network.
            argv: The command; it is not looked up in a shell.
            started: Called once the command runs.
            write: Gets what the command writes, as it comes, and which stream it is.

        Raises:
            NotCapable: the engine has no jobs.
        """

    def begin_job(self, request: NodeRequest, argv: Sequence[str]) -> None:
        """The same of a job that is detached: it returns once the command runs, which goes on by itself.

        Where it cannot be started, nothing is left of it.
        """

    def hold_job(self, request: NodeRequest, argv: Sequence[str]) -> list[str]:
        """Make a job that does not run yet.

        Returns the command line that runs it on this process's streams and ends with its status (the engine's own
        client). The engine removes it then.
        """

    def list_jobs(self) -> list[JobState]:
        """The jobs of both kinds; none where the engine has no such thing."""

    def read_job_times(self, names: Collection[str] | None = None) -> list[JobTimes]:
        """When the commands of jobs ran, also of jobs that were removed lately; none where the engine has no jobs.

        Args:
            names: Of their nodes; all jobs where None.
        """

    def read_job_log(
        self, name: str, *, follow: bool, tail: int | None, write: Callable[[Stream, bytes], object]
    ) -> None:
        """Hand on what a job has written: the last `tail` lines or all, and with `follow` until it ends or is killed.

        Raises NotCapable where the engine has no jobs.
        """

    def attach(self, name: str, argv: Sequence[str], *, environment: Mapping[str, str]) -> int:
        """Run a command with this process's own streams and Ctrl-C; returns its exit status."""

    def attach_argv(
        self, name: str, argv: Sequence[str], *, environment: Mapping[str, str], piped: bool = False
    ) -> list[str]:
        """The command line of the engine's own client that runs `argv` in the node with this terminal attached.

        Args:
            environment: Variables to add to the node's own.
            piped: The command line will be given pipes instead of this process's own streams; every byte passes.
        """

    def logs(self, name: str) -> str:
        """The end of the node's console log."""

    def snapshot_node(self, name: str, snapshot: str) -> None:
        """Keep the node's present state under a name; EngineError if that name is taken."""

    def restore_node(self, name: str, snapshot: str) -> str:
        """Bring a snapshot's files back; the configuration stays. EngineError if there is none of that name.

        Returns what was forced where the node had to be stopped for it, if any.
        """

    def expose(self, name: str, exposure: Exposure) -> None:
        """Forward a port of the host into the node; into a running one with the capability `expose-live` only."""

    def unexpose(self, name: str, host_port: int) -> None:
        """Undo `expose`, with its capability; EngineError if that port is not exposed by this node."""

    def list_networks(self) -> list[NetworkState]:
        """Every network the engine knows, foreign ones too."""

    def create_network(self, request: NetworkRequest) -> None:
        """Make a network that nodes can be attached to; EngineError if the name is taken."""

    def complete_network(self, request: NetworkRequest) -> None:
        """Give a network of ours its address, NAT and name server, where `create_network` leaves it without.

        Nodes may be created and started meanwhile. No change where it has them.
        """

    def isolate_network(self, name: str) -> str:
        """Have the host refuse connections to nodes on a network of ours from elsewhere, and from them to itself.

        Nodes on the same network and the host itself reach them as before, and so do ports that are exposed. Of the
        host, nodes reach its name server there and the ports of LABEL_HOST_PORTS. Returns why the host cannot, in
        words; nothing where it does. The rules go with the network, and with a reboot.
        """

    def delete_network(self, name: str) -> None:
        """Remove a network of ours; no change if it is absent. Raises NotOurs."""

    def set_network_labels(self, name: str, labels: Mapping[str, str]) -> None:
        """Add or change labels of a network of ours."""

    def network_settings(self, request: NetworkRequest) -> Settings:
        """What `NetworkState.settings` shows for an unmodified network of this request."""

    def set_network_settings(self, request: NetworkRequest) -> None:
        """Bring a network of ours, its link and its rules on the host to the request's; its labels stay."""

    def list_images(self) -> list[ImageState]:
        """Images that gpuprov made, complete ones only."""

    def find_image(self, name: str) -> ImageState | None:
        """An image of ours by name, or one that the engine already had, by the user's name for it."""

    def import_rootfs(self, name: str, rootfs: str, labels: Mapping[str, str]) -> str:
        """Make a base image from a root file system tar; returns its identity."""

    def image_name_holder(self, name: str) -> str | None:
        """What has the name that an image of ours is to get and is not ours, in words; None if nothing has."""

    def publish_image(self, builder: str, name: str, labels: Mapping[str, str]) -> ImageState:
        """Turn a builder node into an image, atomically: an interrupted call leaves no image."""

    def delete_image(self, image_id: str) -> None:
        """Remove an image of ours; no change if it is absent. Raises NotOurs."""
