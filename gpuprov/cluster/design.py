"""The design of one node: everything but its image and the files of its cluster, decided before it is created."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpuprov import __version__
from gpuprov.cluster.held_gpus import (
    held_cores,
    held_types,
    held_units,
    is_gpu_path,
    join_cores,
    join_units,
)
from gpuprov.cluster.node_limits import GivenLimits
from gpuprov.core.fingerprint import fingerprint, plain_fields
from gpuprov.core.units import GIB, MIB
from gpuprov.drivers.base import (
    LABEL_ACCESS,
    LABEL_ACCESS_REASON,
    LABEL_ADDRESS,
    LABEL_CLUSTER,
    LABEL_DRIVER,
    LABEL_FINGERPRINT,
    LABEL_GPU_CORES,
    LABEL_GPU_TYPES,
    LABEL_GPU_UNITS,
    LABEL_GPUS,
    LABEL_HOST_GPUS,
    LABEL_LIMITS,
    LABEL_PRIVATE_ADDRESS,
    LABEL_ROLE,
    LABEL_SHARING,
    LABEL_VERSION,
    EngineGpus,
    File,
    NodeRequest,
)
from gpuprov.gpu.access import decide_access
from gpuprov.gpu.order import VISIBLE, inner_environment
from gpuprov.gpu.visible_devices import parse_visible
from gpuprov.shapes.node import CharDevice, Mount, NodeLimits
from gpuprov.spec.variables import read_variables

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.cluster.placement import Place
    from gpuprov.gpu.access import AccessKind
    from gpuprov.gpu.models import Gpu
    from gpuprov.shapes.choices import RoleName, Sharing
    from gpuprov.shapes.cluster_spec import ClusterSpec
    from gpuprov.shapes.node import Attachment
    from gpuprov.shapes.whole import LeasedUnit

_CIRCUMSTANCES = ("access_reason", "gpu_cores", "gpu_types", "gpu_units", "host_gpus", "host")
_NOT_HASHED = (*_CIRCUMSTANCES, "processes", "given")  # an earlier gpuprov did not know the latter


@dataclass(frozen=True, kw_only=True)
class NodeDesign:
    """The design of a node.

    Attributes:
        host: Name of the host that it is placed on.
        gpus: UUIDs of its leased GPUs.
        access: How they get in.
        access_reason: Why so; no part of what the node is.
        host_gpus: Number of GPUs on the host's PCI bus when it was made; no part of what the node is.
        gpu_types: A short name of the model for each of its devices that are GPUs, in order of minor; none if unknown.
        gpu_cores: Of the host that are nearest to each of these; none if unknown, or if they are the same for all.
        gpu_units: Its GPUs and parts of GPUs one by one; none where all are whole GPUs of one type.
        driver_version: Of the host's NVIDIA driver when it was made.
        own_mounts: What the user asked to mount; the driver's libraries are in `mounts` only.
        given: Limits that hold where the spec sets none.
    """

    cluster: str
    name: str
    role: RoleName
    attachments: tuple[Attachment, ...]
    gpus: tuple[str, ...]
    sharing: Sharing
    access: AccessKind
    driver_version: str
    devices: tuple[CharDevice, ...]
    mounts: tuple[Mount, ...]
    privileged: bool
    cpus: int | None
    memory_gib: int | None
    processes: int | None = None
    given: GivenLimits = field(default_factory=GivenLimits)
    environment: Mapping[str, str] = field(default_factory=dict)
    gpu_types: tuple[str, ...] = ()
    gpu_cores: tuple[str, ...] = ()
    gpu_units: tuple[LeasedUnit, ...] = ()
    access_reason: str = ""
    host_gpus: int = 0
    host: str = ""

    @property
    def address(self) -> str:
        """The address on eth0, without prefix length; empty if it is not on that network."""
        return self._address_of("eth0")

    @property
    def private_address(self) -> str:
        """The address on eth1, without prefix length; empty if it is not on that network."""
        return self._address_of("eth1")

    @property
    def gpu_words(self) -> str:
        """Its GPUs in words: how many, whether shared, and how they get in."""
        count = len(self.gpus)
        return f"{count} GPU{'s' if count > 1 else ''} {self.sharing} ({self.access})" if count else "no GPU"

    @property
    def summary(self) -> str:
        """The node in a line of a plan or an outcome."""
        return f"{self.name} {self.address or self.private_address} role {self.role}, {self.gpu_words}"

    @property
    def limits(self) -> NodeLimits:
        """What it may use of its host."""
        memory_bytes = self.memory_gib * GIB if self.memory_gib else (self.given.memory_mib or 0) * MIB
        return NodeLimits(
            processes=self.processes or self.given.processes, memory_bytes=memory_bytes or None, cpus=self.cpus
        )

    def _address_of(self, interface: str) -> str:
        found = (attachment.address for attachment in self.attachments if attachment.interface == interface)
        return next(found, "").partition("/")[0]

    def labels(self) -> dict[str, str]:
        """The labels that make the engine our database; the fingerprint covers the whole design."""
        return {
            LABEL_CLUSTER: self.cluster,
            LABEL_ROLE: self.role,
            LABEL_GPUS: ",".join(self.gpus),
            LABEL_GPU_TYPES: ",".join(self.gpu_types),
            LABEL_GPU_CORES: join_cores(self.gpu_cores),
            LABEL_GPU_UNITS: join_units(self.gpu_units),
            LABEL_SHARING: self.sharing,
            LABEL_ACCESS: self.access,
            LABEL_DRIVER: self.driver_version,
            LABEL_ADDRESS: self.address,
            LABEL_PRIVATE_ADDRESS: self.private_address,
            LABEL_LIMITS: self.given.dump(),
            LABEL_VERSION: __version__,
            LABEL_FINGERPRINT: fingerprint({k: v for k, v in plain_fields(self).items() if k not in _NOT_HASHED}),
        }

    def circumstances(self) -> dict[str, str]:
        """Labels that tell of the host as it was then; a node that differs in them alone is as designed."""
        told = {LABEL_ACCESS_REASON: self.access_reason, LABEL_HOST_GPUS: str(self.host_gpus or "")}
        return {label: text for label, text in told.items() if text}

    def _lease_files(self) -> tuple[File, ...]:
        """What `nvidia-smi` lists where GPUs are simulated; a lease never changes."""
        if self.access != "simulated":
            return ()
        paths = [unit.devices[0] for unit in self.gpu_units]
        paths = paths or [
            device.path for device in self.devices if is_gpu_path(device.path)
        ]  # in the order of the GPUs
        lines = "".join(f"{path} {uuid}\n" for path, uuid in zip(paths, self.gpus, strict=True))
        return (File(path="/etc/simulated-gpus", content=lines.encode()),)

    def request(
        self, image: str = "", files: tuple[File, ...] = (), labels: Mapping[str, str] | None = None
    ) -> NodeRequest:
        """What the driver needs to make it, or to compare it with one that is there.

        Args:
            image: Identity of the image; a comparison needs none.
            files: What it holds before its first boot.
            labels: Labels besides those of the design.
        """
        return NodeRequest(
            name=self.name,
            host=self.host,
            image=image,
            labels={**self.labels(), **(labels or {})},
            attachments=self.attachments,
            devices=self.devices,
            mounts=self.mounts,
            files=(*files, *self._lease_files()),
            privileged=self.privileged,
            cpus=self.limits.cpus,
            memory_bytes=self.limits.memory_bytes,
            processes=self.limits.processes,
            gives_way=self.given.processes is not None,
            environment=self.environment,
            engine_gpus=engine_gpus(self.access, self.gpus),
        )


def design_node(
    spec: ClusterSpec,
    name: str,
    *,
    attachments: tuple[Attachment, ...],
    gpus: tuple[Gpu, ...],
    sharing: Sharing,
    place: Place,
) -> NodeDesign:
    """Put a node together from its parts; how its GPUs get in follows from the host, and from what its engine offers.

    Raises:
        HostNotReady: The host cannot hand these GPUs into a node.
    """
    nodes = spec.nodes
    variables = read_variables(nodes.environment)
    there = place.gpus
    access = decide_access(there, gpus, driver_files=parse_visible(variables.get(VISIBLE), there).driver)
    own = tuple(Mount(source=m.source, target=m.target, read_only=m.read_only) for m in nodes.mounts)
    return NodeDesign(
        cluster=spec.name,
        name=name,
        role=nodes.role,
        attachments=attachments,
        gpus=tuple(gpu.uuid for gpu in gpus),
        sharing=sharing,
        access=access.kind,
        access_reason=access.reason if gpus else "",
        host_gpus=0 if there.simulated or there.driver is None else len(there.driver.cards),
        driver_version=there.driver_version if gpus else "",
        devices=access.devices,
        mounts=(
            *access.mounts,
            *own,
            *place.shared.get(nodes.role, ()),
            *place.shared.get((nodes.role, name), ()),
        ),
        privileged=nodes.privileged,
        cpus=nodes.cpus,
        memory_gib=nodes.memory_gib,
        processes=nodes.processes,
        given=place.limits(),
        environment=inner_environment(variables),
        gpu_types=held_types(gpus, access.devices),
        gpu_cores=held_cores(gpus, access.devices),
        gpu_units=held_units(gpus, access.devices, there),
        host=place.host,
    )


def engine_gpus(access: AccessKind, uuids: tuple[str, ...]) -> EngineGpus | None:
    """What the engine itself hands in by this way, if it is one of its ways."""
    if access in ("cdi", "nvidia-runtime"):
        return EngineGpus(access=access, uuids=uuids)
    return None


def changed_labels(design: NodeDesign, labels: Mapping[str, str]) -> dict[str, str]:
    """The labels of the design that a node does not have."""
    return {key: value for key, value in design.labels().items() if labels.get(key, "") != value}
