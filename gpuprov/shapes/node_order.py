"""What `create-node` and `clone` were asked for; `cluster/order_label.py` records it on the node."""

from __future__ import annotations

from msgspec import field

from gpuprov.shapes.base import Shape
from gpuprov.shapes.choices import GpuMode, Network, RoleName
from gpuprov.shapes.cluster_spec import MountSpec
from gpuprov.shapes.gpu_order import GpuOrder


class NodeOrder(Shape, frozen=True, kw_only=True):
    """What `create-node` is asked for; None takes what the cluster's spec says.

    Attributes:
        address: On the NAT bridge; None takes the node's number or the next free one.
        environment: Variables, each as KEY=VALUE, over those of the cluster's spec; some ask for GPUs.
        image: Name of an image of gpuprov's or of the engine's.
        network: Which of the two networks it is on.
        gpu_mode: Whether GPUs are real or simulated; no part of what the node is.
        source: A stopped node whose disk it is a copy of, instead of an image.
        agreed: Whether a controller asks, for a cluster that spans hosts; no part of what the node is either.
        new_cluster: Whether it may begin a cluster although another one has a name like that; no part of the node.
        secret: What its nodes share, in base64, as that controller knows it.
        sssd: A site's sssd.conf, as that controller has read it; empty for none.
    """

    name: str
    cluster: str
    address: str | None = None
    role: RoleName | None = None
    gpus: GpuOrder = field(default_factory=GpuOrder)
    environment: tuple[str, ...] = ()
    image: str | None = None
    mounts: tuple[MountSpec, ...] = ()
    network: Network = "both"
    privileged: bool = False
    source: str | None = None
    gpu_mode: GpuMode = "auto"
    agreed: bool = False
    new_cluster: bool = False
    secret: str = ""
    sssd: str = ""

    def __repr__(self) -> str:
        """Without what is secret."""
        names = (name for name in self.__struct_fields__ if name not in ("secret", "sssd"))
        said = (f"{name}={getattr(self, name)!r}" for name in names)
        return f"{type(self).__name__}({', '.join(said)})"
