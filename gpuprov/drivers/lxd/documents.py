"""LXD's documents from our requests, and our states from LXD's documents: pure functions."""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING, Any

from gpuprov.core.fingerprint import SHORT_LENGTH, fingerprint, short
from gpuprov.drivers.base import (
    Attachment,
    Exposure,
    ImageState,
    NetworkRequest,
    NetworkState,
    NodeRequest,
    NodeState,
    Status,
)
from gpuprov.drivers.label_text import read_texts
from gpuprov.spec.devices import CharDevice, Mount

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_PREFIX = "user."
_ENVIRONMENT = "environment."
KIND = "user.gpuprov.kind"  # `image` on the stopped instance that nodes are copied from
IMAGE_LABELS = "user.gpuprov.image-labels"  # JSON: one key to blank out in a copy, not one a label
IMAGE_INSTANCE = "gpuprov-image-"
_NAME_LENGTH = 63  # of a device; LXD refuses one of more than 64
_NAME_STEM = _NAME_LENGTH - SHORT_LENGTH - 1  # of one that ends with a hash
_LISTEN = re.compile(r"tcp:([^:]+):([0-9]{1,5})", re.ASCII)
_STATUSES: dict[str, Status] = {"running": "running", "stopped": "stopped", "frozen": "frozen"}


def label_config(labels: Mapping[str, str]) -> dict[str, str]:
    """Our labels as LXD config keys."""
    return {_PREFIX + key: value for key, value in labels.items()}


def parse_labels(config: Mapping[str, str]) -> dict[str, str]:
    """LXD config keys as our labels; an empty value means unset."""
    start = _PREFIX + "gpuprov."
    return {key[len(_PREFIX) :]: value for key, value in config.items() if key.startswith(start) and value}


def render_instance(request: NodeRequest, *, pool: str, shift: bool) -> dict[str, Any]:
    """The config and devices of a new instance, without its labels."""
    config = {
        "boot.autostart": "true",
        "security.privileged": "true" if request.privileged else "false",
        "security.devlxd": "false",  # a node need not read its own configuration
        "raw.lxc": render_addresses(request.attachments),
        KIND: "",
        IMAGE_LABELS: "",
    }
    config |= {_ENVIRONMENT + key: value for key, value in request.environment.items()}
    if request.cpus:
        config["limits.cpu"] = str(request.cpus)
    if request.memory_bytes:
        config["limits.memory"] = str(request.memory_bytes)
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
    """
    name = attachment.interface
    nictype = "macvlan" if attachment.kind == "macvlan" else "bridged"
    nic = {"type": "nic", "nictype": nictype, "parent": attachment.network, "name": name, "hwaddr": attachment.mac}
    if attachment.kind == "veth":
        return {name: nic}
    port = {"type": "nic", "nictype": "bridged", "parent": attachment.network, "name": f"{name}-port"}
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
        elif shift:
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
    return {"name": request.name, "type": "bridge", "config": config | label_config(request.labels)}


def parse_instance(document: Mapping[str, Any]) -> NodeState:
    """An instance as LXD lists it."""
    config, devices = document["config"], document["expanded_devices"]
    return NodeState(
        name=document["name"],
        id=config.get("volatile.uuid") or document.get("created_at", ""),
        status=_STATUSES.get(document["status"].lower(), "error"),
        labels=parse_labels(config),
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
    )


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


def parse_network(document: Mapping[str, Any]) -> NetworkState:
    """A network as LXD lists it, managed by it or not."""
    config = document.get("config") or {}
    address = config.get("ipv4.address")
    return NetworkState(
        name=document["name"],
        managed=bool(document["managed"]),
        address=address if address not in (None, "", "none") else None,
        labels=parse_labels(config),
    )


def parse_image_instance(document: Mapping[str, Any]) -> ImageState | None:
    """The image that a stopped instance is, or None if it is something else."""
    config = document["config"]
    if config.get(KIND) != "image" or not document["name"].startswith(IMAGE_INSTANCE):
        return None
    return ImageState(
        id=f"instance:{document['name']}",
        name=document["name"],
        labels=read_texts(config.get(IMAGE_LABELS)),
        created=document["created_at"],
    )
