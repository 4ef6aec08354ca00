"""What a user asks for: frozen models of a cluster and its parts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal, get_args

from gpuprov.core.names import DEFAULT_BRIDGE, DEFAULT_CLUSTER, DEFAULT_PRIVATE_BRIDGE

Role = str  # which there are, planes/registry.py says
Sharing = Literal["shared", "exclusive"]
GpuMode = Literal["auto", "real", "simulated"]
Engine = Literal["lxd", "incus", "docker"]
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
        environment: Variables of every process in them, each as KEY=VALUE; some ask for GPUs (docs/gpus.md).
    """

    count: int = 4
    prefix: str = "c"
    role: Role = "slurm"
    privileged: bool = False
    cpus: int | None = None
    memory_gib: int | None = None
    mounts: tuple[MountSpec, ...] = ()
    environment: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class GpuSpec:
    """Which GPUs each node holds: `per_node` of them, shared with other nodes or exclusive.

    Attributes:
        model: A part of the name that each must have.
        memory_gib: That each must have at least.
    """

    per_node: int = 1
    sharing: Sharing = "shared"
    mode: GpuMode = "auto"
    model: str | None = None
    memory_gib: int | None = None


@dataclass(frozen=True, kw_only=True)
class NetworkSpec:
    """The two networks: veth on a bridge with NAT, and private macvlan on a bridge without an address."""

    bridge: str = DEFAULT_BRIDGE
    subnet: str = "10.0.3.0/24"
    private_bridge: str = DEFAULT_PRIVATE_BRIDGE
    private_subnet: str = "10.0.5.0/24"


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
    """The batch system; the controller is node number `controller`."""

    controller: int = 0
    partition: str = "gpu"


@dataclass(frozen=True, kw_only=True)
class WorkerSpec:
    """The queue of workers.

    Attributes:
        broker: URL of a message broker of the user's; None for one on the first node.
    """

    broker: str | None = None


@dataclass(frozen=True, kw_only=True)
class ClusterSpec:
    """A whole cluster, as `gpuprov/v1` YAML describes it (docs/spec.md).

    Attributes:
        share: The folder of the host that all nodes share; True for a place of the cluster's own, False for none.
    """

    name: str = DEFAULT_CLUSTER
    engine: Engine = DEFAULT_ENGINE
    nodes: NodesSpec = field(default_factory=NodesSpec)
    gpus: GpuSpec = field(default_factory=GpuSpec)
    network: NetworkSpec = field(default_factory=NetworkSpec)
    image: ImageSpec = field(default_factory=ImageSpec)
    slurm: SlurmSpec = field(default_factory=SlurmSpec)
    worker: WorkerSpec = field(default_factory=WorkerSpec)
    share: bool | str = DEFAULT_SHARE
