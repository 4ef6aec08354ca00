"""Bridges of LXD and Incus, with their links and their rules on the host."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from gpuprov.core.errors import EngineError, NotOurs
from gpuprov.core.waiting import Wait
from gpuprov.drivers.foreign import NetworkInUse
from gpuprov.drivers.forward_rules import end_passage, let_through
from gpuprov.drivers.isolation import isolate, released, tell_isolated
from gpuprov.drivers.lxd import documents, settings
from gpuprov.drivers.lxd.again import LINK_WENT, act_again
from gpuprov.drivers.lxd.api import NotFound
from gpuprov.drivers.lxd.links import find_lost, read_rules
from gpuprov.drivers.lxd.member_labels import as_member_sees, joinable_by, keep_labels, read_kept
from gpuprov.drivers.lxd.member_networks import create_on_members, is_unfinished, removal_on_members
from gpuprov.drivers.lxd.name_server import ADDRESS_TAKEN, end_lost
from gpuprov.shapes.base import changed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.drivers.lxd.api import LxdApi
    from gpuprov.drivers.lxd.member_labels import Kept
    from gpuprov.drivers.networks import NetworkRequest, NetworkState
    from gpuprov.shapes.node import Settings

_WITHOUT_ADDRESS = {"ipv4.address": "none"}
_PASSING = {LINK_WENT: 5}
_NOT_STARTED = "Unavailable"
_START_S = 90.0


def list_networks(api: LxdApi) -> list[NetworkState]:
    """Every network, the host's own interfaces too."""
    kept = read_kept(api)
    found = [
        (document, _state(document, kept, api.member))
        for document in api.get("networks", recursion=1)
        if not (is_unfinished(document) and api.member in kept.get(document["name"], {}))
    ]
    rules = _read_rules(api) if any(state.ours for _, state in found) else None
    return tell_isolated(
        changed(state, settings=_network_settings(document, rules)) if state.ours else state
        for document, state in found
    )


def _state(document: Mapping[str, Any], kept: Kept, member: str) -> NetworkState:
    state = documents.parse_network(as_member_sees(document, kept, member))
    return changed(state, joinable=joinable_by(document, kept, member))


def _read_rules(api: LxdApi) -> str | None:
    return read_rules(str(api.client.host_info["environment"].get("firewall")), api.kin.rules)


def create_network(api: LxdApi, request: NetworkRequest) -> None:
    """Make a bridge, as yet without an address; in an engine's cluster at once with it."""
    if api.member:
        create_on_members(api, request)
        return
    document = documents.render_network(request)
    body = {**document, "config": {**document["config"], **_WITHOUT_ADDRESS}}
    make = partial(api.send, "post", "networks", body=body)
    act_again(make, _PASSING, undo=partial(_delete_half_made, api, request.name))


def _delete_half_made(api: LxdApi, name: str) -> None:
    """Remove what a failed attempt to make a network has left, if it left anything."""
    if _our_network(api, name):
        _delete(api, name)


def complete_network(api: LxdApi, request: NetworkRequest) -> None:
    """Give a bridge of ours its address, if it is to have one."""
    if request.address:
        if _get_our_network(api, request.name).address != request.address:
            _configure(api, "patch", request.name, {"ipv4.address": request.address})
        let_through(request.name)


def isolate_network(api: LxdApi, name: str) -> str:
    """Set the rules of a bridge."""
    state = _get_our_network(api, name)
    if state.address:
        let_through(name)
    return isolate(name, state.labels)


def delete_network(api: LxdApi, name: str) -> None:
    """Remove a network of ours; no change if it is absent. In an engine's cluster, the last host that has it does."""
    if api.member and _is_joinable(api, name):
        return
    state = _our_network(api, name)
    if state is None:
        return
    with released(name, state.labels), removal_on_members(api, name, state.labels) as is_last:
        if is_last:
            if find_lost(name, {}, None):
                # LXD takes a network without a link for stopped, and would leave its name server running for ever
                _configure(api, "patch", name, {settings.SHAKEN_KEY: settings.SHAKEN_VALUE})
            _delete(api, name)
            end_lost(api, name)
    end_passage(name)


def _is_joinable(api: LxdApi, name: str) -> bool:
    """Whether only other hosts of its cluster have it, as where this one failed while it was made."""
    try:
        return bool(joinable_by(api.get("networks", name), read_kept(api), api.member))
    except NotFound:
        return False


def _delete(api: LxdApi, name: str) -> None:
    try:
        act_again(partial(api.delete, "networks", name), _PASSING)
    except EngineError as error:
        users = documents.users_of_network(api.get("networks", name))
        raise (NetworkInUse(name, users) if users else error) from error


def set_network_labels(api: LxdApi, name: str, labels: Mapping[str, str]) -> None:
    """Add or change labels of a network of ours."""
    state = _get_our_network(api, name)
    if api.member:
        keep_labels(api, name, {**state.labels, **labels})
    else:
        api.send("patch", "networks", name, body={"config": documents.label_config(labels)})


def set_network_settings(api: LxdApi, request: NetworkRequest) -> None:
    """Bring config, link and rules to the request's; labels stay."""
    _get_our_network(api, request.name)
    document = api.get("networks", request.name)
    labels = {key: value for key, value in document["config"].items() if key.startswith("user.")}
    wanted = documents.render_network(replace(request, labels={}))["config"] | labels
    if _network_settings(document, _read_rules(api)) != settings.request_network_settings(request):
        # LXD sets up a bridge and its rules only where a key changes
        shaken = {**wanted, settings.SHAKEN_KEY: settings.SHAKEN_VALUE}
        _configure(api, "put", request.name, shaken)
    _configure(api, "put", request.name, wanted)


def _configure(api: LxdApi, method: str, name: str, config: Mapping[str, str]) -> None:
    """Change a network's configuration, on which the engine starts its name server anew."""
    change = partial(api.send, method, "networks", name, body={"config": config})
    act_again(partial(act_again, change, _PASSING), {ADDRESS_TAKEN: 3}, undo=partial(end_lost, api, name))
    _await_start(api, name)


def _await_start(api: LxdApi, name: str) -> None:
    """Wait for a network that the engine could not start when it started itself; one without nodes is created again."""
    document = api.get("networks", name)
    if document.get("status") == _NOT_STARTED and not document.get("used_by") and not api.member:
        _delete(api, name)
        api.send("post", "networks", body={key: document[key] for key in ("name", "type", "description", "config")})
        return
    wait = Wait(
        what=f"{api.kin.title} to start the network {name}, which it tries every minute",
        timeout_s=_START_S,
        fix=f"{api.command} network show {name}",
    )
    wait.until(lambda: str(api.get("networks", name).get("status")), lambda status: status != _NOT_STARTED)


def _get_our_network(api: LxdApi, name: str) -> NetworkState:
    state = _our_network(api, name)
    if state is None:
        raise NotFound(
            f"there is no network {name}",
            evidence=f"{api.engine} has no network of that name",
            fix="gpuprov cluster up",
        )
    return state


def _our_network(api: LxdApi, name: str) -> NetworkState | None:
    try:
        state = _state(api.get("networks", name), read_kept(api), api.member)
    except NotFound:
        return None
    if not state.ours:
        raise NotOurs(
            f"the network {name} was not created by gpuprov and is not changed",
            evidence=json.dumps((state.address and {"address": state.address}) or {"managed": state.managed}),
            fix="choose another bridge name in the spec (network.bridge)",
        )
    return state


def _network_settings(document: Mapping[str, Any], rules: str | None) -> Settings:
    config = document["config"]
    return settings.network_settings(config, lost=find_lost(document["name"], config, rules))
