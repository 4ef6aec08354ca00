"""What a user asks for: a cluster and its parts, as `gpuprov/v1` YAML, labels and bundles have them (docs/spec.md)."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, field

from gpuprov.shapes.base import Shape
from gpuprov.shapes.choices import (
    CLUSTER_RULE,
    DEFAULT_BRIDGE,
    DEFAULT_CLUSTER,
    DEFAULT_ENGINE,
    DEFAULT_PRIVATE_BRIDGE,
    Engine,
    GpuMode,
    Role,
    Sharing,
)
from gpuprov.shapes.gpu_order import GpuOrder
from gpuprov.shapes.limits import NODES_MAX

Strategy = Literal["spread", "pack", "fixed"]
OverlayType = Literal["vxlan", "none"]
Encryption = Literal["none", "wireguard"]
DEFAULT_SHARE = False
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
HostName = Annotated[
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


class MountSpec(Shape, frozen=True, kw_only=True):
    """A folder of the host that appears in every node."""

    source: str
    target: str
    read_only: bool = False


class NodesSpec(Shape, frozen=True, kw_only=True):
    """How many nodes, and what each is.

    Attributes:
        cpus: That each may use; None for all.
        memory_gib: That each may use; None for almost all of the host's.
        processes: That each may have, threads included; None for a share of the host's.
        environment: Variables of every process in them, each as KEY=VALUE; some ask for GPUs (docs/gpus.md).
    """

    count: Annotated[int, Meta(ge=1, extra={"allowed": f"1 to {NODES_MAX}"})] = 4
    prefix: Annotated[
        str,
        Meta(
            pattern=r"^[a-z][a-z0-9-]{0,39}\Z",
            extra={"allowed": "1 to 40 of a-z, 0-9 and -; starts with a letter"},
        ),
    ] = "c"
    role: Role = "slurm"
    privileged: bool = False
    cpus: Amount | None = None
    memory_gib: Amount | None = None
    processes: Annotated[int, Meta(ge=LEAST_PROCESSES)] | None = None
    mounts: tuple[MountSpec, ...] = ()
    environment: tuple[str, ...] = ()


class GpuSpec(GpuOrder, frozen=True, kw_only=True):
    """What is ordered for each node of a cluster; here nothing is left unsaid."""

    per_node: Annotated[int, Meta(ge=0)] = 1
    sharing: Sharing = "shared"
    memory_gib: Annotated[int, Meta(ge=1, extra={"allowed": "a whole number, 1 or more"})] | None = None
    model: Annotated[str, Meta(pattern=r"\S", extra={"allowed": "a part of the model name, or null"})] | None = None
    mode: GpuMode = "auto"


class OverlaySpec(Shape, frozen=True, kw_only=True):
    """What carries the private network from host to host; without `hosts` there is none.

    Attributes:
        type: `none` where the private bridges of the hosts are connected by the user's own means.
        vni: Of the VXLAN; None for one that follows from the cluster's name.
        port: UDP port on which hosts receive it.
        mtu: Of eth1; None for what the network between the hosts leaves.
    """

    type: OverlayType = "vxlan"
    vni: Annotated[int, Meta(ge=1, le=2**24 - 1)] | None = None
    port: Port = 4789
    mtu: Annotated[int, Meta(ge=MTU_LEAST, le=MTU_MOST)] | None = None
    encryption: Encryption = "none"


class NetworkSpec(Shape, frozen=True, kw_only=True):
    """The two networks: veth on a bridge with NAT, and private macvlan on a bridge without an address.

    Attributes:
        host_ports: Ports of the host that nodes may reach, such as 8080 or 53/udp (spec/host_ports.py).
    """

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
        requirements: A file with more of them; only in a spec file, for who reads it adds its content to `python`.
        roles: Folders of Ansible roles of the user's own.
        toolkit: Whether nodes can build CUDA programs and run them together.
    """

    base: str = "bookworm"
    packages: tuple[str, ...] = ()
    python: tuple[str, ...] = ()
    requirements: str | None = None
    roles: tuple[str, ...] = ()
    toolkit: bool = False


class SlurmSpec(Shape, frozen=True, kw_only=True):
    """The batch system; the controller is node number `controller`.

    Attributes:
        backup: Name of the node that takes over where the controller's is away; None for none.
    """

    controller: Annotated[int, Meta(ge=0)] = 0
    partition: Annotated[
        str,
        Meta(
            pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,39}\Z",
            extra={"allowed": "1 to 40 of A-Z, a-z, 0-9, _ and -"},
        ),
    ] = "gpu"
    backup: str | None = None


class WorkerSpec(Shape, frozen=True, kw_only=True):
    """The queue of workers.

    Attributes:
        broker: URL of a message broker of the user's; None for one on the first node.
    """

    broker: str | None = None


class JobsSpec(Shape, frozen=True, kw_only=True):
    """What a job gets where `submit` is not told otherwise, written as its options, and how long its results stay.

    Attributes:
        time: After which a try is ended; None for no limit.
        memory: That a node must have for a run; None where it does not matter.
        keep: How long after its end `submit` leaves what a job wrote; None for as long as nobody removes it.
    """

    time: str | None = None
    memory: str | None = None
    keep: str | None = None


class HostSpec(Shape, frozen=True, kw_only=True):
    """A machine that has a part of the cluster's nodes, and how it is reached by ssh.

    Attributes:
        name: Its name in this cluster.
        address: Host name, IP address or alias in ~/.ssh/config; None where `name` is that.
        user: None for what ssh takes by itself; `port`, `identity_file` and `proxy_jump` likewise.
        internal_ip: Its address on the network between the hosts; None for the one at which ssh reaches it.
        engine: None for the cluster's.
        nodes: How many nodes it has, with the strategy `fixed`.
    """

    name: HostName
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


class PlacementSpec(Shape, frozen=True, kw_only=True):
    """How new nodes are placed on the hosts: `spread` by free GPUs, `pack` on few hosts, `fixed` as the hosts say."""

    strategy: Strategy = "spread"


class UnreachableSpec(Shape, frozen=True, kw_only=True):
    """When a host that does not answer counts as away."""

    after_s: Annotated[int, Meta(ge=5, le=86_400, extra={"allowed": "5 to 86400"})] = 30


class ClusterSpec(Shape, frozen=True, kw_only=True):
    """A whole cluster, as `gpuprov/v1` YAML describes it (docs/spec.md).

    Attributes:
        share: The folder of the host that all nodes share; True for a place of the cluster's own, False for none.
        hosts: The machines over which it spans; empty for this machine alone.
    """

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
    hosts: tuple[HostSpec, ...] = ()
    placement: PlacementSpec = field(default_factory=PlacementSpec)
    unreachable: UnreachableSpec = field(default_factory=UnreachableSpec)

    def host(self, name: str) -> HostSpec | None:
        """The host of that name."""
        return next((host for host in self.hosts if host.name == name), None)


class WrittenSpec(ClusterSpec, frozen=True, kw_only=True, tag_field="version", tag=API_VERSION):
    """The same with its version, as files and labels have it."""
