"""Folders of the host in which services of nodes keep what they know: made with the cluster, and gone with it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, Literal

from gpuprov.cluster.share import judge_folder
from gpuprov.cluster.share_look import SHARING_HOSTS
from gpuprov.core.errors import UsageError
from gpuprov.spec.shared_folder import PLACE

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from gpuprov.cluster.state import ClusterState
    from gpuprov.core.rollback import Rollback
    from gpuprov.drivers.base import Driver
    from gpuprov.host.base import Host
    from gpuprov.shapes.cluster_spec import ClusterSpec
    from gpuprov.spec.shared_folder import ServiceFolder

_MODE: Final = 0o700


@dataclass(frozen=True, kw_only=True)
class ServiceFolderPlan:
    """A folder, and what has to be done for it.

    Attributes:
        owner: The user of the host to whom it has to belong.
        act: `make` it, or `take` an empty one of root; nothing where it is as it has to be.
    """

    folder: ServiceFolder
    owner: int
    act: Literal["make", "take", ""] = ""

    @property
    def line(self) -> str:
        """One line if there is something to do; else empty."""
        words = {"make": "create folder {} for {}", "take": "use the empty folder {} for {}"}
        return words[self.act].format(self.folder.source, self.folder.title) if self.act else ""


def look_and_plan_service_folders(
    driver: Driver, host: Host, spec: ClusterSpec, state: ClusterState, folders: Sequence[ServiceFolder]
) -> tuple[ServiceFolderPlan, ...]:
    """Look at the folders that services of a cluster need here; changes nothing.

    Args:
        driver: The engine.
        host: The machine.
        spec: What is asked for.
        state: The cluster as it is.
        folders: Those of the spec.

    Raises:
        UsageError: One cannot be used, or a service of an earlier cluster has left something in it.
        HostNotReady: Only root can make it.
        EngineError: The engine does not tell to whom it has to belong.
    """
    return tuple(_look_and_plan(driver, host, spec, state, folder) for folder in folders)


def _look_and_plan(
    driver: Driver, host: Host, spec: ClusterSpec, state: ClusterState, folder: ServiceFolder
) -> ServiceFolderPlan:
    owner = folder.uid if spec.nodes.privileged else driver.owner_on_host(folder.uid)
    seen = host.folders.look(folder.source)
    if seen.kind == "hidden" and any(node.complete for node in state.nodes):  # from who is not root
        return ServiceFolderPlan(folder=folder, owner=owner)
    what = f"the folder {folder.source} cannot be used for {folder.title}"
    if seen.kind == "absent" and spec.hosts:
        fix = f"{SHARING_HOSTS}; then run the same command again"
        raise UsageError(what, evidence=f"{seen.at} does not exist on {host.name}", fix=fix)
    act = judge_folder(seen, folder.source, owner, account=folder.account)
    if not act and not seen.empty and not state.nodes and not spec.hosts:
        raise UsageError(
            what,
            evidence=f"there is no cluster {spec.name} yet, and an earlier one has left its own there",
            fix=f"remove it: sudo rm -r {folder.source}; then run the same command again",
        )
    return ServiceFolderPlan(folder=folder, owner=owner, act=act)


def ensure_service_folder(host: Host, plan: ServiceFolderPlan, rollback: Rollback) -> str:
    """Do what was planned, and return a line for it, empty for none.

    A folder that was made is removed again on failure, with what a service has put there.
    """
    if plan.act == "make":
        rollback.add(f"the folder {plan.folder.source}", partial(remove_service_folder, host, plan.folder, plan.owner))
    if plan.act:
        host.folders.make(plan.folder.source, owner=plan.owner, mode=_MODE)
    return plan.line


def remove_service_folder(host: Host, folder: ServiceFolder, owner: int) -> str:
    """Remove what a service has left, and the folder if gpuprov made it; returns a line, or nothing if there is none.

    Raises:
        GpuprovError: It cannot be.
    """
    seen = host.folders.look(folder.source)
    if seen.kind != "folder" or seen.owner != owner:
        return ""
    if folder.source.startswith(f"{PLACE}/"):
        host.folders.set_aside(folder.source)
        host.folders.clear(folder.source)
        return f"removed the folder {folder.source}"
    host.folders.empty(folder.source, owner=owner)
    return f"removed {folder.title} from {folder.source}"


def remove_service_folders(
    driver: Driver, host: Host, spec: ClusterSpec, names: Collection[str], folders: Sequence[ServiceFolder]
) -> tuple[str, ...]:
    """Remove what goes with the nodes of a cluster here, which are gone; returns a line for each folder.

    Args:
        driver: The engine.
        host: The machine.
        spec: Of the cluster.
        names: The nodes that it had here.
        folders: Those of the spec.

    Raises:
        GpuprovError: One cannot be removed.
    """
    going = [folder for folder in folders if not spec.hosts or not {*folder.nodes}.isdisjoint(names)]
    owners = [folder.uid if spec.nodes.privileged else driver.owner_on_host(folder.uid) for folder in going]
    lines = (remove_service_folder(host, folder, owner) for folder, owner in zip(going, owners, strict=True))
    return tuple(filter(None, lines))
