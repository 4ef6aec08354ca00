"""The Driver for LXD and Incus: instances and commands; networks.py and images.py have the rest."""

from __future__ import annotations

from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, cast

from gpuprov.core.errors import EngineError
from gpuprov.drivers.base import (
    BUILDER,
    LABEL_FINGERPRINT,
    LABEL_ROLE,
    MOST_FILE_BYTES,
    READ_S,
    ROLE_BUILDER,
    ExecResult,
    File,
    NodeRequest,
    NodeState,
)
from gpuprov.drivers.calls import Call
from gpuprov.drivers.foreign import name_taken, not_ours
from gpuprov.drivers.lxd import documents, images, members, networks, settings
from gpuprov.drivers.lxd.again import LOST_FILE, NETWORK_CHANGES, TORN_COPY, act_again
from gpuprov.drivers.lxd.api import NotFound
from gpuprov.drivers.lxd.attach import attach
from gpuprov.drivers.lxd.ending import remove_instance, remove_unfinished, stop_instance
from gpuprov.drivers.lxd.execute import execute
from gpuprov.drivers.lxd.files import look_at_file, replace_files, write_files
from gpuprov.drivers.lxd.links import unplugged
from gpuprov.drivers.lxd.mac_conflicts import explain_double
from gpuprov.drivers.lxd.members import COPY_ON_WRITE, pool_of_nodes
from gpuprov.drivers.lxd.owners import owner_without_shift
from gpuprov.drivers.lxd.ports import why_unbound
from gpuprov.drivers.lxd.remnants import links_of_node, list_links, remove_links, remove_unlisted_snapshots
from gpuprov.drivers.lxd.start_log import explain_start, last_words_of, read_console
from gpuprov.drivers.lxd.usage import pool_usage
from gpuprov.drivers.no_jobs import HasNoJobs
from gpuprov.drivers.node_files import read_at_rest, read_in_node, write_in_node
from gpuprov.drivers.node_trees import look_in_node, read_tree, write_tree
from gpuprov.shapes.base import changed
from gpuprov.shapes.engine import EngineFacts, ImageState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from gpuprov.core.disk import Disk, StorageUse
    from gpuprov.drivers.base import PathKind
    from gpuprov.drivers.capabilities import Capability
    from gpuprov.drivers.lxd.api import Document, LxdApi
    from gpuprov.drivers.networks import NetworkRequest, NetworkState
    from gpuprov.drivers.node_files import Execute
    from gpuprov.shapes.choices import Engine
    from gpuprov.shapes.node import CharDevice, Exposure, Mount, Settings

_MADE_BY_ANOTHER = ("already", 'running a "create"', "UNIQUE constraint failed: instances")  # what the later one reads
_PASSING = {TORN_COPY: 2, NETWORK_CHANGES: 25}


class LxdDriver(HasNoJobs):
    """One LXD or Incus server."""

    capabilities: frozenset[Capability] = frozenset(
        {"snapshot", "privileged", "expose-live", "devices-live", "systemd", "private-bridge"}
    )
    nameserver: str | None = None
    process_groups: tuple[str, ...] = ("lxc.payload.{name}",)
    host = ""

    def __init__(self, api: LxdApi, *, name: str) -> None:
        self.name = name
        self.command = api.command
        self._api = api

    # --- the engine

    @property
    def builder(self) -> str:
        """One name; in an engine's cluster, one for each member."""
        return members.own_name(BUILDER, self._api.member)

    @property
    def snapshot_pauses(self) -> bool:
        """Where the pool has no copy on write: LXD freezes a node while it copies files."""
        return self._api.get("storage-pools", pool_of_nodes(self._api))["driver"] not in COPY_ON_WRITE

    def facts(self) -> EngineFacts:
        """Describe the engine and its machine."""
        environment = self._api.client.host_info["environment"]
        resources = self._resources
        pool = self._api.get("storage-pools", pool_of_nodes(self._api))
        space = self.disk()
        return EngineFacts(
            name=cast("Engine", self.name),
            version=environment["server_version"],
            api=self._api.client.host_info["api_version"],
            storage=f"{pool['name']} ({pool['driver']})",
            copy_on_write=pool["driver"] in COPY_ON_WRITE,
            cpus=resources["cpu"]["total"],
            memory_bytes=resources["memory"]["total"],
            free_bytes=space.free_bytes if space else None,
            cluster=members.find_engine_cluster(self._api),
        )

    def disk(self) -> Disk | None:
        """Of the storage pool for nodes."""
        return documents.parse_disk(self._api.get("storage-pools", pool_of_nodes(self._api), "resources"))

    def usage(self) -> list[StorageUse]:
        """Of that pool: its instances, their snapshots, and what they were made from."""
        return pool_usage(self._api, pool_of_nodes(self._api))

    @cached_property
    def _resources(self) -> Document:
        """Of the machine; LXD needs a while to gather them."""
        found: Document = self._api.get("resources")
        return found

    def owner_on_host(self, uid: int) -> int:
        """By the id map that all unprivileged nodes have."""
        return owner_without_shift(self._api, uid)

    # --- nodes

    def list_nodes(self) -> list[NodeState]:
        """Every instance, foreign ones too; our images and builders are left out."""
        found, member = self._api.get("instances", recursion=1), self._api.member
        links = list_links()
        here = [document for document in found if members.is_here(document, member)]
        nodes = [self._here(document, links) for document in here if documents.parse_image_instance(document) is None]
        nodes = [node for node in nodes if node.labels.get(LABEL_ROLE) != ROLE_BUILDER]
        return nodes + members.states_elsewhere(found, member)

    def find_node(self, name: str) -> NodeState | None:
        """One instance with its snapshots, or None."""
        try:
            document = self._api.get("instances", _real(name), recursion=1)
        except NotFound:
            return None
        if not members.is_here(document, self._api.member):
            return members.state_elsewhere(document)
        return None if documents.parse_image_instance(document) else self._here(document, list_links())

    def _here(self, document: Document, links: Mapping[str, Sequence[str]]) -> NodeState:
        return changed(_observed(document, links), host=self.host)

    def create_node(self, request: NodeRequest) -> None:
        """Make a stopped instance from an image."""
        kind, _, source = request.image.partition(":")
        if kind == "instance":
            origin = {"type": "copy", "source": source, "instance_only": True}
        else:
            origin = {"type": "image", "fingerprint": source}
        self._create(request, origin)

    def clone_node(self, source: str, request: NodeRequest) -> None:
        """Make a stopped copy of a node."""
        self._ours(source)
        self._create(request, {"type": "copy", "source": source, "instance_only": True}, exact=True)

    def _create(self, request: NodeRequest, origin: Mapping[str, Any], *, exact: bool = False) -> None:
        """Make an instance; `exact` takes away what LXD's copy inherits from its source, devices of leased GPUs too."""
        self._refuse_taken(request.name)
        body = documents.render_instance(
            request, kin=self._api.kin, pool=pool_of_nodes(self._api), shift=self._can_shift()
        )
        labels = {key: value for key, value in request.labels.items() if key != LABEL_FINGERPRINT}
        body["config"] |= documents.label_config({LABEL_FINGERPRINT: "", **labels})
        body |= {"name": request.name, "type": "container", "profiles": [], "source": dict(origin)}
        try:
            self._make(body)
        except EngineError as exc:
            if any(words in exc.evidence for words in _MADE_BY_ANOTHER):  # not ours to remove
                raise
            remove_unfinished(self._api, request.name)
            raise
        try:
            if exact:
                self._reduce(request.name, body)
            (replace_files if exact else write_files)(self._api, request.name, request.files)
            if LABEL_FINGERPRINT in request.labels:
                fingerprint = {LABEL_FINGERPRINT: request.labels[LABEL_FINGERPRINT]}
                self._label(self._api.get("instances", request.name), fingerprint)
        except BaseException:
            self._remove(request.name)
            raise

    def _make(self, body: Mapping[str, Any]) -> None:
        make = partial(self._api.send, "post", "instances", body=body, target=self._api.member)
        act_again(make, _PASSING, undo=partial(remove_unfinished, self._api, body["name"]))

    def _reduce(self, name: str, wanted: Mapping[str, Any]) -> None:
        document = self._api.get("instances", name)
        kept = {key: value for key, value in document["config"].items() if key.startswith(("volatile.", "image."))}
        document["config"] = kept | wanted["config"]
        document["devices"] = wanted["devices"]
        self._api.send("put", "instances", name, body=document)

    def _refuse_taken(self, name: str) -> None:
        state = self.find_node(_real(name))
        if state is not None:
            raise name_taken(state, self.command)

    def _can_shift(self) -> bool:
        features = self._api.client.host_info["environment"].get("kernel_features") or {}
        return str(features.get("idmapped_mounts")) == "true"

    def start_node(self, name: str) -> None:
        """Start it, or let it go on where it is frozen; no change if it runs."""
        document = self._our_document(name)
        status = documents.parse_instance(document).status
        if status != "running":
            action = {"action": "unfreeze" if status == "frozen" else "start", "timeout": 30}
            # The other way round, LXD would map files twice that the failed attempt has mapped.
            privileged = document["config"].get("security.privileged") == "true"
            try:
                act_again(partial(self._change_state, name, action), {LOST_FILE: 3} if privileged else {})
            except EngineError as error:
                found = members.list_here(self._api)
                double = explain_double(document, error, found, self.command)
                raise double if double is not error else explain_start(self._api, name, error) from error
            remove_links(document)

    def stop_node(self, name: str, *, timeout_s: float = 10.0) -> str:
        """Stop it, by force once `timeout_s` has passed."""
        return "" if self._ours(name).status == "stopped" else stop_instance(self._api, name, grace_s=timeout_s)

    def _change_state(self, name: str, change: Mapping[str, Any]) -> None:
        self._api.send("put", "instances", name, "state", body=change)

    def delete_node(self, name: str) -> str:
        """Remove it, running or not; no change if it is absent."""
        if self.find_node(name) is None:
            return ""
        self._ours(name)
        return self._remove(name)

    def _remove(self, name: str) -> str:
        return remove_instance(self._api, name)

    def _ours(self, name: str) -> NodeState:
        """The state of a node of ours; the errors are those of `_our_document`."""
        return documents.parse_instance(self._our_document(name))

    def _our_document(self, name: str) -> Document:
        """A node of ours as LXD shows it.

        Raises:
            EngineError: there is none of that name.
            NotOurs: gpuprov did not make it.
        """
        try:  # without recursion: a running node's disk usage and snapshots take twenty times as long
            document: Document | None = self._api.get("instances", _real(name))
        except NotFound:
            document = None
        return self._require_ours(name, document)

    def _require_ours(self, name: str, document: Document | None) -> Document:
        if document is not None and not members.is_here(document, self._api.member):
            raise not_ours(members.state_elsewhere(document), self.command, lack="")
        if document is None or documents.parse_image_instance(document):
            raise NotFound(
                f"there is no node {name}",
                evidence=f"{self.name} has {'an image' if document else 'no instance'} of that name",
                fix="list the nodes: gpuprov list",
            )
        state = documents.parse_instance(document)
        if not state.ours:
            raise not_ours(state, self.command, lack="the instance has no user.gpuprov.cluster key")
        return document

    def set_labels(self, name: str, labels: Mapping[str, str]) -> None:
        """Add or change labels."""
        self._label(self._our_document(name), labels)

    def _label(self, document: Document, labels: Mapping[str, str]) -> None:
        """Write labels, and whose they are: nodes of earlier versions did not have that."""
        name = document["name"]
        known = documents.render_self(name, document["config"])
        self._api.send("patch", "instances", name, body={"config": documents.label_config(labels) | known})

    def set_devices(self, name: str, devices: Sequence[CharDevice], mounts: Sequence[Mount]) -> None:
        """Replace character devices and mounts; a running node sees the change at once."""
        shift = self._can_shift()
        self._rewrite(name, lambda document: documents.with_devices(document, devices, mounts, shift=shift))

    def _rewrite(self, name: str, alter: Callable[[Document], Document]) -> None:
        """Replace the document of a node of ours by what it becomes; what others write meanwhile is not lost."""
        self._ours(name)
        self._api.rewrite("instances", name, alter=lambda document: alter(self._require_ours(name, document)))

    def settings(self, request: NodeRequest) -> Settings:
        """What a node made from it shows while nobody has changed it."""
        return settings.request_settings(request, self._api.kin)

    def set_settings(self, name: str, request: NodeRequest) -> None:
        """Bring config keys, networks and links to the request's; labels, devices, mounts and exposures stay."""
        before = self._our_document(name)
        self._rewrite(name, lambda document: settings.restore_settings(document, request, self._api.kin))
        remove_links(before)

    # --- inside a node

    def push(self, name: str, files: Sequence[File]) -> None:
        """Write files; missing parent folders are made."""
        if self._ours(name).status == "running":
            write_in_node(partial(execute, self._api, name), name, files)
        else:
            replace_files(self._api, name, files)

    def pull(self, name: str, path: str, *, most_bytes: int = MOST_FILE_BYTES, timeout_s: float = READ_S) -> bytes:
        """Read a file of a node."""
        if self._ours(name).status == "running":
            run = partial(execute, self._api, name)
            return read_in_node(run, name, path, most_bytes=most_bytes, timeout_s=timeout_s)
        look = partial(look_at_file, self._api, name, most_bytes=most_bytes)
        return read_at_rest(look, name, path, most_bytes=most_bytes)

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
        self._ours(name)
        return partial(execute, self._api, name)

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
        self._ours(name)
        call = Call(argv=argv, environment=environment or {}, cwd=cwd, timeout_s=timeout_s, stdin=stdin)
        with last_words_of(self._api, name):
            return execute(self._api, name, call).text()

    def attach(self, name: str, argv: Sequence[str], *, environment: Mapping[str, str]) -> int:
        """Run a command with this process's own streams."""
        client = self.attach_argv(name, argv, environment=environment)
        with last_words_of(self._api, name):
            return attach(self._api, name, argv, client, environment)

    def attach_argv(
        self,
        name: str,
        argv: Sequence[str],
        *,
        environment: Mapping[str, str],
        piped: bool = False,  # noqa: ARG002 - the client looks at its streams itself
    ) -> list[str]:
        """The engine's own client, with this terminal attached; remote and project are named, for users change both.

        With --force-local it does not greet who uses it for the first time.
        """
        pairs = [part for key, value in environment.items() for part in ("--env", f"{key}={value}")]
        place = ["--force-local", "--project", "default", f"local:{name}", "--cwd", "/root"]
        return [self._api.command, "exec", *place, *pairs, "--", *argv]

    def logs(self, name: str) -> str:
        """The end of the node's console log; empty where LXD keeps none yet."""
        self._ours(name)
        return read_console(self._api, name)

    # --- snapshots and ports

    def snapshot_node(self, name: str, snapshot: str) -> None:
        """Keep the node's present state."""
        self._ours(name)
        body = {"name": _real(snapshot), "stateful": False}
        try:
            self._api.send("post", "instances", name, "snapshots", body=body)
        except EngineError:
            remove_unlisted_snapshots(self._api, name)
            raise

    def restore_node(self, name: str, snapshot: str) -> str:
        """Bring a snapshot's files back; LXD would bring back the addresses, devices and labels of that time too."""
        document = self._our_document(name)
        kept = self._api.get("instances", name, "snapshots", _real(snapshot))
        if documents.same_configuration(document, kept):
            self._api.send("put", "instances", name, body={"restore": snapshot})
            return ""
        forced = self.stop_node(name, timeout_s=0)
        self._api.send("put", "instances", name, body={"restore": snapshot})
        restored = self._api.get("instances", name)
        self._api.send("put", "instances", name, body=documents.with_configuration(restored, document))
        if document["status"] != "Stopped":
            self.start_node(name)
        return forced

    def expose(self, name: str, exposure: Exposure) -> None:
        """Forward a port of the host into the node."""
        self._ours(name)
        try:
            self._rewrite(name, lambda document: documents.with_exposure(document, exposure))
        except EngineError as error:
            evidence = "\n".join(filter(None, (error.evidence, why_unbound(exposure))))
            raise EngineError(error.what, evidence=evidence, fix=error.fix) from error

    def unexpose(self, name: str, host_port: int) -> None:
        """Undo `expose`."""
        self._rewrite(name, lambda document: documents.without_exposure(document, host_port))

    # --- networks

    def list_networks(self) -> list[NetworkState]:
        """Every network, the host's own interfaces too."""
        return networks.list_networks(self._api)

    def create_network(self, request: NetworkRequest) -> None:
        """Make a bridge."""
        networks.create_network(self._api, request)

    def complete_network(self, request: NetworkRequest) -> None:
        """Give it its address; LXD waits half a second to see whether its name server stays up."""
        networks.complete_network(self._api, request)

    def isolate_network(self, name: str) -> str:
        """Have the host refuse connections to its nodes from elsewhere."""
        return networks.isolate_network(self._api, name)

    def delete_network(self, name: str) -> None:
        """Remove a network of ours; no change if it is absent."""
        networks.delete_network(self._api, name)

    def set_network_labels(self, name: str, labels: Mapping[str, str]) -> None:
        """Add or change labels of a network of ours."""
        networks.set_network_labels(self._api, name, labels)

    def network_settings(self, request: NetworkRequest) -> Settings:
        """What a network made from it shows while nobody has changed it."""
        return settings.request_network_settings(request)

    def set_network_settings(self, request: NetworkRequest) -> None:
        """Bring config, link and rules to the request's; labels stay."""
        networks.set_network_settings(self._api, request)

    # --- images

    def list_images(self) -> list[ImageState]:
        """Images that gpuprov made, complete ones only."""
        return images.list_images(self._api)

    def find_image(self, name: str) -> ImageState | None:
        """An image of ours by name, or an image of the user's by its alias."""
        return images.find_image(self._api, name)

    def import_rootfs(self, name: str, rootfs: str, labels: Mapping[str, str]) -> str:
        """Make a base image from a root file system tar."""
        return images.import_rootfs(self._api, name, rootfs, labels)

    def image_name_holder(self, name: str) -> str | None:
        """An instance that is not ours."""
        return images.name_holder(self._api, name)

    def publish_image(self, builder: str, name: str, labels: Mapping[str, str]) -> ImageState:
        """Turn a builder node into an image, atomically."""
        self._ours(builder)
        self.stop_node(builder)
        return images.publish(self._api, builder, name, labels)

    def delete_image(self, image_id: str) -> None:
        """Remove an image of ours; no change if it is absent."""
        kind, _, name = image_id.partition(":")
        if kind == "instance":
            images.delete_instance(self._api, name, self._remove)
        else:
            images.delete_imported(self._api, name)


def _observed(document: Mapping[str, Any], links: Mapping[str, Sequence[str]]) -> NodeState:
    state = documents.parse_instance(document)
    left = links_of_node(document, links) if state.status == "running" else ()
    shown = settings.instance_settings(document, unplugged=unplugged(document), left=left)
    return changed(state, settings=shown)


def _real(name: str) -> str:
    """A name to ask for: with an empty one LXD answers for all instances, and chooses a name for a new thing itself."""
    if not name:
        raise NotFound("names cannot be empty", evidence="the name is empty", fix="gpuprov list")
    return name
