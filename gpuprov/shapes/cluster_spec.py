"""What a user asks for: a cluster and its parts, as `gpuprov/v1` YAML, labels and bundles have them (docs/spec.md)."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from msgspec import Meta, field

from gpuprov.shapes.base import PartDocument, Shape
from gpuprov.shapes.choices import (
    CLUSTER_RULE,
    DEFAULT_BRIDGE,
    DEFAULT_CLUSTER,
    DEFAULT_ENGINE,
    DEFAULT_PRIVATE_BRIDGE,
    Engine,
    GpuMode,
    RoleName,
    Sharing,
)
from gpuprov.shapes.gpu_order import GpuOrder
from gpuprov.shapes.limits import MOST_SHARDS, NODES_MAX
from gpuprov.shapes.words import HostName, PartitionName, Word

Strategy = Literal["spread", "pack", "fixed"]
SlurmNetwork = Literal["nat", "private"]
OverlayType = Literal["vxlan", "none"]
Encryption = Literal["none", "wireguard"]
DEFAULT_SHARE = False
DEFAULT_PARTITION = "gpu"
API_VERSION = "gpuprov/v1"
LEAST_PROCESSES = 200  # what a node with systemd, Slurm and its jobs' own programs needs
MTU_LEAST, MTU_MOST = 1280, 9166  # IPv6's least, and what a jumbo frame leaves a VXLAN

ClusterName = Annotated[str, Meta(pattern=r"^[a-z]([a-z0-9-]{0,30}[a-z0-9])?\Z", extra={"allowed": CLUSTER_RULE})]
# The kernel has no link of these two names
Bridge = Annotated[
    str,
    Meta(
        pattern=r"^(?!(?:all|default)\Z)[A-Za-z][A-Za-z0-9_.-]{1,14}\Z",
        extra={"allowed": "2 to 15 of A-Z, a-z, 0-9, _ . -; begins with a letter; neither all nor default"},
    ),
]
Port = Annotated[int, Meta(ge=1, le=65_535, extra={"allowed": "1 to 65535"})]
Amount = Annotated[int, Meta(ge=1)]

# ssh takes what begins with - for an option, and runs commands that some options name: no value can begin with one
_USER = "[A-Za-z_][A-Za-z0-9._-]{0,62}"
_JUMP = rf"({_USER}@)?[A-Za-z0-9]([A-Za-z0-9._-]{{0,251}}[A-Za-z0-9])?(:[0-9]{{1,5}})?"
MachineName = Annotated[
    str,
    Meta(
        pattern=r"^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?\Z",
        extra={"allowed": "1 to 32 of a-z, 0-9 and -; neither starts nor ends with -"},
    ),
]
Address = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9]([A-Za-z0-9._:%-]{0,251}[A-Za-z0-9])?\Z",
        extra={"allowed": "a host name, an IP address, or an alias in ~/.ssh/config"},
    ),
]
User = Annotated[str, Meta(pattern=rf"^{_USER}\Z", extra={"allowed": "the name of a user"})]
KeyFile = Annotated[
    str,
    Meta(pattern=r"^[^-\s\x00-\x1f\x7f][^\x00-\x1f\x7f]{0,4000}\Z", extra={"allowed": "the path of a private key"}),
]
Jumps = Annotated[
    str, Meta(pattern=rf"^{_JUMP}(,{_JUMP})*\Z", extra={"allowed": "[USER@]HOST[:PORT], more after commas"})
]

PersonName = Annotated[
    str,
    Meta(
        pattern=r"^[a-z][a-z0-9_-]{0,30}\Z",
        extra={"allowed": "1 to 31 of a-z, 0-9, _ and -; starts with a letter"},
    ),
]
NodeName = Annotated[str, Meta(pattern=r"^[a-z]([a-z0-9-]{0,61}[a-z0-9])?\Z", extra={"allowed": "the name of a node"})]
LEAST_UID, MOST_UID = 1000, 59_399  # what Debian leaves to people, below the account of jobs


class MountSpec(Shape, frozen=True, kw_only=True):
    """A folder of the host that appears in every node.

    Attributes:
        source: Absolute path of the host.
        target: Absolute path in the nodes, outside /proc, /sys and /dev.
    """

    source: str
    target: str
    read_only: bool = False


class NodesSpec(Shape, frozen=True, kw_only=True):
    """How many nodes, and what each is.

    Attributes:
        count: How many.
        prefix: Their names are this and a number of three digits, from 000.
        role: What they are for.
        privileged: Whether root of a node is root of the host.
        cpus: That each may use; null for all.
        memory_gib: That each may use; null for almost all of the host's.
        processes: That each may have, threads included; null for a share of the host's.
        mounts: Folders of the host that appear in every node.
        environment: Variables of every process in them, each as KEY=VALUE; some ask for GPUs (docs/gpus.md). In
            bundles, values that look secret are `(hidden)`.
    """

    now_and_then: ClassVar[frozenset[str]] = frozenset({"processes"})
    count: Annotated[int, Meta(ge=1, extra={"allowed": f"1 to {NODES_MAX}"})] = 4
    prefix: Annotated[
        str,
        Meta(
            pattern=r"^[a-z][a-z0-9-]{0,39}\Z",
            extra={"allowed": "1 to 40 of a-z, 0-9 and -; starts with a letter"},
        ),
    ] = "c"
    role: RoleName = "slurm"
    privileged: bool = False
    cpus: Amount | None = None
    memory_gib: Amount | None = None
    processes: Annotated[int, Meta(ge=LEAST_PROCESSES)] | None = None
    mounts: tuple[MountSpec, ...] = ()
    environment: tuple[str, ...] = ()


class GpuSpec(GpuOrder, frozen=True, kw_only=True):
    """What is ordered for each node of a cluster; here nothing is left unsaid.

    Attributes:
        per_node: How many GPUs each has.
        sharing: Whether other nodes may have them too.
        memory_gib: That each GPU has at least; null for any.
        model: A part of the name of each GPU's model; null for any.
        mode: Whether GPUs are real or simulated; `auto`: real where there are any.
        scrub: Whether memory of a GPU is overwritten before it has a job of another person.
    """

    now_and_then: ClassVar[frozenset[str]] = frozenset({"scrub"})
    per_node: Annotated[int, Meta(ge=0)] = 1
    sharing: Sharing = "shared"
    memory_gib: Annotated[int, Meta(ge=1, extra={"allowed": "a whole number, 1 or more"})] | None = None
    model: Annotated[str, Meta(pattern=r"\S", extra={"allowed": "a part of the model name, or null"})] | None = None
    mode: GpuMode = "auto"
    scrub: bool = False


class OverlaySpec(Shape, frozen=True, kw_only=True):
    """What carries the private network from host to host; without `hosts` there is none.

    Attributes:
        type: `none` where the private bridges of the hosts are connected by the user's own means.
        vni: Of the VXLAN; null for one that follows from the cluster's name.
        port: UDP port on which hosts receive it.
        mtu: Of eth1; null for what the network between the hosts leaves.
        encryption: Of what passes between hosts.
    """

    type: OverlayType = "vxlan"
    vni: Annotated[int, Meta(ge=1, le=2**24 - 1)] | None = None
    port: Port = 4789
    mtu: Annotated[int, Meta(ge=MTU_LEAST, le=MTU_MOST)] | None = None
    encryption: Encryption = "none"


class NetworkSpec(Shape, frozen=True, kw_only=True):
    """The two networks: veth on a bridge with NAT, and private macvlan on a bridge without an address.

    Attributes:
        bridge: Of the network with NAT, eth0 of nodes.
        subnet: Of eth0: private, /16 to /29.
        private_bridge: Of the private network, eth1 of nodes.
        private_subnet: Of eth1, likewise.
        host_ports: Ports of the host that nodes may reach, such as 8080 or 53/udp.
        overlay: Only where there are hosts.
    """

    now_and_then: ClassVar[frozenset[str]] = frozenset({"overlay"})
    bridge: Bridge = DEFAULT_BRIDGE
    subnet: str = "10.0.3.0/24"
    private_bridge: Bridge = DEFAULT_PRIVATE_BRIDGE
    private_subnet: str = "10.0.5.0/24"
    host_ports: tuple[int | str, ...] = ()
    overlay: OverlaySpec = field(default_factory=OverlaySpec)


class ImageSpec(Shape, frozen=True, kw_only=True):
    """What the node image is made from: a Debian suite, or an image the engine already has.

    Attributes:
        base: `bookworm`, `trixie`, `jammy` or `noble` (built by mmdebstrap), or `image:NAME`, which the engine has.
        packages: Debian packages to add to the roles' own.
        python: Python packages to add, as pip writes them.
        requirements: A file with more of them; only in a spec file: elsewhere they are in `python`, and this is null.
        roles: Folders of the user's own Ansible roles, on the host.
        toolkit: Whether nodes can build CUDA programs and run them together.
    """

    base: str = "bookworm"
    packages: tuple[str, ...] = ()
    python: tuple[str, ...] = ()
    requirements: str | None = None
    roles: tuple[str, ...] = ()
    toolkit: bool = False


class PartitionSpec(Shape, frozen=True, kw_only=True):
    """Nodes to which jobs are handed in under a name, and what holds for these jobs.

    Attributes:
        name: As `srun -p` takes it.
        max_time: Of a job, such as 1h; null for no limit.
        nodes: Names of its nodes; null for all.
        oversubscribe: Whether jobs that ask for it (`srun --oversubscribe`) share CPUs.
        default: Whether jobs that name no partition get this one; else the first does.
    """

    name: PartitionName
    max_time: str | None = None
    nodes: tuple[str, ...] | None = None
    oversubscribe: bool = False
    default: bool = False


class QosSpec(Shape, frozen=True, kw_only=True):
    """Limits that a job chooses by name; Slurm's accounting keeps them.

    Attributes:
        name: As `srun --qos` takes it; `normal` is that of jobs that choose none.
        max_time: Of a job, such as 72h; null for no limit.
        gpus: That jobs of one person may have at once with it; null for any.
    """

    name: PartitionName
    max_time: str | None = None
    gpus: Annotated[int, Meta(ge=0)] | None = None


class SlurmSpec(Shape, frozen=True, kw_only=True):
    """The batch system; the controller is node number `controller`.

    Attributes:
        controller: Number of the node that has the controller.
        partition: Name of the one partition, where there are no `partitions`.
        partitions: All partitions; empty for one with all nodes.
        shards_per_gpu: In how many shards Slurm counts each GPU, for jobs that share one; null for none.
        qos: Limits that jobs choose by name; only where there is accounting.
        rest: Whether programs can use its REST API.
        network: Over which its daemons reach each other: `nat`, eth0 of nodes, or `private`, eth1.
        backup: Name of the node that takes over where the controller's is unreachable; null for none.
        login: Name of the node to which people log in by ssh without a job; null for none.
    """

    now_and_then: ClassVar[frozenset[str]] = frozenset(
        {"login", "network", "partitions", "qos", "rest", "shards_per_gpu"}
    )
    controller: Annotated[int, Meta(ge=0)] = 0
    partition: PartitionName = DEFAULT_PARTITION
    partitions: tuple[PartitionSpec, ...] = ()
    shards_per_gpu: Annotated[int, Meta(ge=1, le=MOST_SHARDS)] | None = None
    qos: tuple[QosSpec, ...] = ()
    rest: bool = False
    network: SlurmNetwork = "nat"
    backup: str | None = None
    login: NodeName | None = None


class WorkerSpec(Shape, frozen=True, kw_only=True):
    """The queue of workers.

    Attributes:
        broker: URL of a message broker of the user's; null for one on the first node.
    """

    broker: str | None = None


class JobsSpec(Shape, frozen=True, kw_only=True):
    """What a job gets where `submit` is not told otherwise, written as its options, and how long its results stay.

    Attributes:
        time: After which a try is ended, such as 12h; null for no limit.
        memory: That a node must have for a run, such as 4GiB; null where it does not matter.
        keep: How long after its end `submit` leaves what a job wrote; null: until it is removed.
        submit_as: Whether those who may use the engine act for people of the cluster, with `--as NAME`.
    """

    now_and_then: ClassVar[frozenset[str]] = frozenset({"keep", "submit_as"})
    time: str | None = None
    memory: str | None = None
    keep: str | None = None
    submit_as: bool = False


class HostSpec(Shape, frozen=True, kw_only=True):
    """A machine that has a part of the cluster's nodes, and how it is reached by ssh.

    Attributes:
        name: Its name in this cluster.
        address: Host name, IP address or alias in ~/.ssh/config; null where `name` is that.
        user: Null for what ssh takes by itself.
        port: Likewise.
        identity_file: Path of a private key; null likewise.
        proxy_jump: Hosts through which ssh reaches it; null likewise.
        internal_ip: Its address on the network between the hosts; null for the one at which ssh reaches it.
        engine: Null for the cluster's.
        nodes: How many nodes it has, with the strategy `fixed`.
    """

    name: MachineName
    address: Address | None = None
    user: User | None = None
    port: Port | None = None
    identity_file: KeyFile | None = None
    proxy_jump: Jumps | None = None
    internal_ip: str | None = None
    engine: Engine | None = None
    nodes: Annotated[int, Meta(ge=0)] | None = None

    @property
    def ssh_target(self) -> str:
        """What ssh is told to connect to."""
        return self.address or self.name


class PersonSpec(Shape, frozen=True, kw_only=True):
    """Somebody who has an account in every node of the cluster, or whom its nodes know by a directory.

    Attributes:
        name: Of the account, and of its group.
        uid: Number of both, the same in all nodes; null for somebody of the directory, which has the account.
        keys: With which ssh lets them in, as in authorized_keys, without options.
        account: A group of people, with a folder of its own where the nodes share one; null for none.
        gpus: How many they may have at once, by Slurm's accounting or by workers; null for any.
    """

    name: PersonName
    uid: Annotated[int, Meta(ge=LEAST_UID, le=MOST_UID, extra={"allowed": f"{LEAST_UID} to {MOST_UID}"})] | None = None
    keys: tuple[str, ...] = ()
    account: PersonName | None = None
    gpus: Annotated[int, Meta(ge=0)] | None = None

    @property
    def in_directory(self) -> bool:
        """Whether a directory has the account, so that the nodes have none."""
        return self.uid is None


class PlacementSpec(Shape, frozen=True, kw_only=True):
    """How new nodes are placed on the hosts.

    Attributes:
        strategy: `spread` by free GPUs, `pack` on few hosts, `fixed` as the hosts say.
    """

    strategy: Strategy = "spread"


class UnreachableSpec(Shape, frozen=True, kw_only=True):
    """When a host that does not answer counts as away.

    Attributes:
        after_s: Seconds without an answer.
    """

    after_s: Annotated[int, Meta(ge=5, le=86_400, extra={"allowed": "5 to 86400"})] = 30


class ClusterSpec(Shape, frozen=True, kw_only=True):
    """A whole cluster, as `gpuprov/v1` YAML describes it (docs/spec.md).

    Attributes:
        name: Of the cluster.
        engine: That runs its nodes.
        share: The folder of the host that all nodes share; true for a place of the cluster's own, false for none.
        people: Who has an account in its nodes, and who of the directory has an account of people or a limit.
        sssd: A file of the host, the site's sssd.conf, by which nodes know people of its directory; null for none.
        accounting: Whether Slurm records in a database who used which GPUs for how long.
        hosts: The machines over which it spans; empty for this machine alone. In bundles, absent without hosts, as
            `placement`, `unreachable` and `network.overlay`.
    """

    now_and_then: ClassVar[frozenset[str]] = frozenset({"hosts", "people", "placement", "sssd", "unreachable"})
    name: ClusterName = DEFAULT_CLUSTER
    engine: Engine = DEFAULT_ENGINE
    nodes: NodesSpec = field(default_factory=NodesSpec)
    gpus: GpuSpec = field(default_factory=GpuSpec)
    network: NetworkSpec = field(default_factory=NetworkSpec)
    image: ImageSpec = field(default_factory=ImageSpec)
    slurm: SlurmSpec = field(default_factory=SlurmSpec)
    worker: WorkerSpec = field(default_factory=WorkerSpec)
    jobs: JobsSpec = field(default_factory=JobsSpec)
    share: bool | str = DEFAULT_SHARE
    people: tuple[PersonSpec, ...] = ()
    sssd: str | None = None
    accounting: bool = False
    hosts: tuple[HostSpec, ...] = ()
    placement: PlacementSpec = field(default_factory=PlacementSpec)
    unreachable: UnreachableSpec = field(default_factory=UnreachableSpec)

    def host(self, name: str) -> HostSpec | None:
        """The host of that name."""
        return next((host for host in self.hosts if host.name == name), None)


class WrittenSpec(ClusterSpec, frozen=True, kw_only=True, tag_field="version", tag=API_VERSION):
    """The same with its version, as files and labels have it."""


class SpecOfCluster(PartDocument, frozen=True, kw_only=True, tag="gpuprov.cluster-spec/v1"):
    """What was last asked for of a cluster, as spec.json in a bundle tells it; docs/spec.md explains the keys.

    Attributes:
        host: Name of the host.
        spec: Null for a cluster that was never brought up.
    """

    host: HostName
    cluster: Word
    spec: ClusterSpec | None
