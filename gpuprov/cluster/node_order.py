"""What `create-node` and `clone` were asked for: recorded on the node, so that the same command knows its own work."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Literal

from gpuprov.drivers.base import LABEL_ORDER
from gpuprov.gpu.order import GpuOrder
from gpuprov.shapes.choices import Sharing  # noqa: TC001 - the decoder reads these hints
from gpuprov.spec.document import parse_json
from gpuprov.spec.models import GpuMode, MountSpec, Role  # noqa: TC001 - the decoder reads these hints
from gpuprov.spec.schema import Decoder
from gpuprov.spec.variables import find_variable_problems, read_variables

if TYPE_CHECKING:
    from gpuprov.drivers.base import NodeState

Network = Literal["both", "nat", "private"]


@dataclass(frozen=True, kw_only=True)
class NodeOrder:
    """What `create-node` is asked for; None takes what the cluster's spec says.

    Attributes:
        address: On the NAT bridge; None takes the node's number or the next free one.
        gpus: A count, `all`, `none`, or a list of index, UUID, PCI address or MIG instance.
        memory_bytes: That each GPU has at least.
        model: A part of the name of each GPU's model.
        environment: Variables, each as KEY=VALUE, over those of the cluster's spec.
        image: Name of an image of gpuprov's or of the engine's.
        network: Which of the two networks it is on.
        gpu_mode: Whether GPUs are real or simulated; no part of what the node is.
        source: A stopped node whose disk it is a copy of, instead of an image.
        agreed: Whether a controller asks, for a cluster that spans hosts; no part of what the node is either.
        secret: What its nodes share, in base64, as that controller knows it.
    """

    name: str
    cluster: str
    address: str | None = None
    role: Role | None = None
    gpus: str | None = None
    sharing: Sharing | None = None
    memory_bytes: int | None = None
    model: str | None = None
    environment: tuple[str, ...] = ()
    image: str | None = None
    mounts: tuple[MountSpec, ...] = ()
    network: Network = "both"
    privileged: bool = False
    source: str | None = None
    gpu_mode: GpuMode = "auto"
    agreed: bool = False
    secret: str = field(default="", repr=False)

    @property
    def gpu_order(self) -> GpuOrder:
        """What it says about GPUs."""
        return GpuOrder(
            gpus=self.gpus,
            sharing=self.sharing,
            memory_bytes=self.memory_bytes,
            model=self.model,
            environment=read_variables(self.environment),
        )

    def label(self) -> str:
        """The order as one line of JSON."""
        said = {key: value for key, value in asdict(self).items() if key not in ("gpu_mode", "agreed", "secret")}
        return json.dumps(said, sort_keys=True, separators=(",", ":"))


def read_order(node: NodeState) -> NodeOrder | None:
    """What a node was ordered as; None for one that `cluster up` made."""
    text = node.labels.get(LABEL_ORDER)
    return read_order_text(text) if text else None


def knows_more(text: str) -> bool:
    """Whether a later version wrote the text of an order: it has keys that this one does not know."""
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return False
    known = {one.name for one in fields(NodeOrder)}
    return isinstance(said, dict) and {"name", "cluster"} <= said.keys() and not said.keys() <= known


def read_order_text(text: str) -> NodeOrder | None:
    """Read what `label` wrote; None for anything else."""
    decoder = Decoder()
    try:
        order = decoder.decode(NodeOrder, parse_json(text))
    except (ValueError, RecursionError):
        return None
    if order is None or decoder.problems or any(find_variable_problems(order.environment)):
        return None  # of another version, or edited by hand: as if it had none
    return order
