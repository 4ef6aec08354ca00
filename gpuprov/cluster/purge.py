"""The folders that outlive a cluster, of nodes and services: they stay when it goes, or go too if that is said."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.cluster.surroundings import Surroundings
from gpuprov.core.errors import HostNotReady, UsageError
from gpuprov.spec.shared_folder import ACCOUNT_UID, own_place

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpuprov.cluster.state import ClusterState
    from gpuprov.drivers.base import Driver
    from gpuprov.machine.base import Host
    from gpuprov.machine.folders import FolderLook
    from gpuprov.spec.shared_folder import ServiceFolder


def describe_kept(host: Host, state: ClusterState, beside: Iterable[ServiceFolder] = ()) -> tuple[str, ...]:
    """Where the results of a cluster are that goes without them, in sentences; none where there are none.

    Args:
        host: The machine.
        state: The cluster.
        beside: What services have recorded.
    """
    way = f"to remove it: gpuprov cluster down {state.name} --purge"
    there = (one for one in beside if host.folders.look(one.source).kind == "folder")
    kept = (f"kept {one.source}, {one.title}; {way}" for one in there)
    return tuple(filter(None, (_describe_share(host, state), *kept)))


def _describe_share(host: Host, state: ClusterState) -> str:
    own = own_place(state.name)
    folder = state.shared_folder or own  # which an earlier cluster of that name may have left
    if host.folders.look(folder).kind != "folder":
        return ""
    way = (
        f"to remove it: gpuprov cluster down {state.name} --purge" if folder == own else "it is not gpuprov's to remove"
    )
    whose = (
        "the folder that the nodes shared" if state.shared_folder else "which an earlier cluster of that name has left"
    )
    return f"kept {folder}, {whose}; {way}"


def find_doomed(
    driver: Driver, host: Host, state: ClusterState, beside: Iterable[ServiceFolder] = ()
) -> tuple[str, ...]:
    """The folders that go with a cluster; none where there are none. Changes nothing.

    Args:
        state: The cluster, which may be gone already.
        beside: What services have recorded.

    Raises:
        UsageError: A folder is not gpuprov's to remove, or somebody else uses it.
        HostNotReady: Only root can remove it.
    """
    folder, shared = own_place(state.name), state.shared_folder
    if shared not in ("", folder):
        raise UsageError(
            f"the folder {shared} is not removed",
            evidence=f"`share` of cluster {state.name} names it, and only folders of gpuprov's own place are removed",
            fix=f"without --purge: gpuprov cluster down {state.name}; then remove what you do not need of it yourself",
        )
    uids = {folder: ACCOUNT_UID, **{one.source: one.uid for one in beside}}
    return tuple(path for path, uid in uids.items() if _is_doomed(driver, host, state, path, uid))


def _is_doomed(driver: Driver, host: Host, state: ClusterState, folder: str, uid: int) -> bool:
    """Whether a folder is there; raises where it is not to be removed."""
    seen = host.folders.look(folder)
    if seen.kind == "absent":
        return False
    _refuse_foreign(seen, folder, {uid, driver.owner_on_host(uid)})
    around = Surroundings(driver, host, state)
    users = [*around.find_sharers(folder), *around.find_copies(folder)]
    users += [f"{engine} may use it, but cannot be queried: {error.what}" for engine, error in around.silent.items()]
    if users:
        fix = f"without --purge, the folder stays: gpuprov cluster down {state.name}"
        raise UsageError(f"the folder {folder} is not removed", evidence="; ".join(users), fix=fix)
    if not seen.can_give:
        what = f"the folder {folder} cannot be removed by this user"
        raise HostNotReady(what, evidence="only root can", fix=f"as root: gpuprov cluster down {state.name} --purge")
    return True


def _refuse_foreign(seen: FolderLook, folder: str, owners: set[int]) -> None:
    """Refuse what gpuprov has not made."""
    why = ""
    if seen.kind != "folder":
        words = {"link": "is a symbolic link", "hidden": "cannot be read by this user"}
        why = f"{seen.at} {words.get(seen.kind, 'is not a folder')}"
    elif seen.mounts:
        why = f"a file system is mounted there: {', '.join(seen.mounts)}"
    elif seen.owner not in owners and not (seen.owner == 0 and seen.empty):
        why = f"it belongs to user {seen.owner} of the host, and not to the account of the nodes"
    if why:
        raise UsageError(f"the folder {folder} is not removed", evidence=why, fix=f"ls -la {folder}")
