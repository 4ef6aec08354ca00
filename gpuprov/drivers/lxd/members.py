"""An engine that is a member of a cluster of its own: which member this host is, and what of the cluster is here.

gpuprov uses the engine of its own host and no other member's. It makes, changes and removes instances of this member
alone; those of other members are names that are taken, and nothing else. It changes neither members nor pools.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpuprov.core.errors import HostNotReady
from gpuprov.core.fingerprint import fingerprint, short
from gpuprov.drivers.base import BUILDER, NodeState
from gpuprov.drivers.lxd import documents
from gpuprov.drivers.registry import prepare_command
from gpuprov.shapes.engine import EngineCluster

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gpuprov.drivers.lxd.api import Document, LxdApi

COPY_ON_WRITE = ("btrfs", "zfs", "ceph", "lvm")
_POOL = "gpuprov"  # the one that is preferred
_NOWHERE = ("", "none")  # the location of instances of an engine that is in no cluster
_CREATED, _REACHED = "Created", ("Online", "Evacuated")
_IMAGES = (documents.IMAGE_INSTANCE, BUILDER)  # how the names of those begin that are of no interest elsewhere


def is_here(document: Mapping[str, Any], member: str) -> bool:
    """Whether an instance is on a member; everything is where the engine is in no cluster."""
    return not member or document.get("location", "") in (*_NOWHERE, member)


def list_here(api: LxdApi) -> list[Document]:
    """The instances of this host, images and builders too."""
    return [document for document in api.get("instances", recursion=1) if is_here(document, api.member)]


def states_elsewhere(found: Iterable[Mapping[str, Any]], member: str) -> list[NodeState]:
    """The instances of other members, without images and builders of gpuprov there."""
    return [
        state_elsewhere(document)
        for document in found
        if not is_here(document, member) and not document["name"].startswith(_IMAGES)
    ]


def state_elsewhere(document: Mapping[str, Any]) -> NodeState:
    """An instance of another member: its name is taken. If that member is unreachable, LXD tells nothing else of it."""
    status = documents.STATUSES.get(str(document.get("status", "")).lower(), "error")
    return NodeState(name=document["name"], status=status, host=document["location"], member=document["location"])


def own_name(name: str, member: str) -> str:
    """A name for what each member has one of: names of instances are unique over all of them."""
    return f"{name}-{short(fingerprint(member))}" if member else name


def find_engine_cluster(api: LxdApi) -> EngineCluster | None:
    """The cluster that the engine is a member of; None where it is in none."""
    return read_members(api) if api.member else None


def read_members(api: LxdApi) -> EngineCluster:
    """The same for an engine that is in one."""
    found = sorted(api.get("cluster", "members", recursion=1), key=lambda member: str(member["server_name"]))
    return EngineCluster(
        member=api.member,
        members=tuple(str(member["server_name"]) for member in found),
        away=tuple(str(member["server_name"]) for member in found if member.get("status") not in _REACHED),
    )


def list_pools(api: LxdApi) -> list[Document]:
    """The storage pools that this host can use.

    Raises:
        HostNotReady: There is none.
    """
    pools: list[Document] = api.get("storage-pools", recursion=1)
    if api.member:
        pools = [pool for pool in pools if _is_created(api, pool["name"])]
    if pools:
        return pools
    if not api.member:
        raise HostNotReady(
            f"{api.engine} has no storage pool for nodes",
            evidence=f"`{api.command} storage list` is empty",
            fix=f"create one: {prepare_command(api.engine)}",
        )
    commands = pool_commands(api.command, read_members(api).members)
    raise HostNotReady(
        f"the {api.kin.title} cluster has no storage pool for nodes on {api.member}",
        evidence=f"`{api.command} storage list` has none that is created on this member",
        fix=f"create one, which gpuprov does not do in a cluster: {commands}",
    )


def pool_of_nodes(api: LxdApi) -> str:
    """The storage pool for nodes: ours, else one with copy on write, else any."""
    if api.pool is None:
        best = min(list_pools(api), key=lambda pool: (pool["name"] != _POOL, pool["driver"] not in COPY_ON_WRITE))
        api.pool = str(best["name"])
    return api.pool


def _is_created(api: LxdApi, pool: str) -> bool:
    """Whether this member has the pool: the list tells only whether all have."""
    return bool(api.get("storage-pools", pool, target=api.member)["status"] == _CREATED)


def pool_commands(command: str, members: Iterable[str]) -> str:
    """What to type to make a pool: once for each member, then for the cluster."""
    create = f"{command} storage create {_POOL} btrfs"
    return "; ".join([*(f"{create} --target {member}" for member in members), create])
