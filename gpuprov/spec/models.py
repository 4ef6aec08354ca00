"""What a user asks for: frozen models of a cluster and its parts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal, get_args

from gpuprov.core.names import DEFAULT_BRIDGE, DEFAULT_CLUSTER, DEFAULT_PRIVATE_BRIDGE
from gpuprov.shapes.choices import Engine, Sharing
from gpuprov.spec.gpu_order import GpuOrder

Role = str  # which there are, planes/registry.py says
GpuMode = Literal["auto", "real", "simulated"]
Strategy = Literal["spread", "pack", "fixed"]
OverlayType = Literal["vxlan", "none"]
Encryption = Literal["none", "wireguard"]
ENGINES: Final[tuple[Engine, ...]] = get_args(Engine)
DEFAULT_ENGINE: Final[Engine] = "lxd"  # for what is new
DEFAULT_SHARE: Final = False


@dataclass(frozen=True, kw_only=True)
class MountSpec:
    """A folder of the host that appears in every node."""

    source: str
    target: str
    read_only: bool = False


@dataclass(frozen=True, kw_only=True)
class NodesSpec:
    """How many nodes, and what each is.

    Attributes:
        cpus: That each may use; None for all.
        memory_gib: That each may use; None for almost all of the host's.
        processes: That each may have, threads included; None for a share of the host's.
        environment: Variables of every process in them, each as KEY=VALUE; some ask for GPUs (docs/gpus.md).
    """

    count: int = 4
    prefix: str = "c"
    role: Role = "slurm"
    privileged: bool = False
    cpus: int | None = None
    memory_gib: int | None = None
    processes: int | None = None
    mounts: tuple[MountSpec, ...] = ()
    environment: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class GpuSpec(GpuOrder):
    """What is ordered for each node of a cluster; here nothing is left unsaid."""

    per_node: int = 1
    sharing: Sharing = "shared"
    memory_gib: int | None = None
    mode: GpuMode = "auto"


@dataclass(frozen=True, kw_only=True)
class OverlaySpec:
    """What carries the private network from host to host; without `hosts` there is none.

    Attributes:
        type: `none` where the private bridges of the hosts are connected by the user's own means.
        vni: Of the VXLAN; None for one that follows from the cluster's name.
        port: UDP port on which hosts receive it.
        mtu: Of eth1; None for what the network between the hosts leaves.
    """

    type: OverlayType = "vxlan"
    vni: int | None = None
    port: int = 4789
    mtu: int | None = None
    encryption: Encryption = "none"


@dataclass(frozen=True, kw_only=True)
class NetworkSpec:
    """The two networks: veth on a bridge with NAT, and private macvlan on a bridge without an address.

    Attributes:
        host_ports: Ports of the host that nodes may reach, such as 8080 or 53/udp (spec/host_ports.py).
    """

    bridge: str = DEFAULT_BRIDGE
    subnet: str = "10.0.3.0/24"
    private_bridge: str = DEFAULT_PRIVATE_BRIDGE
    private_subnet: str = "10.0.5.0/24"
    host_ports: tuple[int | str, ...] = ()
    overlay: OverlaySpec = field(default_factory=OverlaySpec)


@dataclass(frozen=True, kw_only=True)
class ImageSpec:
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


@dataclass(frozen=True, kw_only=True)
class SlurmSpec:
    """The batch system; the controller is node number `controller`.

    Attributes:
        backup: Name of the node that takes over where the controller's is away; None for none.
    """

    controller: int = 0
    partition: str = "gpu"
    backup: str | None = None


@dataclass(frozen=True, kw_only=True)
class WorkerSpec:
    """The queue of workers.

    Attributes:
        broker: URL of a message broker of the user's; None for one on the first node.
    """

    broker: str | None = None


@dataclass(frozen=True, kw_only=True)
class JobsSpec:
    """What a job gets where `submit` is not told otherwise, written as its options, and how long its results stay.

    Attributes:
        time: After which a try is ended; None for no limit.
        memory: That a node must have for a run; None where it does not matter.
        keep: How long after its end `submit` leaves what a job wrote; None for as long as nobody removes it.
    """

    time: str | None = None
    memory: str | None = None
    keep: str | None = None


@dataclass(frozen=True, kw_only=True)
class HostSpec:
    """A machine that has a part of the cluster's nodes, and how it is reached by ssh.

    Attributes:
        name: Its name in this cluster.
        address: Host name, IP address or alias in ~/.ssh/config; None where `name` is that.
        user: None for what ssh takes by itself; `port`, `identity_file` and `proxy_jump` likewise.
        internal_ip: Its address on the network between the hosts; None for the one at which ssh reaches it.
        engine: None for the cluster's.
        nodes: How many nodes it has, with the strategy `fixed`.
    """

    name: str
    address: str | None = None
    user: str | None = None
    port: int | None = None
    identity_file: str | None = None
    proxy_jump: str | None = None
    internal_ip: str | None = None
    engine: Engine | None = None
    nodes: int | None = None

    @property
    def ssh_target(self) -> str:
        """What ssh is told to connect to."""
        return self.address or self.name


@dataclass(frozen=True, kw_only=True)
class PlacementSpec:
    """How new nodes are placed on the hosts: `spread` by free GPUs, `pack` on few hosts, `fixed` as the hosts say."""

    strategy: Strategy = "spread"


@dataclass(frozen=True, kw_only=True)
class UnreachableSpec:
    """When a host that does not answer counts as away."""

    after_s: int = 30


@dataclass(frozen=True, kw_only=True)
class ClusterSpec:
    """A whole cluster, as `gpuprov/v1` YAML describes it (docs/spec.md).

    Attributes:
        share: The folder of the host that all nodes share; True for a place of the cluster's own, False for none.
        hosts: The machines over which it spans; empty for this machine alone.
    """

    name: str = DEFAULT_CLUSTER
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
