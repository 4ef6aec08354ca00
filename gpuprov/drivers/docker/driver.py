"""The Driver for Docker."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuprov.core.disk import COUNT_S, Disk
from gpuprov.core.errors import EngineError
from gpuprov.core.execution import run_attached
from gpuprov.core.interrupts import to_its_end
from gpuprov.drivers.base import (
    BUILDER,
    LABEL_ROLE,
    MOST_FILE_BYTES,
    READ_S,
    ROLE_BUILDER,
    ExecResult,
    NodeRequest,
    NodeState,
    Stream,
)
from gpuprov.drivers.calls import Call
from gpuprov.drivers.capabilities import Capability, require_capability
from gpuprov.drivers.changes import one_at_a_time, one_change
from gpuprov.drivers.docker import containers, documents, images, jobs, networks
from gpuprov.drivers.docker.api import NotFound
from gpuprov.drivers.docker.blueprint import describe_settings, plan_blueprint
from gpuprov.drivers.docker.commits import commit
from gpuprov.drivers.docker.execute import execute
from gpuprov.drivers.docker.files import KEPT, NodeFiles, apply_kept
from gpuprov.drivers.docker.job_times import read_times
from gpuprov.drivers.docker.last_words import last_words_of, read_container_log
from gpuprov.drivers.docker.owners import get_mapped_owner
from gpuprov.drivers.docker.usage import parse_usage
from gpuprov.drivers.endings import killed_words
from gpuprov.drivers.networks import NetworkRequest, NetworkState, TellsNoNetworkSettings
from gpuprov.drivers.node_trees import look_in_node, read_tree, write_tree
from gpuprov.drivers.taken_ports import refuse_forwarded
from gpuprov.shapes.base import changed
from gpuprov.shapes.node import LOCALLY, Exposure

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from gpuprov.core.disk import StorageUse
    from gpuprov.drivers.base import File, JobState, PathKind
    from gpuprov.drivers.docker.api import DockerApi
    from gpuprov.drivers.docker.blueprint import Blueprint
    from gpuprov.drivers.job_times import JobTimes
    from gpuprov.drivers.node_files import Execute
    from gpuprov.shapes.engine import EngineFacts, ImageState
    from gpuprov.shapes.node import CharDevice, Mount, Settings

INIT = "/usr/local/sbin/gpuprov-init"  # role base installs it: starts the services, and stops them on SIGTERM
_MAIN = f"""
[ ! -x {INIT} ] || exec {INIT}
trap 'exit 0' TERM INT
while :; do sleep 3600 & wait $!; done
"""


class DockerDriver(TellsNoNetworkSettings):
    """One Docker daemon."""

    name = "docker"
    command = "docker"
    builder = BUILDER
    capabilities: frozenset[Capability] = frozenset({"snapshot", "jobs"})
    nameserver: str | None = "127.0.0.11"  # Docker's own, in every node
    process_groups: tuple[str, ...] = ("docker/{id}", "system.slice/docker-{id}.scope")  # of its two drivers of cgroups
    snapshot_pauses = True
    host = ""

    def __init__(self, api: DockerApi) -> None:
        self._api = api

    # --- the engine

    def facts(self) -> EngineFacts:
        """Describe the engine and its machine."""
        from gpuprov.gpu.cdi_files import read_cdi_files  # here, for tables of nodes start sooner without

        info = self._api.get("/info")
        space = _disk_of(info)
        free_bytes = space.free_bytes if space else None
        folders = map(Path, info.get("CDISpecDirs") or ())
        files = [str(path) for path in read_cdi_files(folders)]
        return documents.parse_facts(info, api=self._api.client.api_version, free_bytes=free_bytes, cdi_files=files)

    def disk(self) -> Disk | None:
        """Of Docker's folder."""
        return _disk_of(self._api.get("/info"))

    def usage(self) -> list[StorageUse]:
        """As Docker counts."""
        with self._api.reading("/system/df", timeout_s=COUNT_S) as answer:
            return list(parse_usage(json.load(answer)))

    def owner_on_host(self, uid: int) -> int:
        """The same user, unless Docker has a user namespace."""
        return get_mapped_owner(self._api.get("/info"), uid)

    # --- nodes

    def list_nodes(self) -> list[NodeState]:
        """Every container, foreign ones too; builders are left out."""
        found = containers.list_states(self._api)
        return [changed(node, host=self.host) for node in found if node.labels.get(LABEL_ROLE) != ROLE_BUILDER]

    def find_node(self, name: str) -> NodeState | None:
        """One container, or None."""
        found = containers.find(self._api, name)
        return changed(found, host=self.host) if found else None

    def create_node(self, request: NodeRequest) -> None:
        """Make a stopped container from an image."""
        self._refuse(request)
        with one_change(self.name, request.name):
            self._create(request, plan_blueprint(request, uid=containers.new_uid()), image=request.image)

    def clone_node(self, source: str, request: NodeRequest) -> None:
        """Make a stopped copy of a node."""
        self._refuse(request)
        blueprint = plan_blueprint(request, uid=containers.new_uid())
        image = f"{documents.KEPT}:{blueprint.uid}"
        with one_change(self.name, source):
            origin = containers.get_ours(self._api, source)
            commit(self._api, origin.id, image, hide=origin.blueprint.own_labels)
        # Docker lets a copy inherit variables too; those it must not have are emptied.
        hidden = dict.fromkeys(origin.blueprint.environment, "")
        made = replace(blueprint, environment={**hidden, **blueprint.environment})
        try:
            with one_change(self.name, request.name):
                self._create(request, made, image=image)
        except BaseException:
            images.delete_tag(self._api, image)
            raise

    def _create(self, request: NodeRequest, blueprint: Blueprint, *, image: str) -> None:
        command = _command(blueprint.uid)
        containers.create(self._api, blueprint, request.labels, image=image, command=command, files=request.files)

    def _refuse(self, request: NodeRequest) -> None:
        if request.privileged:
            require_capability(self, "privileged")
        containers.refuse_taken(self._api, request.name)

    @one_at_a_time
    def start_node(self, name: str) -> None:
        """Start it, or let it go on where it is paused."""
        container = containers.get_ours(self._api, name)
        action = "unpause" if container.status == "frozen" else "start"
        self._api.post(f"/containers/{container.id}/{action}")

    @one_at_a_time
    def stop_node(self, name: str, *, timeout_s: float = 10.0) -> str:
        """Stop it, by force once the time has passed."""
        container = containers.get_ours(self._api, name)
        if container.status == "stopped":
            return ""
        killed = containers.stop(self._api, container.id, timeout_s=timeout_s)
        return killed_words(timeout_s) if killed and timeout_s > 0 else ""

    @one_at_a_time
    def delete_node(self, name: str) -> str:
        """Remove it with its snapshots; no change if it is absent."""
        with contextlib.suppress(NotFound):
            containers.destroy(self._api, containers.get_ours(self._api, name))
        return ""  # Docker kills what it removes, and waits for nobody

    @one_at_a_time
    def set_labels(self, name: str, labels: Mapping[str, str]) -> None:
        """Add or change labels; they are kept beside the container until it is replaced."""
        networks.change_labels(self._api, containers.get_ours(self._api, name).id, labels)

    @one_at_a_time
    def set_devices(self, name: str, devices: Sequence[CharDevice], mounts: Sequence[Mount]) -> None:
        """Replace devices and mounts, in a new container with the node's files."""
        container = containers.get_ours(self._api, name)
        present = container.blueprint
        if (set(devices), set(mounts)) != (set(present.devices), set(present.mounts)):  # their order is no difference
            self._rebuild(container, present.with_devices(devices, mounts))

    def settings(self, request: NodeRequest) -> Settings:
        """What a node made from it shows; NotCapable for a node that cannot be made."""
        if request.privileged:
            require_capability(self, "privileged")
        return describe_settings(plan_blueprint(request, uid=""))

    @one_at_a_time
    def set_settings(self, name: str, request: NodeRequest) -> None:
        """Bring networks, variables, limits and Docker's own GPUs to the request's, and all else in the same step."""
        container = containers.get_ours(self._api, name)
        wanted = container.blueprint.with_settings(request)
        if describe_settings(wanted) != describe_settings(container.blueprint):
            self._rebuild(container, wanted)

    def _rebuild(self, container: containers.Container, blueprint: Blueprint, *, image: str | None = None) -> str:
        return containers.rebuild(self._api, container, blueprint, command=_command(blueprint.uid), image=image)

    # --- inside a node

    def push(self, name: str, files: Sequence[File]) -> None:
        """Write files into a node."""
        found = self._files(name)
        if found.running:
            found.push(files)  # without the lock: what runs is not replaced meanwhile, and may take long
        else:
            with one_change(self.name, name):
                self._files(name).push(files)

    def pull(self, name: str, path: str, *, most_bytes: int = MOST_FILE_BYTES, timeout_s: float = READ_S) -> bytes:
        """Read a file of a node."""
        return self._files(name).pull(path, most_bytes=most_bytes, timeout_s=timeout_s)

    def look(self, name: str, path: str) -> PathKind:
        """What stands at a path."""
        return look_in_node(self._within(name), name, path)

    def read_tree(self, name: str, path: str, take: Callable[[bytes], object]) -> str:
        """Hand on a file or folder as a tar."""
        return read_tree(self._within(name), name, path, take)

    def write_tree(self, name: str, path: str, tar: Iterable[bytes]) -> None:
        """Put a file or folder into a node."""
        write_tree(self._within(name), name, path, tar)

    def _within(self, name: str) -> Execute:
        return partial(execute, self._api, containers.get_ours(self._api, name).id)

    def _files(self, name: str) -> NodeFiles:
        container = containers.get_ours(self._api, name)
        return NodeFiles(
            api=self._api,
            container=container.id,
            node=name,
            uid=container.blueprint.uid,
            running=container.status == "running",
            mounts=container.blueprint.mounts,
        )

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
        """Run a command as root in a running node and wait."""
        container = containers.get_ours(self._api, name)
        call = Call(argv=argv, environment=environment or {}, cwd=cwd, timeout_s=timeout_s, stdin=stdin)
        with last_words_of(self._api, container.id, name):
            return execute(self._api, name, call).text()

    def run_job(
        self,
        request: NodeRequest,
        argv: Sequence[str],
        *,
        started: Callable[[], object],
        write: Callable[[Stream, bytes], object],
    ) -> int:
        """Run a command as the main process of a container that Docker removes."""
        return jobs.run_made(self._api, self._make_job(request, argv), started=started, write=write)

    def begin_job(self, request: NodeRequest, argv: Sequence[str]) -> None:
        """Run a command as the main process of a container that stays."""
        jobs.begin_made(self._api, self._make_job(request, argv))

    def hold_job(self, request: NodeRequest, argv: Sequence[str]) -> list[str]:
        """Docker's own client starts it, told the daemon, for it follows contexts."""
        self._make_job(request, argv)
        reads = ["--interactive"] if request.terms.reads else []
        return ["docker", "--host", self._api.address, "start", "--attach", *reads, request.name]

    def _make_job(self, request: NodeRequest, argv: Sequence[str]) -> str:
        self._refuse(request)
        blueprint = plan_blueprint(request, uid=containers.new_uid(), job=True)
        command = list(argv)
        if any(file.path in KEPT for file in request.files):
            command = ["/bin/sh", "-c", f'{apply_kept(blueprint.uid)}\nexec "$@"', "sh", *argv]
        create = partial(containers.create_job, self._api, blueprint, request.labels, image=request.image)
        try:
            return to_its_end(partial(create, command=command, files=request.files))
        except KeyboardInterrupt:
            containers.remove(self._api, request.name)
            raise

    def list_jobs(self) -> list[JobState]:
        """The containers that are jobs."""
        return [replace(job, node=changed(job.node, host=self.host)) for job in containers.list_jobs(self._api)]

    def read_job_times(self, names: Collection[str] | None = None) -> list[JobTimes]:
        """From its containers, and from the events that Docker remembers."""
        return read_times(self._api, names)

    def read_job_log(
        self, name: str, *, follow: bool, tail: int | None, write: Callable[[Stream, bytes], object]
    ) -> None:
        """Hand on what a job has written."""
        jobs.pass_log(self._api, containers.get_ours(self._api, name).id, follow=follow, tail=tail, write=write)

    def attach(self, name: str, argv: Sequence[str], *, environment: Mapping[str, str]) -> int:
        """Run a command with this process's own streams."""
        return run_attached(self.attach_argv(name, argv, environment=environment))

    def attach_argv(
        self, name: str, argv: Sequence[str], *, environment: Mapping[str, str], piped: bool = False
    ) -> list[str]:
        """Docker's own client, told the daemon, for it follows contexts; no terminal where standard input is none."""
        pairs = [part for key, value in environment.items() for part in ("--env", f"{key}={value}")]
        terminal = ["--tty"] if not piped and sys.stdin.isatty() and os.isatty(1) else []
        run = ["/bin/sh", "-c", 'exec "$@"', "sh", *argv]  # 127 for a command that is not there; some clients say 126
        options = ["--interactive", *terminal, "--workdir", "/root", *pairs]
        return ["docker", "--host", self._api.address, "exec", *options, name, *run]

    def logs(self, name: str) -> str:
        """The end of what the node's main process wrote."""
        return read_container_log(self._api, containers.get_ours(self._api, name).id)

    # --- snapshots and ports

    @one_at_a_time
    def snapshot_node(self, name: str, snapshot: str) -> None:
        """Keep the node's files."""
        container = containers.get_ours(self._api, name)
        blueprint = container.blueprint
        images.keep_snapshot(self._api, container.id, blueprint.uid, snapshot, hide=blueprint.own_labels)

    @one_at_a_time
    def restore_node(self, name: str, snapshot: str) -> str:
        """Bring the files back, in a new container; the configuration stays."""
        container = containers.get_ours(self._api, name)
        kept = images.list_snapshots(self._api).get(container.blueprint.uid, ())
        if snapshot not in kept:
            raise EngineError(
                f"{name} has no snapshot {snapshot}",
                evidence=f"snapshots: {', '.join(kept) or 'none'}",
                fix=f"create one: gpuprov snapshot {name} {snapshot}",
            )
        image = images.snapshot_tag(container.blueprint.uid, snapshot)
        return self._rebuild(container, container.blueprint, image=image)

    def expose(self, name: str, exposure: Exposure) -> None:
        """Forward a port of the host into a stopped node, in a new container."""
        again = f"expose {name} {exposure.node_port} --port {exposure.host_port}"
        again += "" if exposure.listen == LOCALLY else f" --listen {exposure.listen}"
        with one_change(self.name, f"port {exposure.host_port}"), one_change(self.name, name):
            container = self._stopped(name, again)
            if exposure in container.blueprint.exposed:
                return
            _refuse_busy(exposure)
            for node in self.list_nodes():  # Docker would notice only when the second of two starts
                refuse_forwarded(exposure, node.name, node.exposed)
            self._rebuild(container, container.blueprint.with_exposed([*container.blueprint.exposed, exposure]))

    @one_at_a_time
    def unexpose(self, name: str, host_port: int) -> None:
        """Undo `expose`."""
        container = self._stopped(name, f"unexpose {name} {host_port}")
        exposed = container.blueprint.exposed
        left = [exposure for exposure in exposed if exposure.host_port != host_port]
        if len(left) == len(exposed):
            raise EngineError(
                f"port {host_port} of the host is not forwarded to {name}",
                evidence=f"exposed: {', '.join(str(exposure.host_port) for exposure in exposed) or 'nothing'}",
                fix=f"list its ports: gpuprov show {name} --engine docker",
            )
        self._rebuild(container, container.blueprint.with_exposed(left))

    def _stopped(self, name: str, again: str) -> containers.Container:
        container = containers.get_ours(self._api, name)
        if container.status != "stopped":
            fix = f"gpuprov stop {name} && gpuprov {again} && gpuprov start {name}"
            require_capability(self, "expose-live", fix=fix)
        return container

    # --- networks

    def list_networks(self) -> list[NetworkState]:
        """Every network, and the machine's own bridges."""
        return networks.list_networks(self._api)

    def create_network(self, request: NetworkRequest) -> None:
        """Make a network."""
        networks.create_network(self._api, request)

    def complete_network(self, request: NetworkRequest) -> None:
        """Docker makes a network as a whole."""

    def isolate_network(self, name: str) -> str:
        """Have the host refuse connections to its nodes from elsewhere."""
        return networks.isolate_network(self._api, name)

    def delete_network(self, name: str) -> None:
        """Remove a network of ours."""
        networks.delete_network(self._api, name)

    def set_network_labels(self, name: str, labels: Mapping[str, str]) -> None:
        """Add or change labels of a network of ours."""
        networks.set_network_labels(self._api, name, labels)

    # --- images

    def list_images(self) -> list[ImageState]:
        """Images that gpuprov made, complete ones only."""
        return images.list_images(self._api)

    def find_image(self, name: str) -> ImageState | None:
        """An image of ours by name, or an image of the user's."""
        return images.find_image(self._api, name)

    def import_rootfs(self, name: str, rootfs: str, labels: Mapping[str, str]) -> str:
        """Make a base image from a root file system tar."""
        return images.import_rootfs(self._api, name, rootfs, labels)

    def image_name_holder(self, name: str) -> str | None:
        """An image that is not ours and has the tag."""
        return images.name_holder(self._api, name)

    def publish_image(self, builder: str, name: str, labels: Mapping[str, str]) -> ImageState:
        """Turn a builder node into an image."""
        container = containers.get_ours(self._api, builder)
        self.stop_node(builder)
        image = images.publish(self._api, container.id, name, labels, hide=container.blueprint.own_labels)
        containers.destroy(self._api, container)
        return image

    def delete_image(self, image_id: str) -> None:
        """Remove an image of ours; no change if it is absent."""
        images.delete_image(self._api, image_id)


def _disk_of(info: Mapping[str, Any]) -> Disk | None:
    """Of the folder in which Docker keeps everything."""
    folder = Path(info["DockerRootDir"])
    if not folder.is_dir():
        return None
    space = shutil.disk_usage(folder)
    return Disk(total_bytes=space.total, free_bytes=space.free)


def _command(uid: str) -> list[str]:
    return ["/bin/sh", "-c", apply_kept(uid) + _MAIN]


def _refuse_busy(exposure: Exposure) -> None:
    """Docker would notice only when the node starts."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((exposure.listen, exposure.host_port))
        except OSError as exc:
            raise EngineError(
                f"port {exposure.host_port} of the host cannot be exposed",
                evidence=str(exc),
                fix=f"find the holder: ss -ltnp sport = :{exposure.host_port}",
            ) from exc
