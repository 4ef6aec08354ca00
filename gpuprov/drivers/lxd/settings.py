"""What LXD was told of an instance or a network besides what other parts of its state show: pure functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpuprov.drivers.lxd import documents
from gpuprov.shapes.node import Setting

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from gpuprov.drivers.base import NodeRequest
    from gpuprov.drivers.lxd.family import Kin
    from gpuprov.drivers.networks import NetworkRequest
    from gpuprov.shapes.node import Settings

_OWN_KEYS = ("user.", "volatile.", "image.")  # labels, and what LXD itself keeps
_LIVE_KEYS = ("limits.", "boot.", "snapshots.")  # every other key is read when the instance starts
# A node that an earlier gpuprov made lacks them, and need not be restarted for them.
_SINCE = ((documents.ONE_ANSWER, "1"), (documents.APART, "true"))
LINK, NAT = "link", "NAT rule"
SHAKEN_KEY, SHAKEN_VALUE = "dns.search", "gpuprov.invalid"  # harmless for a moment, and no request sets it


def instance_settings(
    document: Mapping[str, Any], *, unplugged: Collection[str] = (), left: Sequence[str] = ()
) -> Settings:
    """The settings of an instance as LXD lists it.

    Args:
        document: The instance.
        unplugged: Its nic devices that have lost their bridge.
        left: Links of it that an LXD that was killed has left on the host.
    """
    shown = _config(document["config"])
    if left:
        shown["links left on the host"] = Setting(value=", ".join(left))
    for name, device in document["devices"].items():
        if _shown_elsewhere(name, device):
            continue
        shown[f"device {name}"] = Setting(value=_words(device), live=device.get("type") != "nic")
        if device.get("nictype") == "bridged":
            plugged = "not plugged" if name in unplugged else "plugged"
            shown[f"{name} on the host"] = Setting(value=f"{plugged} into {device['parent']}", live=False)
    if document.get("profiles"):
        shown["profiles"] = Setting(value=",".join(document["profiles"]), live=False)
    return shown


def request_settings(request: NodeRequest, kin: Kin) -> Settings:
    """The settings of an unmodified instance of a request."""
    return instance_settings(documents.render_instance(request, kin=kin, pool="", shift=False))


def restore_settings(document: dict[str, Any], request: NodeRequest, kin: Kin) -> dict[str, Any]:
    """The instance's document with the request's settings; labels, devices, mounts, exposures and pool stay."""
    wanted = documents.render_instance(request, kin=kin, pool="", shift=False)
    config = {key: value for key, value in document["config"].items() if key.startswith(_OWN_KEYS)}
    config |= {key: value for key, value in wanted["config"].items() if not key.startswith(_OWN_KEYS)}
    devices = {name: device for name, device in document["devices"].items() if _shown_elsewhere(name, device)}
    devices |= {name: device for name, device in wanted["devices"].items() if not _shown_elsewhere(name, device)}
    return {**document, "config": config, "devices": devices, "profiles": []}


def network_settings(config: Mapping[str, str], *, lost: Collection[str] = ()) -> Settings:
    """The settings of a network; `lost` are those of its things on the host, LINK and NAT, that are not there."""
    things = [LINK, NAT] if config.get("ipv4.nat") == "true" else [LINK]
    return _config(config) | {
        f"{thing} on the host": Setting(value="missing" if thing in lost else "present") for thing in things
    }


def request_network_settings(request: NetworkRequest) -> Settings:
    """The settings of an unmodified network of a request."""
    return network_settings(documents.render_network(request)["config"])


def _config(config: Mapping[str, str]) -> dict[str, Setting]:
    return {
        key: Setting(value=" | ".join(value.splitlines()), live=key.startswith(_LIVE_KEYS))
        for key, value in config.items()
        if not key.startswith(_OWN_KEYS) and value and (key, value) not in _SINCE
    }


def _shown_elsewhere(name: str, device: Mapping[str, str]) -> bool:
    """Whether a device is the root disk, or one that `devices`, `mounts` or `exposed` of a NodeState show."""
    kind = device.get("type")
    return (
        (kind == "disk" and (device.get("path") == "/" or name.startswith("mount-")))
        or (kind == "unix-char" and bool(device.get("major")) and bool(device.get("minor")))
        or (kind == "proxy" and name.startswith("expose-"))
    )


def _words(device: Mapping[str, str]) -> str:
    return " ".join(f"{key}={value}" for key, value in sorted(device.items()) if (key, value) not in _SINCE)


def bridged_nics(document: Mapping[str, Any]) -> Iterable[tuple[str, str, str]]:
    """Device, link on the host and bridge of each veth of a running instance."""
    if document["status"].lower() != "running":
        return
    for name, device in document["devices"].items():
        link = document["config"].get(f"volatile.{name}.host_name")
        if device.get("nictype") == "bridged" and link:
            yield name, link, device["parent"]
