"""Docker's documents from our requests, and our states from Docker's documents: pure functions."""

from __future__ import annotations

import datetime as dt
import ipaddress
from typing import TYPE_CHECKING, Any

from gpuprov.core.docker_labels import LABELS_OF, LABELS_SERIAL, PREFIX, parse_changed_labels
from gpuprov.core.fingerprint import short
from gpuprov.core.requirements import older
from gpuprov.core.units import GIB
from gpuprov.drivers.base import ENDED_FIRST, LABEL_CLUSTER, LABEL_FINGERPRINT, LABEL_SELF, NodeState
from gpuprov.drivers.docker.blueprint import NODE_LABEL, Blueprint, describe_settings, dump_blueprint, parse_blueprint
from gpuprov.drivers.label_text import read_texts
from gpuprov.drivers.networks import NetworkRequest, NetworkState
from gpuprov.gpu.access import CDI_KIND
from gpuprov.shapes.engine import EngineFacts, ImageState, Origin
from gpuprov.shapes.node import NodeLimits, NodeStatus
from gpuprov.spec.overlay import is_overlay_bridge

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gpuprov.gpu.models import EngineAccess
    from gpuprov.shapes.node import Attachment, CharDevice

Document = dict[str, Any]

IMAGES = "gpuprov-image"
ROOTFS = "gpuprov-rootfs"
SNAPSHOTS = "gpuprov-snapshot"
KEPT = "gpuprov-state"  # what containers stand on and no image list shows
IMAGE_LABEL = "gpuprov-docker.image"  # the labels of a node image, or the imported base's, as JSON
SNAPSHOT_LABEL = "gpuprov-docker.snapshot"
BRIDGE_OPTION = "com.docker.network.bridge.name"
_PARENT = "parent"  # option of a macvlan network
MAC_EACH_API = "1.44"  # from here on every interface can have the MAC address that is asked for

_STATUSES: dict[str, NodeStatus] = {"running": "running", "created": "stopped", "exited": "stopped", "paused": "frozen"}
_NO_NODE_NETWORKS = ("default", "bridge", "host", "none")
_COPY_ON_WRITE = ("overlay2", "btrfs", "zfs", "overlayfs", "fuse-overlayfs", "stargz")
_SHARED_MEMORY_BYTES = 8 * GIB  # data loaders need more than Docker's 64 MiB; it is a limit and nothing is reserved
_HALF_SHARES = 512  # of the CPU time that a container without the setting gets, where others want it too
_ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "USER": "root",
    "LANG": "C.UTF-8",
}


def blank(labels: Iterable[str]) -> dict[str, str]:
    """Labels that hide those a new image or container would inherit; Docker cannot remove one."""
    return dict.fromkeys(labels, "")


def parse_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Ours among an object's labels; an empty value means unset."""
    return {key: value for key, value in labels.items() if key.startswith(PREFIX) and value and key != LABEL_SELF}


# --- containers


def render_container(
    blueprint: Blueprint,
    labels: Mapping[str, str],
    *,
    image: str,
    command: Sequence[str],
    host_paths: Mapping[str, str],
    api: str,
) -> Document:
    """The body that makes a container, on the first of its networks.

    Args:
        blueprint: The requested configuration.
        labels: Ours.
        image: What it is made from.
        command: Its main process, below Docker's init.
        host_paths: For each device's path in the node, where the host has such a device.
        api: The engine's API version.
    """
    own = {} if blueprint.job else _ENVIRONMENT  # a job's image may be anybody's, and has its own
    environment = {**own, **blueprint.environment, **render_gpu_environment(blueprint)}
    first = blueprint.attachments[:1]
    body: Document = {
        "Image": image,
        "Hostname": blueprint.name,
        "Cmd": list(command),
        "Entrypoint": [],
        "User": "",
        "WorkingDir": "" if blueprint.job else "/",
        "Env": [f"{key}={value}" for key, value in environment.items()],
        "StopSignal": "SIGTERM",
        "Labels": {IMAGE_LABEL: "", SNAPSHOT_LABEL: "", **labels, NODE_LABEL: dump_blueprint(blueprint)},
        "ExposedPorts": {f"{exposure.node_port}/tcp": {} for exposure in blueprint.exposed},
        "HostConfig": _render_host_config(blueprint, host_paths),
        "NetworkingConfig": {"EndpointsConfig": {nic.network: render_endpoint(nic, api=api) for nic in first}},
    }
    if first and older(api, MAC_EACH_API):
        body["MacAddress"] = first[0].mac
    return body


def _render_host_config(blueprint: Blueprint, host_paths: Mapping[str, str]) -> Document:
    first = blueprint.attachments[:1]
    config: Document = {
        "Init": True,  # reaps zombies and passes signals on
        "NetworkMode": first[0].network if first else "bridge" if blueprint.job else "none",
        "AutoRemove": blueprint.job,
        "RestartPolicy": {"Name": "no" if blueprint.job else "unless-stopped"},
        "CapDrop": ["MKNOD"],
        "ShmSize": _SHARED_MEMORY_BYTES,
        "LogConfig": {"Type": "json-file", "Config": {"max-size": "10m", "max-file": "2"}},
        "Devices": [
            {"PathOnHost": host_paths[device.path], "PathInContainer": device.path, "CgroupPermissions": "rw"}
            for device in blueprint.devices
        ],
        "Mounts": [
            {"Type": "bind", "Source": mount.source, "Target": mount.target, "ReadOnly": mount.read_only}
            for mount in blueprint.mounts
        ],
        "PortBindings": {},
        **render_gpu_request(blueprint),
    }
    if any(nic.kind == "macvlan" for nic in blueprint.attachments):
        # Both networks share a wire (see render_network): each interface answers for its own address only.
        config["Sysctls"] = {"net.ipv4.conf.all.arp_ignore": "1"}
    for exposure in blueprint.exposed:
        binding = {"HostIp": exposure.listen, "HostPort": str(exposure.host_port)}
        config["PortBindings"].setdefault(f"{exposure.node_port}/tcp", []).append(binding)
    if blueprint.cpus:
        config["NanoCpus"] = blueprint.cpus * 10**9
    if blueprint.memory_bytes:
        config["Memory"] = blueprint.memory_bytes
    if blueprint.processes:
        config["PidsLimit"] = blueprint.processes
    if blueprint.gives_way:
        config |= {"CpuShares": _HALF_SHARES, "OomScoreAdj": ENDED_FIRST}
    return config


def render_gpu_request(blueprint: Blueprint) -> Document:
    """What in the host configuration has the engine itself hand GPUs in."""
    gpus = blueprint.engine_gpus
    if gpus is None:
        return {}
    if gpus.access == "cdi":
        names = [f"{CDI_KIND}={uuid}" for uuid in gpus.uuids]
        return {"DeviceRequests": [{"Driver": "cdi", "DeviceIDs": names}]}
    return {"Runtime": "nvidia"}


def render_gpu_environment(blueprint: Blueprint) -> dict[str, str]:
    """The variables by which the NVIDIA runtime knows what to hand in.

    It may be what runs every container of a host, and images name all GPUs: the lease alone decides.
    """
    gpus = blueprint.engine_gpus
    if gpus is None or gpus.access != "nvidia-runtime":
        return {"NVIDIA_VISIBLE_DEVICES": "void"}
    return {"NVIDIA_VISIBLE_DEVICES": ",".join(gpus.uuids), "NVIDIA_DRIVER_CAPABILITIES": "compute,utility"}


def render_endpoint(attachment: Attachment, *, api: str) -> Document:
    """A container's place on a network; an older engine derives the MAC of a second interface from its address."""
    endpoint: Document = {"IPAMConfig": {"IPv4Address": attachment.address.partition("/")[0]}}
    if not older(api, MAC_EACH_API):
        endpoint |= {
            "MacAddress": attachment.mac,
            "DriverOpts": {"com.docker.network.endpoint.ifname": attachment.interface},
        }
    return endpoint


def parse_container(
    document: Mapping[str, Any], *, labels: Mapping[str, str], snapshots: Sequence[str] = ()
) -> NodeState:
    """A container as Docker lists it.

    Args:
        document: Of the list, or the like.
        labels: That were changed since it was made.
        snapshots: Names of the node's snapshots.
    """
    blueprint = blueprint_of(document)
    status = _STATUSES.get(document["State"], "error")
    if blueprint is None:
        return _foreign_state(document, status)
    own = {key: value for key, value in document["Labels"].items() if key in blueprint.own_labels}
    own = parse_labels({**own, **labels})
    name, unfinished = split_name(container_name(document))
    if unfinished or (blueprint.job and document["State"] == "created"):
        own.pop(LABEL_FINGERPRINT, None)
    return NodeState(
        id=document["Id"],
        name=name,
        status=status,
        labels=own,
        addresses={nic.interface: nic.address for nic in blueprint.attachments},
        devices=blueprint.devices,
        mounts=blueprint.mounts,
        exposed=blueprint.exposed,
        snapshots=tuple(snapshots),
        environment=blueprint.environment,
        settings=describe_settings(blueprint),
        limits=NodeLimits(processes=blueprint.processes, memory_bytes=blueprint.memory_bytes, cpus=blueprint.cpus),
    )


def _foreign_state(document: Mapping[str, Any], status: NodeStatus) -> NodeState:
    """A container of others; of its devices the list says nothing."""
    addresses, origin = _foreign_addresses(document), origin_of(document)
    return NodeState(name=container_name(document), status=status, addresses=addresses, copy_of=origin)


def parse_copied_devices(document: Mapping[str, Any], inspected: Mapping[str, Any]) -> tuple[CharDevice, ...]:
    """The devices in the label of a listed copy that it has: one that is only renamed has them all.

    Args:
        document: As Docker lists it.
        inspected: As Docker inspects it.
    """
    blueprint = _labelled_blueprint(document)
    there = {device["PathInContainer"] for device in inspected["HostConfig"].get("Devices") or ()}
    return tuple(device for device in blueprint.devices if device.path in there) if blueprint else ()


def blueprint_of(document: Mapping[str, Any]) -> Blueprint | None:
    """What a listed container was made to be; None if gpuprov did not make it, it is a copy, or nobody can tell."""
    blueprint = _labelled_blueprint(document)
    return blueprint if blueprint and _is_itself(document, blueprint) else None


def origin_of(document: Mapping[str, Any]) -> Origin | None:
    """Whose labels a listed container has, where they are not its own: those of a container go with its image."""
    blueprint = _labelled_blueprint(document)
    if blueprint is None or _is_itself(document, blueprint):
        return None
    return Origin(name=blueprint.name, cluster=document["Labels"].get(LABEL_CLUSTER, ""))


def _labelled_blueprint(document: Mapping[str, Any]) -> Blueprint | None:
    return parse_blueprint((document.get("Labels") or {}).get(NODE_LABEL))


def _is_itself(document: Mapping[str, Any], blueprint: Blueprint) -> bool:
    """Whether a container has the name and the place of the one whose label it has."""
    if not document["Names"]:  # Docker is removing it
        return True
    network = (document.get("HostConfig") or {}).get("NetworkMode")  # `docker run` puts a container on Docker's own
    placed = not blueprint.attachments or network not in _NO_NODE_NETWORKS
    return placed and split_name(container_name(document))[0] == blueprint.name


def _foreign_addresses(document: Mapping[str, Any]) -> dict[str, str]:
    """The addresses that a foreign container has or is to have, by network."""
    found = {}
    for network, place in ((document.get("NetworkSettings") or {}).get("Networks") or {}).items():
        address = (place.get("IPAMConfig") or {}).get("IPv4Address") or place.get("IPAddress")
        if address:
            found[network] = f"{address}/{place.get('IPPrefixLen') or 32}"
    return found


def container_name(document: Mapping[str, Any]) -> str:
    """A listed container's own name; a link gives it further ones, with a second slash."""
    names = [str(name).removeprefix("/") for name in document["Names"] or ()]
    return next((name for name in names if "/" not in name), document["Id"][:12])


MADE, READY = ".new", ".next"


def split_name(name: str) -> tuple[str, bool]:
    """The node's name of a container of ours, and whether it is not finished.

    `c000.new` is being made; `c000.next` is finished, and only has to take the place of the c000 it replaces.
    """
    if name.endswith(MADE):
        return name.removesuffix(MADE), True
    return name.removesuffix(READY), False


def choose_containers(documents: Iterable[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Each name's one container: the finished one, else its finished replacement, else what is being made."""
    chosen: dict[str, Mapping[str, Any]] = {}
    for document in sorted(documents, key=_finish):
        own = container_name(document)
        name = split_name(own)[0] if blueprint_of(document) else own
        chosen.setdefault(name, document)
    return chosen


def _finish(document: Mapping[str, Any]) -> int:
    name = container_name(document)
    return (name.endswith(READY)) + 2 * (name.endswith(MADE))


# --- networks


def render_network(request: NetworkRequest) -> Document:
    """A bridge with NAT where it has an address, else macvlan devices on the bridge `beside` it.

    Docker could make a parent of its own for a macvlan network, but only where the kernel has the `dummy` module, and
    a bridge made for it alone would have no carrier, as nothing else is plugged into it.
    """
    if request.address:
        interface = ipaddress.ip_interface(request.address)
        place, driver, options = (str(interface.network), str(interface.ip)), "bridge", {BRIDGE_OPTION: request.name}
    else:
        subnet = ipaddress.ip_network(request.subnet or "")
        place = (
            str(subnet),
            str(subnet[-2]),
        )  # the gateway's address stays unassigned
        driver, options = "macvlan", {_PARENT: request.beside} if request.beside else {}
    return {
        "Name": request.name,
        "Driver": driver,
        "CheckDuplicate": True,
        "Internal": driver == "macvlan",
        "IPAM": {"Driver": "default", "Config": [{"Subnet": place[0], "Gateway": place[1]}]},
        "Options": options,
        "Labels": {**request.labels, LABEL_SELF: request.name},
    }


def render_changed_labels(subject: str, labels: Mapping[str, str], *, serial: int) -> Document:
    """A config-only network, which holds labels and does nothing: those of a network or container cannot be changed."""
    return {
        "Name": f"gpuprov-labels-{subject[:12]}-{serial}",
        "ConfigOnly": True,
        "CheckDuplicate": True,
        "Labels": {**labels, LABELS_OF: subject, LABELS_SERIAL: str(serial)},
    }


def parse_networks(documents: Sequence[Mapping[str, Any]]) -> dict[str, tuple[str, NetworkState]]:
    """Docker's networks by name: the id, and the state."""
    relabelled = parse_changed_labels(documents)
    found = {}
    for document in documents:
        if document.get("ConfigOnly"):
            continue
        name = (document.get("Options") or {}).get(BRIDGE_OPTION) or document["Name"]
        if (document.get("Labels") or {}).get("gpuprov.cluster"):
            name = document["Name"]
        labels = {**(document.get("Labels") or {}), **relabelled.get(document["Id"], {})}
        known = labels.get(LABEL_SELF) or name  # an earlier gpuprov did not record it
        origin = Origin(name=known, cluster=labels.get(LABEL_CLUSTER, "")) if known != name else None
        address = _gateway(document) if document["Driver"] == "bridge" else None
        own = {} if origin else parse_labels(labels)
        subnets = tuple(config["Subnet"] for config in _ipam(document) if ":" not in config.get("Subnet", ":"))
        parent = (document.get("Options") or {}).get(_PARENT, "")
        state = NetworkState(
            name=name,
            managed=True,
            address=address,
            subnets=subnets,
            labels=own,
            copy_of=origin,
            overlaid=parent if is_overlay_bridge(parent) else "",
        )
        found[name] = (str(document["Id"]), state)
    return found


def _ipam(document: Mapping[str, Any]) -> list[dict[str, str]]:
    return (document.get("IPAM") or {}).get("Config") or []


def _gateway(document: Mapping[str, Any]) -> str | None:
    for config in _ipam(document):
        if config.get("Gateway") and ":" not in config["Gateway"]:
            return f"{config['Gateway']}/{config['Subnet'].partition('/')[2]}"
    return None


# --- images and the engine


def parse_image(document: Mapping[str, Any]) -> ImageState | None:
    """The node image that a listed image is, or None if it is something else; further tags are people's own."""
    text = (document.get("Labels") or {}).get(IMAGE_LABEL)
    if not text:
        return None
    labels = dict(read_texts(text))
    known = labels.pop(LABEL_SELF, None) or short(labels.get(LABEL_FINGERPRINT, ""))  # an earlier gpuprov's
    tags = [tag for tag in document.get("RepoTags") or () if tag == image_tag(known)]
    if not tags:
        return None
    created = dt.datetime.fromtimestamp(document["Created"], tz=dt.timezone.utc)
    return ImageState(
        id=tags[0],
        name=image_name(tags[0]),
        labels=labels,
        size_bytes=document.get("Size"),
        created=created.isoformat().replace("+00:00", "Z"),
    )


def image_name(tag: str) -> str:
    """The name by which people know a node image."""
    return tag.replace(":", "-", 1)


def image_tag(name: str) -> str:
    """The tag of a node image, by either form of its name."""
    return f"{IMAGES}:{name.removeprefix(f'{IMAGES}-')}"


def parse_facts(info: Mapping[str, Any], *, api: str, free_bytes: int | None, cdi_files: Sequence[str]) -> EngineFacts:
    """The engine, from its answer to `/info`."""
    return EngineFacts(
        name="docker",
        version=str(info.get("ServerVersion", "")),
        api=api,
        storage=f"{info['DockerRootDir']} ({info['Driver']})",
        copy_on_write=info["Driver"] in _COPY_ON_WRITE,
        cpus=info["NCPU"],
        memory_bytes=info["MemTotal"],
        free_bytes=free_bytes,
        gpu_access=parse_gpu_access(info, cdi_files=cdi_files),
        systemd_cgroups=info.get("CgroupDriver") == "systemd",
    )


def parse_gpu_access(info: Mapping[str, Any], *, cdi_files: Sequence[str]) -> dict[EngineAccess, str]:
    """By which ways the engine can hand GPUs in, the preferred one first, and where that was seen.

    Args:
        info: Its answer to `/info`; `DiscoveredDevices` is there from Docker 28.3, `CDISpecDirs` from 25.
        cdi_files: Files in those folders that describe NVIDIA GPUs.
    """
    version = info.get("ServerVersion", "?")
    offers: dict[EngineAccess, str] = {}
    if "DiscoveredDevices" in info:
        names = [device.get("ID", "") for device in info["DiscoveredDevices"] or ()]
        if any(name.startswith(f"{CDI_KIND}=") for name in names):
            offers["cdi"] = f"docker {version} has found CDI devices {CDI_KIND}"
    elif info.get("CDISpecDirs") and cdi_files:
        offers["cdi"] = f"docker {version} uses {', '.join(cdi_files)}"
    if "nvidia" in (info.get("Runtimes") or {}):
        offers["nvidia-runtime"] = f"docker {version} has the runtime nvidia"
    return offers
