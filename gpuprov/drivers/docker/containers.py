"""Containers that are nodes: found by the node's name, made in one visible step, replaced without being lost.

Docker's names are unique and renaming is atomic, so names say how far a container is. `c000.new` is being made; its
node is seen, and is unfinished. A node whose devices, mounts or ports change needs a new container, as Docker cannot
change them: it is made as `c000.new` from the file system of c000, becomes `c000.next` when nothing is missing, c000
is removed, and `c000.next` takes its name. Whoever comes after a kill finds c000 or a whole `c000.next`.
"""

from __future__ import annotations

import contextlib
import re
import secrets
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from gpuprov.core.docker_labels import parse_changed_labels
from gpuprov.core.errors import EngineError
from gpuprov.core.names import name_of_run
from gpuprov.core.silence_limit import more_patience, silence_limit_s
from gpuprov.core.waiting import Wait
from gpuprov.drivers.docker import documents, images, networks
from gpuprov.drivers.docker.api import Conflict, NotFound
from gpuprov.drivers.docker.commits import commit
from gpuprov.drivers.docker.devices import ensure_host_devices
from gpuprov.drivers.docker.files import has_folder, kept_folder, put_files
from gpuprov.drivers.docker.job_documents import add_terms, parse_job
from gpuprov.drivers.endings import killed_words
from gpuprov.drivers.foreign import name_taken, not_ours
from gpuprov.shapes.base import changed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuprov.drivers.base import File, JobState, NodeState
    from gpuprov.drivers.docker.api import DockerApi
    from gpuprov.drivers.docker.blueprint import Blueprint
    from gpuprov.shapes.node import NodeStatus

_NAME = re.compile(r"[A-Za-z]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?", re.ASCII)
_STOP_S = 10
_KILLED = 137  # exit status of a killed process


@dataclass(frozen=True, kw_only=True)
class Container:
    """A container of ours.

    Attributes:
        id: Docker's.
        blueprint: What it was made to be.
        document: As Docker lists it.
    """

    id: str
    blueprint: Blueprint
    document: Mapping[str, Any]

    @property
    def status(self) -> NodeStatus:
        """Whether its node runs."""
        return documents.parse_container(self.document, labels={}).status


def list_states(api: DockerApi) -> list[NodeState]:
    """Every node and foreign container, in three requests however many there are."""
    chosen = documents.choose_containers(api.get("/containers/json", all=1))
    changed = parse_changed_labels(api.get("/networks"))
    snapshots = images.list_snapshots(api)
    found = []
    for document in chosen.values():
        blueprint = documents.blueprint_of(document) if snapshots else None
        state = documents.parse_container(
            document,
            labels=changed.get(document["Id"], {}),
            snapshots=snapshots.get(blueprint.uid, ()) if blueprint else (),
        )
        found.append(_with_devices(api, document, state) if state.copy_of else state)
    return found


def list_jobs(api: DockerApi) -> list[JobState]:
    """Every job, by name."""
    listed = documents.choose_containers(api.get("/containers/json", all=1)).values()
    return sorted(filter(None, map(parse_job, listed)), key=lambda job: job.node.name)


def _with_devices(api: DockerApi, document: Mapping[str, Any], copy: NodeState) -> NodeState:
    with contextlib.suppress(NotFound):  # it went meanwhile
        inspected = api.get(f"/containers/{document['Id']}/json")
        return changed(copy, devices=documents.parse_copied_devices(document, inspected))
    return copy


def find(api: DockerApi, name: str) -> NodeState | None:
    """A node or foreign container by its node's name."""
    document = _look_up(api, name)
    if document is None:
        return None
    blueprint = documents.blueprint_of(document)
    if blueprint is None:
        return documents.parse_container(document, labels={})
    return read_state(api, Container(id=document["Id"], blueprint=blueprint, document=document))


def read_state(api: DockerApi, container: Container) -> NodeState:
    """The state of its node, with what Docker keeps elsewhere: labels that were changed, and snapshots."""
    return documents.parse_container(
        container.document,
        labels=parse_changed_labels(api.get("/networks")).get(container.id, {}),
        snapshots=images.list_snapshots(api).get(container.blueprint.uid, ()),
    )


def _look_up(api: DockerApi, name: str) -> Mapping[str, Any] | None:
    if not name or "/" in name:
        return None
    pattern = f"^/?{re.escape(name)}({re.escape(documents.MADE)}|{re.escape(documents.READY)})?$"
    listed = api.get("/containers/json", all=1, filters={"name": [pattern]})
    return documents.choose_containers(listed).get(name)


def get_ours(api: DockerApi, name: str) -> Container:
    """A container of ours, by its node's name; one that only had to take over its node's name does so.

    Raises:
        NotOurs: gpuprov did not make it.
        NotFound: there is none.
    """
    document = _look_up(api, name)
    if document is None:
        raise NotFound(
            f"there is no node {name}", evidence="docker has no container of that name", fix="gpuprov list --all"
        )
    blueprint = documents.blueprint_of(document)
    if blueprint is None:
        foreign = documents.parse_container(document, labels={})
        raise not_ours(foreign, "docker", lack="the container has no gpuprov label")
    if documents.container_name(document).endswith(documents.READY):
        with contextlib.suppress(Conflict):
            _take_name(api, document["Id"], name)
    api.remember(document["Id"], name)
    return Container(id=document["Id"], blueprint=blueprint, document=document)


def refuse_taken(api: DockerApi, name: str) -> None:
    """Raise unless a container may have this name."""
    if not _NAME.fullmatch(name_of_run(name)):
        raise EngineError(
            f"{name!r} is not a valid node name",
            evidence="allowed: letters, digits and hyphens, at most 63; starts with a letter",
            fix="choose another name",
        )
    if name.startswith(f"{documents.IMAGES}-"):
        raise EngineError(
            f"the name {name} is taken", evidence="the prefix is reserved for images", fix="choose another name"
        )
    document = _look_up(api, name)
    if document is not None:
        raise name_taken(changed(documents.parse_container(document, labels={}), name=name), "docker")


def new_uid() -> str:
    """For a new node."""
    return secrets.token_hex(8)


def create(
    api: DockerApi,
    blueprint: Blueprint,
    labels: Mapping[str, str],
    *,
    image: str,
    command: Sequence[str],
    files: Sequence[File],
) -> None:
    """Make a stopped container; only its last step gives it its name, and with it its fingerprint."""
    made = _make(api, blueprint, labels, image=image, command=command, suffix=documents.MADE)
    try:
        _seed(api, made, blueprint, image, files)
        _rename(api, made, blueprint.name)
    except BaseException:
        remove(api, made)
        raise


def create_job(
    api: DockerApi,
    blueprint: Blueprint,
    labels: Mapping[str, str],
    *,
    image: str,
    command: Sequence[str],
    files: Sequence[File],
) -> str:
    """Make a container that has its name from the start, and is unfinished until it runs; returns its id."""
    made = _make(api, blueprint, labels, image=image, command=command, suffix="")
    try:
        _seed(api, made, blueprint, image, files)
    except BaseException:
        remove(api, made)
        raise
    return made


def _seed(api: DockerApi, made: str, blueprint: Blueprint, image: str, files: Sequence[File]) -> None:
    def has(folder: str) -> bool:
        if f"{folder}/".startswith(f"{kept_folder(blueprint.uid)}/"):
            return False  # it is new
        return api.folders.has((image, blueprint.mounts), folder, lambda folder: has_folder(api, made, folder))

    put_files(api, made, blueprint.uid, files, has=has)


def _make(
    api: DockerApi,
    blueprint: Blueprint,
    labels: Mapping[str, str],
    *,
    image: str,
    command: Sequence[str],
    suffix: str,
) -> str:
    version = str(api.client.api_version)
    body = documents.render_container(
        blueprint,
        labels,
        image=image,
        command=command,
        host_paths=ensure_host_devices(blueprint.devices),
        api=version,
    )
    if blueprint.job:
        body = add_terms(body, blueprint.terms, blueprint.name)
    made = str(api.post("/containers/create", body, name=blueprint.name + suffix)["Id"])
    api.remember(made, blueprint.name)
    try:
        for attachment in blueprint.attachments[1:]:
            endpoint = documents.render_endpoint(attachment, api=version)
            request = {"Container": made, "EndpointConfig": endpoint}
            api.post(f"/networks/{attachment.network}/connect", request)
    except BaseException:
        remove(api, made)
        raise
    return made


def rebuild(
    api: DockerApi, container: Container, blueprint: Blueprint, *, command: Sequence[str], image: str | None = None
) -> str:
    """Replace a node's container by one with another configuration; a running node is restarted.

    Returns what was forced to stop it, if anything was.

    Args:
        container: The present one.
        blueprint: The new configuration.
        command: The new one's main process.
        image: What it is made from; the present one's file system if None.
    """
    running = container.status == "running"
    killed = running and stop(api, container.id, timeout_s=_STOP_S)
    try:
        name = blueprint.name
        _remove_named(api, name + documents.MADE, name + documents.READY)
        if image is None:
            image = f"{documents.KEPT}:{blueprint.uid}"
            with contextlib.suppress(Conflict):  # left by a killed run, and nothing stands on it
                images.delete_tag(api, image)
            commit(api, container.id, image, hide=container.blueprint.own_labels)
        labels = dict(read_state(api, container).labels)
        blueprint = replace(blueprint, own_labels=tuple(sorted(labels)))
        made = _make(api, blueprint, labels, image=image, command=command, suffix=documents.MADE)
        try:
            _rename(api, made, name + documents.READY)
        except BaseException:
            remove(api, made)
            raise
    except BaseException:
        if running:
            api.post(f"/containers/{container.id}/start")
        raise
    remove(api, container.id)
    networks.forget_labels(api, container.id)
    _take_name(api, made, name)
    images.release(api, container.document)
    if running:
        api.post(f"/containers/{made}/start")
    return killed_words(_STOP_S) if killed else ""


def destroy(api: DockerApi, container: Container) -> None:
    """Remove a node with all that is its own: containers, changed labels, snapshots, the images it stood on."""
    name = container.blueprint.name
    _remove_named(api, name + documents.MADE)
    remove(api, container.id)
    _remove_named(api, name + documents.READY)
    networks.forget_labels(api, container.id)
    images.release(api, container.document)
    for snapshot in reversed(images.list_snapshots(api).get(container.blueprint.uid, ())):
        images.delete_tag(api, images.snapshot_tag(container.blueprint.uid, snapshot))


def stop(api: DockerApi, identity: str, *, timeout_s: float) -> bool:
    """Stop a container, by force once the time has passed; whether it came to that."""
    api.post(f"/containers/{identity}/stop", t=max(0, round(timeout_s)))
    try:
        return int(api.get(f"/containers/{identity}/json")["State"]["ExitCode"]) == _KILLED
    except NotFound:  # a job's, which goes with its process
        return False


def remove(api: DockerApi, identity: str) -> None:
    """Remove a container, running or not; no error if another process removes it at the same time."""
    with contextlib.suppress(NotFound):
        try:
            api.delete(f"/containers/{identity}", force=1, v=1)
        except Conflict as going:
            if "already in progress" not in going.evidence:
                raise
            limit_s = silence_limit_s()
            fix = f"docker ps --all; {more_patience(limit_s)}"
            gone = Wait(what=f"docker to remove {identity[:12]}", timeout_s=limit_s, fix=fix)
            gone.until(lambda: _status(api, identity), lambda status: status is None)


def _status(api: DockerApi, identity: str) -> str | None:
    try:
        return str(api.get(f"/containers/{identity}/json")["State"]["Status"])
    except NotFound:
        return None


def _remove_named(api: DockerApi, *names: str) -> None:
    for name in names:
        listed = api.get("/containers/json", all=1, filters={"name": [f"^/?{re.escape(name)}$"]})
        for document in listed:
            if documents.blueprint_of(document):
                remove(api, document["Id"])


def _take_name(api: DockerApi, identity: str, name: str) -> None:
    """Let a whole replacement take its node's name; who looks for the node may have done so already."""
    try:
        _rename(api, identity, name)
    except EngineError:
        if api.get(f"/containers/{identity}/json")["Name"] != f"/{name}":
            raise


def _rename(api: DockerApi, identity: str, name: str) -> None:
    api.post(f"/containers/{identity}/rename", name=name)
