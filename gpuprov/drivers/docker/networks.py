"""Networks in Docker; their labels cannot be changed, so changed ones are kept beside them (see documents)."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

from gpuprov.core.docker_labels import LABELS_OF, parse_changed_labels, serial_of
from gpuprov.core.errors import EngineError, NotOurs
from gpuprov.drivers.docker import documents
from gpuprov.drivers.docker.api import NotFound
from gpuprov.drivers.foreign import NetworkInUse
from gpuprov.drivers.isolation import isolate, released, tell_isolated
from gpuprov.drivers.networks import NetworkState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.drivers.docker.api import DockerApi
    from gpuprov.drivers.networks import NetworkRequest


def list_networks(api: DockerApi, *, root: Path = Path("/")) -> list[NetworkState]:
    """Docker's networks, and the machine's other bridges."""
    found = {name: state for name, (_, state) in documents.parse_networks(api.get("/networks")).items()}
    found |= {state.name: state for state in tell_isolated(state for state in found.values() if _has_bridge(state))}
    for bridge in _host_bridges(root):
        found.setdefault(bridge, NetworkState(name=bridge, managed=False))
    return list(found.values())


def create_network(api: DockerApi, request: NetworkRequest, *, root: Path = Path("/")) -> None:
    """Make a network; Docker would take over a bridge that is there already."""
    if request.address and request.name in _host_bridges(root):
        raise EngineError(
            f"this machine already has a bridge {request.name}",
            evidence=f"/sys/class/net/{request.name}/bridge",
            fix="choose other bridges: network.bridge and network.private_bridge in the spec",
        )
    if not request.address and not request.subnet:
        raise EngineError(
            f"docker cannot create the network {request.name}",
            evidence="it has neither an address nor a subnet",
            fix="set a subnet: network.private_subnet in the spec",
        )
    api.post("/networks/create", documents.render_network(request))


def delete_network(api: DockerApi, name: str, *, root: Path = Path("/")) -> None:
    """Remove a network of ours that no container is on; no change if it is absent."""
    identity = _ours(api, name, root)
    if identity is None:
        return
    users = api.get("/containers/json", all=1, filters={"network": [identity, name]})
    if users:
        raise NetworkInUse(name, [documents.container_name(user) for user in users])
    _, state = documents.parse_networks(api.get("/networks"))[name]
    with released(state.bridge, state.labels) if _has_bridge(state) else contextlib.nullcontext():
        api.delete(f"/networks/{identity}")
    forget_labels(api, identity)


def isolate_network(api: DockerApi, name: str, *, root: Path = Path("/")) -> str:
    """Set the rules of a network's own bridge."""
    _get_ours(api, name, root)
    (state,) = (found for found in list_networks(api, root=root) if found.name == name)
    return isolate(state.bridge, state.labels) if _has_bridge(state) else ""


def _has_bridge(network: NetworkState) -> bool:
    """Whether a bridge of the host is its own: the private network of one host is on that of the other network."""
    return bool(network.address or network.overlaid)


def set_network_labels(api: DockerApi, name: str, labels: Mapping[str, str], *, root: Path = Path("/")) -> None:
    """Add or change labels of a network of ours."""
    change_labels(api, _get_ours(api, name, root), labels)


def change_labels(api: DockerApi, subject: str, labels: Mapping[str, str]) -> None:
    """Keep changed labels of a network or container, in one step, then remove what they replace."""
    kept = [found for found in api.get("/networks") if _of(found) == subject]
    before = parse_changed_labels(kept).get(subject, {})
    serial = 1 + max(map(serial_of, kept), default=0)
    api.post("/networks/create", documents.render_changed_labels(subject, {**before, **labels}, serial=serial))
    _remove(api, kept)


def forget_labels(api: DockerApi, subject: str) -> None:
    """Remove the changed labels of something that is gone, and those whose removal a killed run did not reach."""
    found = api.get("/networks")
    kept = [network for network in found if _of(network)]
    left = [network for network in kept if _of(network) != subject]
    if left:  # asked for after the networks: whatever has labels by then is there
        there = {thing["Id"] for thing in [*found, *api.get("/containers/json", all=1)]}
        left = [network for network in left if _of(network) in there]
    _remove(api, [network for network in kept if network not in left])


def _remove(api: DockerApi, networks: list[documents.Document]) -> None:
    for network in networks:
        with contextlib.suppress(NotFound):
            api.delete(f"/networks/{network['Id']}")


def _of(document: Mapping[str, object]) -> object:
    labels = document.get("Labels")
    return labels.get(LABELS_OF) if isinstance(labels, dict) else None


def _get_ours(api: DockerApi, name: str, root: Path) -> str:
    identity = _ours(api, name, root)
    if identity is None:
        raise NotFound(
            f"there is no network {name}", evidence="docker has no network of that name", fix="gpuprov cluster up"
        )
    return identity


def _ours(api: DockerApi, name: str, root: Path) -> str | None:
    identity, state = documents.parse_networks(api.get("/networks")).get(name, (None, None))
    if state is None and name in _host_bridges(root):
        state = NetworkState(name=name, managed=False)
    if state is not None and not state.ours:
        raise NotOurs(
            f"the network {name} was not created by gpuprov and is not changed",
            evidence=f"address {state.address}, managed by docker: {state.managed}",
            fix="choose another bridge name in the spec (network.bridge)",
        )
    return identity


def _host_bridges(root: Path) -> list[str]:
    folder = root / "sys/class/net"
    if not folder.is_dir():
        return []
    return sorted(path.name for path in folder.iterdir() if (path / "bridge").is_dir())
