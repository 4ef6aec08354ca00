"""A Driver in memory, for tests of everything above drivers; held to the contract as the real ones are."""

from __future__ import annotations

import copy
import posixpath
import re
import time
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from gpuprov.core.disk import Disk, StorageUse
from gpuprov.core.errors import EngineError, NotOurs
from gpuprov.core.execution import run_attached
from gpuprov.core.names import name_of_run
from gpuprov.drivers.base import (
    BUILDER,
    LABEL_CLUSTER,
    LABEL_FINGERPRINT,
    LABEL_ROLE,
    MOST_FILE_BYTES,
    READ_S,
    ROLE_JOB,
    JobState,
)
from gpuprov.drivers.calls import Call
from gpuprov.drivers.foreign import NetworkInUse, not_ours
from gpuprov.drivers.job_times import JobTimes
from gpuprov.drivers.networks import NetworkState
from gpuprov.drivers.node_files import absent, within
from gpuprov.shapes.base import changed
from gpuprov.shapes.engine import EngineFacts
from gpuprov.shapes.node import NodeLimits, Setting
from tests.fakes.engine import Command, FakeImage, FakeNode, describe_settings
from tests.fakes.faults import Killed
from tests.fakes.trees import FakeTrees

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from gpuprov.drivers.base import ExecResult, File, NodeRequest, NodeState, Stream
    from gpuprov.drivers.capabilities import Capability
    from gpuprov.drivers.networks import NetworkRequest
    from gpuprov.shapes.choices import Engine
    from gpuprov.shapes.engine import ImageState
    from gpuprov.shapes.node import CharDevice, Exposure, Mount, Settings
    from tests.fakes.engine import FakeEngine

_NAME = re.compile(r"[A-Za-z]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?", re.ASCII)
_IMAGE_PREFIX = "gpuprov-image-"


class FakeDriver(FakeTrees):
    """One process's view of a FakeEngine; after `Killed` it does nothing any more, and a new one goes on."""

    name = "fake"
    command = "fakectl"
    builder = BUILDER
    capabilities: frozenset[Capability] = frozenset(
        {"snapshot", "privileged", "expose-live", "devices-live", "systemd", "jobs", "private-bridge"}
    )
    nameserver: str | None = None
    process_groups: tuple[str, ...] = ()
    host = "here"

    def __init__(self, engine: FakeEngine) -> None:
        self.engine = engine
        self._killed = False

    @contextmanager
    def _step(self, step: str, subject: str = "") -> Iterator[None]:
        self.reach(step, subject)
        with self.engine.lock:
            yield
        self.reach(f"{step}:done", subject)

    def reach(self, step: str, subject: str) -> None:
        """Record a step of this process, which may end there."""
        if self._killed:
            raise Killed
        try:
            self.engine.faults.reach(step, subject)
        except Killed:
            self._killed = True
            raise
        if self._killed:  # by another thread, while this one was held up
            raise Killed

    # --- the engine

    @property
    def snapshot_pauses(self) -> bool:
        """As the engine is."""
        return self.engine.snapshot_pauses

    def facts(self) -> EngineFacts:
        """Describe the engine."""
        self.reach("facts", "")
        return EngineFacts(
            name=cast("Engine", self.name),
            version="1",
            api="1.0",
            storage="memory",
            copy_on_write=True,
            cpus=self.engine.cpus,
            memory_bytes=self.engine.memory_bytes,
            free_bytes=self.engine.free_bytes,
            cluster=self.engine.cluster,
        )

    def disk(self) -> Disk | None:
        """Half full, unless the engine says how much is free."""
        self.reach("disk", "")
        free = self.engine.free_bytes
        return None if free is None else Disk(total_bytes=max(free * 2, 100 << 30), free_bytes=free)

    def usage(self) -> list[StorageUse]:
        """The files of nodes."""
        self.reach("usage", "")
        sizes = {
            name: sum(len(file.content) for file in node.files.values()) for name, node in self.engine.nodes.items()
        }
        return [StorageUse(kind="node", name=name, size_bytes=size) for name, size in sorted(sizes.items())]

    def owner_on_host(self, uid: int) -> int:
        """The engine's first user, and so many more."""
        self.reach("owner_on_host", "")
        if self.engine.first_user is None:
            raise _error(f"the engine does not tell who user {uid} is", "it has no id map")
        return self.engine.first_user + uid

    # --- nodes

    def list_nodes(self) -> list[NodeState]:
        """Every instance but builders."""
        self.reach("list_nodes", "")
        with self.engine.lock:
            nodes = [node for node in self.engine.nodes.values() if not node.builder]
            return [changed(node.state(), host=node.member or self.host, snapshots=()) for node in nodes]  # as LXD

    def find_node(self, name: str) -> NodeState | None:
        """One instance, or None."""
        self.reach("find_node", name)
        with self.engine.lock:
            node = self.engine.nodes.get(name)
            return changed(node.state(), host=node.member or self.host) if node else None

    def create_node(self, request: NodeRequest) -> None:
        """Make a stopped instance from an image."""
        with self._step("create_node", request.name):
            image = self.engine.images.get(request.image)
            if image is None:
                raise _error(f"there is no image {request.image}", f"images: {', '.join(self.engine.images) or 'none'}")
            self._create("create_node", request, image.files)

    def clone_node(self, source: str, request: NodeRequest) -> None:
        """Make a stopped copy of a node; devices, networks and exposures are the request's."""
        with self._step("clone_node", request.name):
            self._create("clone_node", request, self._ours(source).files)

    def _create(self, step: str, request: NodeRequest, content: Mapping[str, File]) -> None:
        self._refuse_taken(request.name)
        labels = {key: value for key, value in request.labels.items() if key != LABEL_FINGERPRINT}
        node = FakeNode(
            name=request.name,
            made_as=request.name,
            labels=labels,
            attachments=request.attachments,
            devices=request.devices,
            mounts=request.mounts,
            files=dict(content),
            privileged=request.privileged,
            cpus=request.cpus,
            memory_bytes=request.memory_bytes,
            processes=request.processes,
            environment=dict(request.environment),
        )
        self.engine.nodes[request.name] = node
        try:
            self.reach(f"{step}:made", request.name)
            _write(node, request.files)
            self.reach(f"{step}:files", request.name)
        except Killed:
            raise
        except BaseException:
            del self.engine.nodes[request.name]
            raise
        if LABEL_FINGERPRINT in request.labels:
            node.labels[LABEL_FINGERPRINT] = request.labels[LABEL_FINGERPRINT]

    def _refuse_taken(self, name: str) -> None:
        if not _NAME.fullmatch(name_of_run(name)):
            raise _error(f"{name!r} cannot be the name of an instance", "letters, digits and hyphens, 63 at most")
        if f"instance:{name}" in self.engine.images:
            raise _error(f"the name {name} is taken", "by an image")
        taken = self.engine.nodes.get(name)
        if taken is not None:
            kind = EngineError if taken.state().ours else NotOurs
            raise kind(f"the name {name} is taken", evidence=f"it is {taken.status}", fix="choose another name")

    def _ours(self, name: str) -> FakeNode:
        node = self.engine.nodes.get(name)
        if node is None:
            raise _error(f"there is no node {name}", f"nodes: {', '.join(self.engine.nodes) or 'none'}")
        if not node.state().ours:
            raise not_ours(node.state(), self.command, lack=f"it has no label {LABEL_CLUSTER}")
        return node

    def _running(self, name: str) -> FakeNode:
        node = self._ours(name)
        if node.status != "running":
            raise _error(f"{name} does not run", f"it is {node.status}")
        return node

    def start_node(self, name: str) -> None:
        """Start it, if its networks are there."""
        with self._step("start_node", name):
            node = self._ours(name)
            missing = {attachment.network for attachment in node.attachments} - set(self.engine.networks)
            if missing:
                raise _error(f"{name} does not start", f"no network {', '.join(sorted(missing))}")
            self._refuse_gone(name, node.mounts)
            node.status = "running"

    def _refuse_gone(self, name: str, mounts: Sequence[Mount]) -> None:
        gone = {mount.source for mount in mounts} & self.engine.gone
        if gone:
            raise _error(f"{name} cannot have its mounts", f"missing source path {', '.join(sorted(gone))}")

    def stop_node(self, name: str, *, timeout_s: float = 10.0) -> str:  # noqa: ARG002 - it stops at once
        """Stop it."""
        with self._step("stop_node", name):
            node = self._ours(name)
            forced = self.engine.stubborn.get(name, "") if node.status != "stopped" else ""
            self._end(name)
            node.status = "stopped"
            return forced

    def delete_node(self, name: str) -> str:
        """Remove it; no change if it is absent."""
        with self._step("delete_node", name):
            if name not in self.engine.nodes:
                return ""
            self._ours(name)
            self._end(name)
            del self.engine.nodes[name]
            return self.engine.stubborn.get(name, "")

    def set_labels(self, name: str, labels: Mapping[str, str]) -> None:
        """Add or change labels."""
        with self._step("set_labels", name):
            self._ours(name).labels.update(labels)

    def set_devices(self, name: str, devices: Sequence[CharDevice], mounts: Sequence[Mount]) -> None:
        """Replace devices and mounts."""
        with self._step("set_devices", name):
            node = self._ours(name)
            self._refuse_gone(name, mounts)
            node.devices, node.mounts = tuple(devices), tuple(mounts)

    def settings(self, request: NodeRequest) -> Settings:
        """As a node made from it shows them."""
        return describe_settings(
            request.attachments,
            privileged=request.privileged,
            limits=NodeLimits(processes=request.processes, memory_bytes=request.memory_bytes, cpus=request.cpus),
        )

    def set_settings(self, name: str, request: NodeRequest) -> None:
        """Replace all but devices, mounts, labels and files."""
        with self._step("set_settings", name):
            node = self._ours(name)
            node.attachments, node.privileged = request.attachments, request.privileged
            node.cpus, node.memory_bytes, node.processes = request.cpus, request.memory_bytes, request.processes

    # --- inside a node

    def push(self, name: str, files: Sequence[File]) -> None:
        """Write files."""
        with self._step("push", name):
            _write(self._ours(name), files)

    def pull(
        self,
        name: str,
        path: str,
        *,
        most_bytes: int = MOST_FILE_BYTES,
        timeout_s: float = READ_S,  # noqa: ARG002 - it is there at once
    ) -> bytes:
        """Read a file."""
        self.reach("pull", name)
        with self.engine.lock:
            file = self._ours(name).files.get(path)
        if file is None:
            raise absent(name, path)
        return within(name, path, file.content, most_bytes)

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
        """Ask the engine's `answer`, side by side with other commands."""
        self.reach("run", name)
        call = Call(argv=argv, environment=environment or {}, cwd=cwd, timeout_s=timeout_s, stdin=stdin)
        result = self.engine.answer(self._command(name, call))
        self.reach("run:done", name)
        return result

    def _command(self, name: str, call: Call) -> Command:
        with self.engine.lock:
            node = self._running(name)
            return Command(
                node=replace(
                    node,
                    labels=dict(node.labels),
                    files=dict(node.files),
                    snapshots=dict(node.snapshots),
                    environment=dict(node.environment),
                ),
                argv=tuple(call.argv),
                environment={**node.environment, **call.environment},
                cwd=call.cwd,
                timeout_s=call.timeout_s,
                stdin=call.stdin,
            )

    def run_job(
        self,
        request: NodeRequest,
        argv: Sequence[str],
        *,
        started: Callable[[], object],
        write: Callable[[Stream, bytes], object],
    ) -> int:
        """Ask the engine's `answer`; the node goes with the command, also when this process was killed meanwhile."""
        labels = {key: value for key, value in request.labels.items() if key != LABEL_FINGERPRINT}
        self.create_node(replace(request, labels=labels))
        try:
            self.reach("run_job", request.name)
            with self.engine.lock:
                node = self.engine.nodes[request.name]
                node.job, node.status, node.labels = True, "running", dict(request.labels)
                self._begin(node)
            self.reach("run_job:started", request.name)
            started()
            result = self.engine.answer(self._command(request.name, Call(argv=argv)))
            write("stdout", result.stdout.encode())
            write("stderr", result.stderr.encode())
        except Killed:  # what runs goes on, until `FakeEngine.end_jobs`
            raise
        except BaseException:
            self.delete_node(request.name)
            raise
        with self.engine.lock:
            self._end(request.name)
            self.engine.nodes.pop(request.name, None)
        self.reach("run_job:done", request.name)
        return result.exit_code

    def begin_job(self, request: NodeRequest, argv: Sequence[str]) -> None:
        """A node that runs until it is stopped; what it has written is its command."""
        labels = {key: value for key, value in request.labels.items() if key != LABEL_FINGERPRINT}
        self.create_node(replace(request, labels=labels))
        self.reach("begin_job", request.name)
        with self.engine.lock:
            node = self.engine.nodes[request.name]
            node.labels, node.argv, node.terms = dict(request.labels), tuple(argv), request.terms
            node.exposed, node.status = request.terms.published, "running"
            self._begin(node)
        self.reach("begin_job:done", request.name)

    def hold_job(self, request: NodeRequest, argv: Sequence[str]) -> list[str]:
        """A node that is not complete, and a command line that says what would run."""
        labels = {key: value for key, value in request.labels.items() if key != LABEL_FINGERPRINT}
        self.create_node(replace(request, labels=labels))
        self.engine.nodes[request.name].terms = request.terms
        return ["echo", request.name, *argv]

    def list_jobs(self) -> list[JobState]:
        """Nodes that are jobs by their role."""
        return [
            JobState(
                node=node,
                state="running" if node.status == "running" else "exited",
                words="Up 5 minutes" if node.status == "running" else "Exited (0) 2 minutes ago",
                command=" ".join(self.engine.nodes[node.name].argv),
                created="2026-11-28T06:00:00Z",
                exit_code=None if node.status == "running" else 0,
            )
            for node in self.list_nodes()
            if node.labels.get(LABEL_ROLE) == ROLE_JOB
        ]

    def _begin(self, node: FakeNode) -> None:
        node.marks.append((time.time(), True))
        self.engine.remembered.append(node)

    def _end(self, name: str) -> None:
        node = self.engine.nodes.get(name)
        if node and node.status == "running" and node.marks:
            node.marks.append((time.time(), False))

    def read_job_times(self, names: Collection[str] | None = None) -> list[JobTimes]:
        """Of nodes that are jobs, and of those that the engine remembers."""
        self.reach("read_job_times", "")
        with self.engine.lock:
            there = [node for node in self.engine.nodes.values() if node.labels.get(LABEL_ROLE) == ROLE_JOB]
            gone = [node for node in self.engine.remembered if self.engine.nodes.get(node.name) is not node]
            return [
                JobTimes(
                    id=str(id(node)),
                    name=node.name,
                    labels=dict(node.labels),
                    marks=tuple(node.marks),
                    there=node in there,
                    running=node in there and node.status == "running",
                )
                for node in (*there, *gone)
                if names is None or node.name in names
            ]

    def read_job_log(
        self, name: str, *, follow: bool, tail: int | None, write: Callable[[Stream, bytes], object]
    ) -> None:
        """Its command, and a line on stderr."""
        self.reach("read_job_log", name)
        with self.engine.lock:
            argv = self._ours(name).argv
        write("stdout", f"{' '.join(argv)} follow={follow} tail={tail}\n".encode())
        write("stderr", b"said on stderr\n")

    def attach(self, name: str, argv: Sequence[str], *, environment: Mapping[str, str]) -> int:
        """Run that command line."""
        return run_attached(self.attach_argv(name, argv, environment=environment))

    def attach_argv(
        self,
        name: str,
        argv: Sequence[str],
        *,
        environment: Mapping[str, str],
        piped: bool = False,  # noqa: ARG002
    ) -> list[str]:
        """A command line that only shows what it would run."""
        return ["echo", *(f"{key}={value}" for key, value in environment.items()), name, *argv]

    def logs(self, name: str) -> str:
        """A line."""
        self.reach("logs", name)
        with self.engine.lock:
            return f"{self._ours(name).name} booted\n"

    # --- snapshots and ports

    def snapshot_node(self, name: str, snapshot: str) -> None:
        """Keep files."""
        with self._step("snapshot_node", name):
            node = self._ours(name)
            if not snapshot or "/" in snapshot:
                raise _error(f"{snapshot!r} is not a valid snapshot name", "it is empty or contains a slash")
            if snapshot in node.snapshots:
                raise _error(f"{name} already has a snapshot {snapshot}", f"snapshots: {', '.join(node.snapshots)}")
            node.snapshots[snapshot] = {"files": copy.copy(node.files)}

    def restore_node(self, name: str, snapshot: str) -> str:
        """Bring a snapshot back; a running node runs again."""
        with self._step("restore_node", name):
            node = self._ours(name)
            if snapshot not in node.snapshots:
                raise _error(f"{name} has no snapshot {snapshot}", f"snapshots: {', '.join(node.snapshots) or 'none'}")
            for field, value in node.snapshots[snapshot].items():
                setattr(node, field, copy.copy(value))
            return self.engine.stubborn.get(name, "") if node.status != "stopped" else ""

    def expose(self, name: str, exposure: Exposure) -> None:
        """Record the forward."""
        with self._step("expose", name):
            node = self._ours(name)
            others = [taken for taken in node.exposed if taken.host_port != exposure.host_port]
            node.exposed = (*others, exposure)

    def unexpose(self, name: str, host_port: int) -> None:
        """Undo `expose`."""
        with self._step("unexpose", name):
            node = self._ours(name)
            left = tuple(exposure for exposure in node.exposed if exposure.host_port != host_port)
            if left == node.exposed:
                raise _error(f"port {host_port} does not lead to {name}", f"exposed: {node.exposed}")
            node.exposed = left

    # --- networks

    def list_networks(self) -> list[NetworkState]:
        """Every network."""
        self.reach("list_networks", "")
        with self.engine.lock:
            return list(self.engine.networks.values())

    def create_network(self, request: NetworkRequest) -> None:
        """Make a network."""
        with self._step("create_network", request.name):
            if request.name in self.engine.networks:
                raise _error(f"there is a network {request.name} already", f"{self.engine.networks[request.name]}")
            self.engine.networks[request.name] = NetworkState(
                name=request.name,
                managed=True,
                labels=dict(request.labels),
                settings=self.network_settings(replace(request, address=None)),
                isolated=False,
                guarded=False,
            )

    def complete_network(self, request: NetworkRequest) -> None:
        """Give it its address."""
        with self._step("complete_network", request.name):
            network = self.engine.networks[request.name]
            settings = self.network_settings(request)
            self.engine.networks[request.name] = changed(network, address=request.address, settings=settings)

    def isolate_network(self, name: str) -> str:
        """Record it."""
        with self._step("isolate_network", name):
            network = self._our_network(name)
            if network is None:
                raise _error(f"there is no network {name}", f"networks: {', '.join(self.engine.networks) or 'none'}")
            self.engine.networks[name] = changed(network, isolated=True, guarded=True)
            return ""

    def delete_network(self, name: str) -> None:
        """Remove a network that no node uses."""
        with self._step("delete_network", name):
            if self._our_network(name) is None:
                return
            users = [n.name for n in self.engine.nodes.values() if name in [a.network for a in n.attachments]]
            if users:
                raise NetworkInUse(name, users)
            del self.engine.networks[name]

    def set_network_labels(self, name: str, labels: Mapping[str, str]) -> None:
        """Add or change labels."""
        with self._step("set_network_labels", name):
            network = self._our_network(name)
            if network is None:
                raise _error(f"there is no network {name}", f"networks: {', '.join(self.engine.networks) or 'none'}")
            self.engine.networks[name] = changed(network, labels={**network.labels, **labels})

    def network_settings(self, request: NetworkRequest) -> Settings:
        """NAT where the host is on it."""
        return {
            "address": Setting(value=request.address or "none"),
            "nat": Setting(value="on" if request.address else "off"),
        }

    def set_network_settings(self, request: NetworkRequest) -> None:
        """Make address and NAT as asked again."""
        with self._step("set_network_settings", request.name):
            network = self._our_network(request.name)
            if network is None:
                raise _error(f"there is no network {request.name}", f"networks: {', '.join(self.engine.networks)}")
            settings = self.network_settings(request)
            self.engine.networks[request.name] = changed(network, address=request.address, settings=settings)

    def _our_network(self, name: str) -> NetworkState | None:
        network = self.engine.networks.get(name)
        if network is not None and not network.ours:
            raise NotOurs(
                f"the network {name} was not created by gpuprov and is not changed",
                evidence=f"it has no label {LABEL_CLUSTER}",
                fix="choose another bridge name in the spec",
            )
        return network

    # --- images

    def list_images(self) -> list[ImageState]:
        """Images that gpuprov made; imported bases are no images yet."""
        self.reach("list_images", "")
        with self.engine.lock:
            return [image.state() for image in self.engine.images.values() if image.ours and not image.base]

    def find_image(self, name: str) -> ImageState | None:
        """An image by name or identity."""
        self.reach("find_image", name)
        with self.engine.lock:
            found = (i for i in self.engine.images.values() if name in (i.name, i.name.removeprefix(_IMAGE_PREFIX)))
            return next((image.state() for image in found), None)

    def import_rootfs(self, name: str, rootfs: str, labels: Mapping[str, str]) -> str:
        """Take the tar's name for its content."""
        with self._step("import_rootfs", name):
            if not posixpath.exists(rootfs):
                raise _error(f"cannot read the root file system {rootfs}", "no such file")
            identity = f"image:{name}"
            self.engine.images.setdefault(identity, FakeImage(id=identity, name=name, labels=dict(labels), base=True))
            return identity

    def image_name_holder(self, name: str) -> str | None:
        """A foreign instance, as in LXD."""
        node = self.engine.nodes.get(_IMAGE_PREFIX + name.removeprefix(_IMAGE_PREFIX))
        return f"the instance {node.name}, {node.status}" if node else None

    def publish_image(self, builder: str, name: str, labels: Mapping[str, str]) -> ImageState:
        """Turn a builder into an image, in one step."""
        with self._step("publish_image", builder):
            node = self._ours(builder)
            target = _IMAGE_PREFIX + name.removeprefix(_IMAGE_PREFIX)
            identity = f"instance:{target}"
            if identity in self.engine.images:
                raise _error(f"the image {target} already exists", identity)
            image = FakeImage(id=identity, name=target, labels=dict(labels), files=dict(node.files))
            self.engine.images[identity] = image
            del self.engine.nodes[builder]
        return image.state()

    def delete_image(self, image_id: str) -> None:
        """Remove an image of ours."""
        with self._step("delete_image", image_id):
            image = self.engine.images.get(image_id)
            if image is not None and not image.ours:
                raise NotOurs(f"{image.name} is not a gpuprov image", evidence=image_id, fix="gpuprov image list")
            self.engine.images.pop(image_id, None)


def _write(node: FakeNode, files: Sequence[File]) -> None:
    for file in files:
        if not file.path.startswith("/"):
            raise _error(f"cannot write {file.path!r} into {node.name}", "the path is not absolute")
        node.files[file.path] = file


def _error(what: str, evidence: str) -> EngineError:
    return EngineError(f"fake: {what}", evidence=evidence, fix="list the clusters: gpuprov list --all")
