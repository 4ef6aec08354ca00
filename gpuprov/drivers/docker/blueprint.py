"""What a container was made to be, kept in a label of it: Docker's own documents say less and say it differently.

Nothing that gpuprov changes of it changes without a new container, so the label does not fall out of step with it;
changes made with `docker update` are not detected.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from gpuprov.drivers.base import Attachment, EngineGpus, Exposure, Setting
from gpuprov.spec.devices import CharDevice, Mount

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuprov.drivers.base import NodeRequest, Settings

NODE_LABEL = "gpuprov-docker.node"


@dataclass(frozen=True, kw_only=True)
class Blueprint:
    """A node's configuration.

    Attributes:
        name: Of the node; while it is made or replaced, the container's own name has a suffix.
        uid: Of the node as long as it lives, whichever container it is.
        own_labels: Keys of the labels that are this node's; others were inherited from its image.
        job: Whether its main process is a command, with which it goes.
    """

    name: str
    uid: str
    own_labels: tuple[str, ...] = ()
    attachments: tuple[Attachment, ...] = ()
    devices: tuple[CharDevice, ...] = ()
    mounts: tuple[Mount, ...] = ()
    exposed: tuple[Exposure, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    engine_gpus: EngineGpus | None = None
    cpus: int | None = None
    memory_bytes: int | None = None
    job: bool = False

    def with_devices(self, devices: Sequence[CharDevice], mounts: Sequence[Mount]) -> Blueprint:
        """The same node with other devices and mounts."""
        return replace(self, devices=tuple(devices), mounts=tuple(mounts))

    def with_settings(self, request: NodeRequest) -> Blueprint:
        """The same node as a request has it: its devices and mounts too, since the present ones may be gone."""
        hidden = dict.fromkeys(self.environment, "")  # Docker lets a container inherit its image's variables
        return replace(
            self,
            attachments=request.attachments,
            devices=request.devices,
            mounts=request.mounts,
            environment={**hidden, **request.environment},
            engine_gpus=request.engine_gpus,
            cpus=request.cpus,
            memory_bytes=request.memory_bytes,
        )

    def with_exposed(self, exposed: Sequence[Exposure]) -> Blueprint:
        """The same node with other ports."""
        return replace(self, exposed=tuple(exposed))


def plan_blueprint(request: NodeRequest, *, uid: str, job: bool = False) -> Blueprint:
    """The configuration that a request asks for."""
    return Blueprint(
        name=request.name,
        uid=uid,
        own_labels=tuple(sorted(request.labels)),
        attachments=request.attachments,
        devices=request.devices,
        mounts=request.mounts,
        environment=dict(request.environment),
        engine_gpus=request.engine_gpus,
        cpus=request.cpus,
        memory_bytes=request.memory_bytes,
        job=job,
    )


def describe_settings(blueprint: Blueprint) -> Settings:
    """All of it that other parts of a NodeState do not show, in words; any change needs a new container."""
    shown = {f"environment.{key}": value for key, value in blueprint.environment.items()}
    for nic in blueprint.attachments:
        shown[nic.interface] = f"{nic.address} {nic.mac} by {nic.kind} on {nic.network}"
    if blueprint.engine_gpus:
        shown["GPUs from Docker"] = f"{blueprint.engine_gpus.access} {','.join(blueprint.engine_gpus.uuids)}"
    shown |= {"cpus": str(blueprint.cpus or ""), "memory": str(blueprint.memory_bytes or "")}
    return {key: Setting(value=value, live=False) for key, value in shown.items() if value}


def dump_blueprint(blueprint: Blueprint) -> str:
    """As the label's text."""
    return json.dumps(asdict(blueprint), sort_keys=True)


def parse_blueprint(text: str) -> Blueprint:
    """From the label's text."""
    document: dict[str, Any] = json.loads(text)
    gpus = document.pop("engine_gpus")
    document["own_labels"] = tuple(document["own_labels"])
    for key, kind in (("attachments", Attachment), ("devices", CharDevice), ("mounts", Mount), ("exposed", Exposure)):
        document[key] = tuple(kind(**entry) for entry in document[key])
    return Blueprint(
        **document, engine_gpus=EngineGpus(access=gpus["access"], uuids=tuple(gpus["uuids"])) if gpus else None
    )
