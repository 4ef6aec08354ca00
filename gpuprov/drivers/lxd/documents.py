"""LXD's documents from our requests, and our states from LXD's documents: pure functions."""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING, Any

from gpuprov.core.disk import Disk
from gpuprov.core.errors import EngineError
from gpuprov.core.fingerprint import SHORT_LENGTH, fingerprint, short
from gpuprov.drivers.base import (
    ENDED_FIRST,
    LABEL_CLUSTER,
    LABEL_FINGERPRINT,
    LABEL_ROLE,
    LABEL_SELF,
    ROLE_BUILDER,
    NodeRequest,
    NodeState,
)
from gpuprov.drivers.label_text import read_texts
from gpuprov.drivers.networks import NetworkRequest, NetworkState
from gpuprov.drivers.taken_ports import refuse_forwarded
from gpuprov.shapes.engine import ImageState, Origin
from gpuprov.shapes.node import Attachment, CharDevice, Exposure, Mount, NodeLimits, NodeStatus
from gpuprov.spec.addressing import mac
from gpuprov.spec.shared_folder import MAPPED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from gpuprov.drivers.lxd.family import Kin

_PREFIX = "user."
_ENVIRONMENT = "environment."
KIND = "user.gpuprov.kind"  # `image` on the stopped instance that nodes are copied from
IMAGE_LABELS = "user.gpuprov.image-labels"  # JSON: one key to blank out in a copy, not one a label
IMAGE_INSTANCE = "gpuprov-image-"
SELF = _PREFIX + LABEL_SELF
APART = "security.port_isolation"  # such ports get nothing from each other
ONE_ANSWER = "linux.sysctl.net.ipv4.conf.all.arp_ignore"  # 1: an interface answers for itself alone
_VOLATILE = "volatile."
UUID = "volatile.uuid"  # LXD gives each instance its own, and a copy another one
_NAME_LENGTH = 63  # of a device; LXD refuses one of more than 64
_NAME_STEM = _NAME_LENGTH - SHORT_LENGTH - 1  # of one that ends with a hash
_LISTEN = re.compile(r"tcp:([^:]+):([0-9]{1,5})", re.ASCII)
_HALF_SHARES = "50%"  # of the CPU time that an instance without the setting gets, where others want it too
STATUSES: dict[str, NodeStatus] = {"running": "running", "stopped": "stopped", "frozen": "frozen"}


def label_config(labels: Mapping[str, str]) -> dict[str, str]:
    """Our labels as LXD config keys."""
    return {_PREFIX + key: value for key, value in labels.items()}


def parse_labels(config: Mapping[str, str]) -> dict[str, str]:
    """LXD config keys as our labels; an empty value means unset."""
    start = _PREFIX + "gpuprov."
    return {
        key[len(_PREFIX) :]: value for key, value in config.items() if key.startswith(start) and value and key != SELF
    }


def render_self(name: str, config: Mapping[str, str]) -> dict[str, str]:
    """The config key by which an instance is known to be itself: its name, and LXD's uuid once it has one."""
    return {SELF: f"{name} {config.get(UUID, '')}".strip()}


def find_origin(document: Mapping[str, Any]) -> Origin | None:
    """Whose labels an instance has, where they are not its own; one that an earlier gpuprov made has its own MACs."""
    config, name = document["config"], document["name"]
    cluster = config.get(_PREFIX + LABEL_CLUSTER)
    if not cluster:
        return None
    known, _, uuid = config.get(SELF, "").partition(" ")
    if known == name and uuid in ("", config.get(UUID)):
        return None
    if config.get(KIND) == "image" and known != name:
        return Origin(name=_image_name(read_texts(config.get(IMAGE_LABELS))), cluster=cluster)
    if known:
        return Origin(name=known, cluster=cluster)
    if config.get(_PREFIX + LABEL_ROLE) == ROLE_BUILDER or _has_own_macs(document, cluster):
        return None
    return Origin(name="", cluster=cluster)


def _has_own_macs(document: Mapping[str, Any], cluster: str) -> bool:
    nics = [(key, nic.get("hwaddr")) for key, nic in document["expanded_devices"].items() if nic["type"] == "nic"]
    return not nics or any(address == mac(cluster, document["name"], key) for key, address in nics)


def _image_name(labels: Mapping[str, str]) -> str:
    """The name that an image was published under; an earlier gpuprov did not record it."""
    return labels.get(LABEL_SELF) or IMAGE_INSTANCE + short(labels.get(LABEL_FINGERPRINT, ""))


def render_instance(request: NodeRequest, *, kin: Kin, pool: str, shift: bool) -> dict[str, Any]:
    """The config and devices of a new instance, without its labels."""
    config = {
        "boot.autostart": "true",
        "security.privileged": "true" if request.privileged else "false",
        kin.guest_api: "false",  # a node need not read its own configuration
        "raw.lxc": render_addresses(request.attachments),
        KIND: "",
        IMAGE_LABELS: "",
        **render_self(request.name, {}),
    }
    config |= {_ENVIRONMENT + key: value for key, value in request.environment.items()}
    if any(attachment.kind == "macvlan" for attachment in request.attachments):
        config[ONE_ANSWER] = "1"
    if request.cpus:
        config["limits.cpu"] = str(request.cpus)
    if request.memory_bytes:
        config["limits.memory"] = str(request.memory_bytes)
    if request.processes:
        config["limits.processes"] = str(request.processes)
    if request.gives_way:
        config["limits.cpu.allowance"] = _HALF_SHARES
        config["raw.lxc"] = "\n".join(filter(None, (config["raw.lxc"], f"lxc.proc.oom_score_adj = {ENDED_FIRST}")))
    devices: dict[str, dict[str, str]] = {"root": {"type": "disk", "path": "/", "pool": pool}}
    for attachment in request.attachments:
        devices.update(render_nics(attachment))
    devices.update(render_devices(request.devices, request.mounts, shift=shift and not request.privileged))
    return {"config": config, "devices": devices}


def render_addresses(attachments: Iterable[Attachment]) -> str:
    """Static addresses that liblxc sets before init runs, whatever the image holds.

    LXD numbers `lxc.net.N` by the sorted names of the nic devices, and allows these keys in raw.lxc.
    """
    attachments = tuple(attachments)
    order = sorted(name for attachment in attachments for name in render_nics(attachment))
    lines = []
    for attachment in attachments:
        index = order.index(attachment.interface)
        interface = ipaddress.ip_interface(attachment.address)
        broadcast = interface.network.broadcast_address
        lines.append(f"lxc.net.{index}.ipv4.address = {interface.with_prefixlen} {broadcast}")
        if attachment.gateway:
            lines.append(f"lxc.net.{index}.ipv4.gateway = {attachment.gateway}")
    return "\n".join(lines)


def render_nics(attachment: Attachment) -> dict[str, dict[str, str]]:
    """The nic devices of an attachment.

    A macvlan device has no carrier while its bridge has no port, and LXD's bridges start without one: so each node
    also plugs a silent veth into the private bridge (`eth1-port`), and any running node keeps that network up.
    Linux answers ARP for an address on every interface: ONE_ANSWER keeps the veth silent there too. A bridge does not
    know where macvlan devices are: what comes for them by the overlay, a port APART too, would go to every veth too.
    """
    name = attachment.interface
    nictype = "macvlan" if attachment.kind == "macvlan" else "bridged"
    nic = {"type": "nic", "nictype": nictype, "parent": attachment.network, "name": name, "hwaddr": attachment.mac}
    if attachment.kind == "veth":
        return {name: nic}
    port = {"type": "nic", "nictype": "bridged", "parent": attachment.network, "name": f"{name}-port", APART: "true"}
    return {name: nic, f"{name}-port": port}


def render_devices(devices: Iterable[CharDevice], mounts: Iterable[Mount], *, shift: bool) -> dict[str, dict[str, str]]:
    """Character devices and mounts; `shift` lets root in the node own what root on the host owns."""
    rendered: dict[str, dict[str, str]] = {}
    for device in devices:
        rendered["dev" + device.path.replace("/", "-").removeprefix("-dev")] = {
            "type": "unix-char",
            "path": device.path,
            "major": str(device.major),
            "minor": str(device.minor),
            "mode": f"{device.mode:04o}",
        }
    for name, mount in _name_mounts(mounts):
        disk = {"type": "disk", "source": mount.source, "path": mount.target}
        if mount.read_only:
            disk["readonly"] = "true"
        elif shift and mount.target not in MAPPED:  # which belong to a mapped user of the nodes
            disk["shift"] = "true"
        rendered[name] = disk
    return rendered


def _name_mounts(mounts: Iterable[Mount]) -> Iterator[tuple[str, Mount]]:
    """A device name for each mount: readable, not too long for LXD, and no two targets have the same.

    A name that another target has too ends with a hash, for /data/a, /data-a and /data_a would be one device; and so
    does a long one, such as those of some of the driver's libraries.
    """
    named = [("mount" + re.sub(r"[^A-Za-z0-9.]+", "-", mount.target), mount) for mount in mounts]
    targets: dict[str, set[str]] = {}
    for name, mount in named:
        targets.setdefault(name, set()).add(mount.target)
    for name, mount in named:
        own = len(targets[name]) == 1 and len(name) <= _NAME_LENGTH
        yield (name if own else f"{name[:_NAME_STEM]}_{short(fingerprint(mount.target))}"), mount


def render_exposure(exposure: Exposure) -> dict[str, str]:
    """A proxy device: the forward lives and dies with the node."""
    return {
        "type": "proxy",
        "listen": f"tcp:{exposure.listen}:{exposure.host_port}",
        "connect": f"tcp:127.0.0.1:{exposure.node_port}",
    }


def exposure_device(host_port: int) -> str:
    """The device name of an exposed host port."""
    return f"expose-{host_port}"


def render_network(request: NetworkRequest) -> dict[str, Any]:
    """A managed bridge, with NAT where it has an address; addresses are static, so there is no DHCP.

    `dns.mode: none` on the private bridge lets a node have two devices on it.
    """
    config = {"ipv4.address": "none", "ipv6.address": "none", "dns.mode": "none"}
    if request.address:
        config = {
            "ipv4.address": request.address,
            "ipv4.nat": "true",
            "ipv4.dhcp": "false",
            "ipv6.address": "none",
        }
    labels = label_config(request.labels) | render_self(request.name, {})
    return {"name": request.name, "type": "bridge", "config": config | labels}


def parse_instance(document: Mapping[str, Any]) -> NodeState:
    """An instance as LXD lists it."""
    config, devices = document["config"], document["expanded_devices"]
    origin = find_origin(document)
    return NodeState(
        name=document["name"],
        id=config.get("volatile.uuid") or document.get("created_at", ""),
        status=STATUSES.get(document["status"].lower(), "error"),
        labels={} if origin else parse_labels(config),
        copy_of=origin,
        addresses=_addresses(config.get("raw.lxc", ""), devices),
        devices=tuple(
            CharDevice(
                path=device["path"],
                major=int(device["major"]),
                minor=int(device["minor"]),
                mode=int(device.get("mode", "0660"), 8),
            )
            for _, device in sorted(devices.items())
            if device["type"] == "unix-char" and device.get("major") and device.get("minor")
        ),
        mounts=tuple(
            Mount(source=device["source"], target=device["path"], read_only=device.get("readonly") == "true")
            for name, device in sorted(devices.items())
            if name.startswith("mount-") and device["type"] == "disk" and {"source", "path"} <= set(device)
        ),
        exposed=tuple(_exposures(devices)),
        snapshots=tuple(snapshot["name"] for snapshot in document.get("snapshots") or ()),
        privileged=config.get("security.privileged") == "true",
        environment={
            key.removeprefix(_ENVIRONMENT): value for key, value in config.items() if key.startswith(_ENVIRONMENT)
        },
        limits=NodeLimits(
            processes=_limit(config, "limits.processes"),
            memory_bytes=_limit(config, "limits.memory"),
            cpus=_limit(config, "limits.cpu"),
        ),
    )


def parse_disk(seen: Mapping[str, Any]) -> Disk | None:
    """The space of a storage pool; None if its driver does not report it."""
    space, inodes = seen["space"], seen.get("inodes") or {}
    if not space.get("total"):
        return None
    files = inodes.get("total") or 0
    return Disk(
        total_bytes=space["total"],
        free_bytes=space["total"] - space["used"],
        total_files=files,
        free_files=files - (inodes.get("used") or 0),
    )


def _limit(config: Mapping[str, str], key: str) -> int | None:
    """A limit as a number; LXD knows other ways to write one, such as 2GiB or 50%, which gpuprov does not use."""
    text = config.get(key, "")
    return int(text) if text.isdecimal() else None


def _addresses(raw_lxc: str, devices: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    nics = sorted((name, device) for name, device in devices.items() if device["type"] == "nic")
    found = {device.get("name", name): device["ipv4.address"] for name, device in nics if device.get("ipv4.address")}
    for index, address in re.findall(r"^lxc\.net\.(\d+)\.ipv4\.address *= *(\S+)", raw_lxc, re.MULTILINE):
        if int(index) < len(nics):
            name, device = nics[int(index)]
            found[device.get("name", name)] = address
    return found


def _exposures(devices: Mapping[str, Mapping[str, str]]) -> Iterable[Exposure]:
    for name, device in sorted(devices.items()):
        if device["type"] == "proxy" and name.startswith("expose-"):
            listen = _LISTEN.fullmatch(device.get("listen", ""))
            node_port = device.get("connect", "").rsplit(":", 1)[-1]
            if listen and node_port.isdecimal():  # else somebody else's, of a kind that we do not make
                yield Exposure(host_port=int(listen[2]), node_port=int(node_port), listen=listen[1])


def with_devices(
    document: Mapping[str, Any], devices: Iterable[CharDevice], mounts: Iterable[Mount], *, shift: bool
) -> dict[str, Any]:
    """An instance's document with other character devices and mounts."""
    kept = {
        key: device
        for key, device in document["devices"].items()
        if device["type"] != "unix-char" and not key.startswith("mount-")
    }
    shifted = shift and not parse_instance(document).privileged
    return {**document, "devices": kept | render_devices(devices, mounts, shift=shifted)}


def with_exposure(document: Mapping[str, Any], exposure: Exposure) -> dict[str, Any]:
    """An instance's document with a port that leads into it.

    Raises:
        EngineError: That port leads to another one of it.
    """
    refuse_forwarded(exposure, document["name"], parse_instance(document).exposed)
    device = {exposure_device(exposure.host_port): render_exposure(exposure)}
    return {**document, "devices": document["devices"] | device}


def without_exposure(document: Mapping[str, Any], host_port: int) -> dict[str, Any]:
    """An instance's document without a port that leads into it.

    Raises:
        EngineError: It does not lead there.
    """
    exposed = [exposure.host_port for exposure in parse_instance(document).exposed]
    if host_port not in exposed:
        raise EngineError(
            f"port {host_port} of the host is not forwarded to {document['name']}",
            evidence=f"exposed: {', '.join(map(str, exposed)) or 'nothing'}",
            fix=f"list its ports: gpuprov show {document['name']}",
        )
    gone = exposure_device(host_port)
    return {**document, "devices": {key: device for key, device in document["devices"].items() if key != gone}}


def same_configuration(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two documents, of an instance or its snapshot, have the same config and devices."""
    return _own_config(one) == _own_config(other) and one["devices"] == other["devices"]


def with_configuration(document: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """An instance's document with the config and devices of another; what LXD itself keeps stays."""
    volatile = {key: value for key, value in document["config"].items() if key.startswith(_VOLATILE)}
    return {**document, "config": volatile | _own_config(wanted), "devices": wanted["devices"]}


def _own_config(document: Mapping[str, Any]) -> dict[str, str]:
    return {key: value for key, value in document["config"].items() if not key.startswith(_VOLATILE)}


def parse_network(document: Mapping[str, Any]) -> NetworkState:
    """A network as LXD lists it, managed by it or not."""
    config = document.get("config") or {}
    address = config.get("ipv4.address")
    known = config.get(SELF) or document["name"]  # an earlier gpuprov did not record it
    origin = Origin(name=known, cluster=config.get(_PREFIX + LABEL_CLUSTER, "")) if known != document["name"] else None
    return NetworkState(
        name=document["name"],
        managed=bool(document["managed"]),
        address=address if address not in (None, "", "none") else None,
        labels={} if origin else parse_labels(config),
        copy_of=origin,
    )


def users_of_network(document: Mapping[str, Any]) -> list[str]:
    """Names of the instances on a network, stopped ones too."""
    paths = [path.partition("?")[0].split("/") for path in document.get("used_by") or ()]
    return [path[-1] for path in paths if path[-2:-1] == ["instances"]]


def parse_image_instance(document: Mapping[str, Any]) -> ImageState | None:
    """The image that a stopped instance is, or None if it is something else, such as a copy of one."""
    config = document["config"]
    if config.get(KIND) != "image" or not document["name"].startswith(IMAGE_INSTANCE):
        return None
    labels = read_texts(config.get(IMAGE_LABELS))
    if _image_name(labels) != document["name"]:
        return None
    return ImageState(
        id=f"instance:{document['name']}",
        name=document["name"],
        labels={key: value for key, value in labels.items() if key != LABEL_SELF},
        created=document["created_at"],
    )
