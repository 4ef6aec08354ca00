"""What a container was made to be, kept in a label of it: Docker's own documents say less and say it differently.

Nothing that gpuprov changes of it changes without a new container, so the label does not fall out of step with it;
changes made with `docker update` are not detected.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

from gpuprov.core.fingerprint import plain_fields
from gpuprov.drivers.base import NO_TERMS, EngineGpus, JobTerms
from gpuprov.drivers.label_text import only_texts, read_object
from gpuprov.shapes.base import Shape, read
from gpuprov.shapes.node import Attachment, CharDevice, Exposure, Mount, Setting

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuprov.drivers.base import NodeRequest
    from gpuprov.shapes.node import Settings

T = TypeVar("T", bound="Shape")
NODE_LABEL = "gpuprov-docker.node"


@dataclass(frozen=True, kw_only=True)
class Blueprint:
    """A node's configuration.

    Attributes:
        name: Of the node; while it is made or replaced, the container's own name has a suffix.
        uid: Of the node as long as it lives, whichever container it is.
        own_labels: Keys of the labels that are this node's; others were inherited from its image.
        job: Whether its main process is a command.
        terms: How that runs; nobody reads them again.
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
    processes: int | None = None
    gives_way: bool = False
    job: bool = False
    terms: JobTerms = NO_TERMS

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
            processes=request.processes,
            gives_way=request.gives_way,
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
        processes=request.processes,
        gives_way=request.gives_way,
        exposed=request.terms.published,
        job=job,
        terms=request.terms,
    )


def describe_settings(blueprint: Blueprint) -> Settings:
    """All of it that other parts of a NodeState do not show, in words; any change needs a new container."""
    shown = {f"environment.{key}": value for key, value in blueprint.environment.items()}
    for nic in blueprint.attachments:
        shown[nic.interface] = f"{nic.address} {nic.mac} by {nic.kind} on {nic.network}"
    if blueprint.engine_gpus:
        shown["GPUs from Docker"] = f"{blueprint.engine_gpus.access} {','.join(blueprint.engine_gpus.uuids)}"
    shown |= {"cpus": str(blueprint.cpus or ""), "memory": str(blueprint.memory_bytes or "")}
    shown |= {"processes": str(blueprint.processes or ""), "gives way": "yes" if blueprint.gives_way else ""}
    return {key: Setting(value=value, live=False) for key, value in shown.items() if value}


def dump_blueprint(blueprint: Blueprint) -> str:
    """As the label's text."""
    return json.dumps(plain_fields(blueprint), sort_keys=True)


def parse_blueprint(text: str | None) -> Blueprint | None:
    """From the label's text; None where it does not name a node. What else cannot be read is left out."""
    document = read_object(text)
    name, uid, environment = document.get("name"), document.get("uid"), document.get("environment")
    if not isinstance(name, str) or not isinstance(uid, str):
        return None
    return Blueprint(
        name=name,
        uid=uid,
        own_labels=_texts(document.get("own_labels")),
        attachments=_each(Attachment, document.get("attachments")),
        devices=_each(CharDevice, document.get("devices")),
        mounts=_each(Mount, document.get("mounts")),
        exposed=_each(Exposure, document.get("exposed")),
        environment=only_texts(environment) if isinstance(environment, dict) else {},
        engine_gpus=_engine_gpus(document.get("engine_gpus")),
        cpus=_number(document.get("cpus")),
        memory_bytes=_number(document.get("memory_bytes")),
        processes=_number(document.get("processes")),
        gives_way=document.get("gives_way") is True,
        job=document.get("job") is True,
    )


def _each(kind: type[T], entries: object) -> tuple[T, ...]:
    found = []
    for entry in entries if isinstance(entries, list) else ():
        with suppress(ValueError):
            found.append(read(kind, entry))
    return tuple(found)


def _engine_gpus(said: object) -> EngineGpus | None:
    if not isinstance(said, dict) or said.get("access") not in ("cdi", "nvidia-runtime"):
        return None
    return EngineGpus(access=said["access"], uuids=_texts(said.get("uuids")))


def _texts(said: object) -> tuple[str, ...]:
    return tuple(item for item in said if isinstance(item, str)) if isinstance(said, list) else ()


def _number(said: object) -> int | None:
    return said if type(said) is int else None
