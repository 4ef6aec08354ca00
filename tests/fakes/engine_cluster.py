"""A cluster of LXD's own, in memory: its requests as each of its members answers them, and their words."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from gpuprov.core.errors import EngineError
from gpuprov.drivers.lxd.api import NotFound
from gpuprov.drivers.lxd.family import KIN

if TYPE_CHECKING:
    from collections.abc import Callable

MEMBER_KEYS = ("bridge.external_interfaces", "parent")  # a network may have others on each member


def refuse(what: str, kind: type[EngineError] = EngineError) -> EngineError:
    return kind("lxd could not", evidence=what, fix="try")


@dataclass(kw_only=True)
class EngineCluster:
    """What all members have together.

    Attributes:
        members: Their names, and whether they are online.
        pools: Names of storage pools, and the members that have each.
        announced: Names of networks that are not made yet, and the members that know of them.
        done: What has been changed, and by which member.
        reach: Called before each change with the member and what it is; may raise, as a kill does.
    """

    members: dict[str, bool] = field(default_factory=lambda: {"m1": True, "m2": True})
    pools: dict[str, set[str]] = field(default_factory=lambda: {"local": {"m1", "m2"}})
    instances: dict[str, dict[str, Any]] = field(default_factory=dict)
    networks: dict[str, dict[str, Any]] = field(default_factory=dict)
    announced: dict[str, set[str]] = field(default_factory=dict)
    profiles: dict[str, dict[str, Any]] = field(default_factory=dict)
    done: list[tuple[str, str]] = field(default_factory=list)
    reach: Callable[[str, str], object] = lambda _member, _what: None

    def add_instance(self, name: str, member: str, **config: str) -> None:
        """One of somebody's; of a member that is unreachable, LXD tells the name and the location alone."""
        document = {
            "name": name,
            "location": member,
            "status": "Running",
            "config": {f"user.{key}": value for key, value in config.items()},
            "devices": {},
            "expanded_devices": {},
            "created_at": "2026-11-25",
        }
        self.instances[name] = document

    def api(self, member: str) -> Member:
        """The engine of one of its members; empty for one that is in no cluster."""
        return Member(cluster=self, member=member)


@dataclass(kw_only=True)
class Member:
    """What the driver has of an LxdApi, of one member."""

    cluster: EngineCluster
    member: str
    engine: str = "lxd"
    command: str = "lxc"
    pool: str | None = None

    @property
    def kin(self) -> Any:
        return KIN["lxd"]

    @property
    def client(self) -> Any:
        environment = {
            "server_version": "5.0.2",
            "server_name": self.member or "machine",
            "server_clustered": bool(self.member),
            "firewall": "xtables",
        }
        return SimpleNamespace(host_info={"environment": environment, "api_version": "1.0"})

    # --- reading

    def get(self, *path: str, recursion: int = 0, target: str = "") -> Any:  # noqa: C901 - one case for each request
        cluster = self.cluster
        found: Any
        match path:
            case ("cluster", "members"):
                assert recursion == 1
                found = [
                    {"server_name": name, "status": "Online" if online else "Offline"}
                    for name, online in cluster.members.items()
                ]
            case ("instances",):
                found = [self._instance(name) for name in sorted(cluster.instances)]
            case ("instances", name):
                found = self._instance(name)
            case ("networks",):
                found = [self._network(name) for name in sorted({*cluster.networks, *cluster.announced})]
            case ("networks", name):
                found = self._network(name)
            case ("profiles",):
                assert recursion == 1
                found = list(cluster.profiles.values())
            case ("profiles", name):
                found = _of(cluster.profiles, name)
            case ("storage-pools",):
                found = [{"name": name, "driver": "btrfs", "status": "Created"} for name in cluster.pools]
            case ("storage-pools", name, "resources"):
                found = {"space": {"total": 10, "used": 4}}
            case ("storage-pools", name):
                has = (target or self.member) in cluster.pools[name]
                found = {"name": name, "driver": "btrfs", "status": "Created" if has else "Pending"}
            case ("resources",):
                found = {"cpu": {"total": 2}, "memory": {"total": 7}}
            case _:
                raise AssertionError(path)
        return copy.deepcopy(found)

    def _instance(self, name: str) -> dict[str, Any]:
        document = _of(self.cluster.instances, name)
        if self.cluster.members.get(document["location"], True):
            return document
        empty = dict.fromkeys(("config", "devices", "expanded_devices"))
        return {**document, **empty, "status": "Error"}

    def _network(self, name: str) -> dict[str, Any]:
        if name in self.cluster.announced:
            return {"name": name, "managed": True, "type": "bridge", "status": "Pending", "config": {}, "used_by": []}
        used = [
            f"/1.0/instances/{instance['name']}"
            for instance in self.cluster.instances.values()
            if any(device.get("parent") == name for device in instance["devices"].values())
        ]
        return {**_of(self.cluster.networks, name), "used_by": used}

    # --- changing

    def send(self, method: str, *path: str, body: dict[str, Any], target: str = "") -> None:  # noqa: C901 - as above
        self._reach(f"{method} {'/'.join((*path, body.get('name', '')))}{f'@{target}' if target else ''}".rstrip("/"))
        body = copy.deepcopy(body)
        cluster = self.cluster
        match method, path:
            case "post", ("networks",) if target:
                self._announce(body, target)
            case "post", ("networks",):
                self._make_network(body)
            case (("put" | "patch"), ("networks", name)):
                old = cluster.networks[name]["config"] if method == "patch" else {}
                cluster.networks[name]["config"] = old | body["config"]
            case "post", ("profiles",):
                if body["name"] in cluster.profiles:
                    raise refuse("The profile already exists")
                cluster.profiles[body["name"]] = body
            case "put", ("profiles", name):
                cluster.profiles[name] = {"name": name, **body}
            case "post", ("instances",):
                assert bool(target) == bool(self.member), "the engine itself would choose a member"
                if body["name"] in cluster.instances:
                    raise refuse(f'Instance "{body["name"]}" already exists')
                place = {"location": target or "none", "status": "Stopped", "created_at": "2026-11-25"}
                cluster.instances[body["name"]] = {**body, **place, "expanded_devices": body["devices"]}
            case "post", ("instances", name):
                instance = cluster.instances.pop(name)
                cluster.instances[body["name"]] = {**instance, "name": body["name"]}
            case "put", ("instances", name):
                cluster.instances[name] |= {key: body[key] for key in ("config", "devices") if key in body}
            case "patch", ("instances", name):
                cluster.instances[name]["config"] |= body["config"]
            case _:
                raise AssertionError((method, path))

    def delete(self, *path: str, timeout_s: float | None = None) -> None:  # noqa: ARG002
        self._reach(f"delete {'/'.join(path)}")
        cluster = self.cluster
        match path:
            case ("networks", name):
                if self.get("networks", name)["used_by"]:
                    raise refuse("The network is currently in use")
                cluster.networks.pop(name, None)
                cluster.announced.pop(name, None)
            case ("profiles", name):
                del cluster.profiles[name]
            case ("instances", name):
                del cluster.instances[name]
            case _:
                raise AssertionError(path)

    def _announce(self, body: dict[str, Any], member: str) -> None:
        assert set(body.get("config", {})) <= set(MEMBER_KEYS)
        known = self.cluster.announced.setdefault(body["name"], set())
        if member in known or body["name"] in self.cluster.networks:
            if not known:
                del self.cluster.announced[body["name"]]
            raise refuse(f'The network is already defined on member "{member}"')
        known.add(member)

    def _make_network(self, body: dict[str, Any]) -> None:
        cluster, name = self.cluster, body["name"]
        if name in cluster.networks:
            raise refuse("The network is already created")
        if self.member and cluster.announced.get(name) != set(cluster.members):
            raise refuse("Network not defined on all members")
        cluster.announced.pop(name, None)
        cluster.networks[name] = {**body, "managed": True, "status": "Created"}

    def _reach(self, what: str) -> None:
        self.cluster.reach(self.member, what)
        self.cluster.done.append((self.member, what))


def _of(table: dict[str, dict[str, Any]], name: str) -> dict[str, Any]:
    if name not in table:
        raise refuse(f"{name} not found", NotFound)
    return table[name]
