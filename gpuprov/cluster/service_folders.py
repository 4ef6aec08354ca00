"""The folders of the host that nodes have: the one that all share, and those in which services keep what they know."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, Literal

from gpuprov.cluster.share import ensure_share, judge_folder, look_and_plan_share
from gpuprov.cluster.share_look import SHARING_HOSTS
from gpuprov.core.errors import UsageError
from gpuprov.spec.shared_folder import PLACE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from gpuprov.cluster.design import NodeDesign
    from gpuprov.cluster.observed import Observed
    from gpuprov.cluster.share import SharePlan
    from gpuprov.core.rollback import Rollback
    from gpuprov.drivers.base import Driver
    from gpuprov.machine.base import Host
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


@dataclass(frozen=True, kw_only=True)
class FoldersPlan:
    """What has to be done for the folders of the host that nodes have.

    Attributes:
        share: The one that all share.
        kept: Those of services.
    """

    share: SharePlan
    kept: tuple[ServiceFolderPlan, ...]

    def lines(self) -> tuple[str, ...]:
        """One line for each folder for which there is something to do."""
        return (*self.share.lines(), *filter(None, (folder.line for folder in self.kept)))

    def ensure(self, host: Host, rollback: Rollback) -> None:
        """Do it; what was made is removed again on failure."""
        ensure_share(host, self.share, rollback)
        for folder in self.kept:
            _ensure(host, folder, rollback)


def look_and_plan_folders(
    observed: Observed, spec: ClusterSpec, designs: Sequence[NodeDesign], folders: Iterable[ServiceFolder]
) -> FoldersPlan:
    """Look at the folders that a spec asks for; changes nothing.

    Args:
        observed: The cluster as it is, and what is around it.
        spec: What is asked for.
        designs: The nodes as they are to be.
        folders: Those of services, of all hosts.

    Raises:
        UsageError: One cannot be used, it is another cluster's, or an earlier cluster has left something in it.
        HostNotReady: Only root can make it.
        EngineError: The engine does not report the account that has to own it.
    """
    names = {design.name for design in designs}
    share = look_and_plan_share(observed, spec, designs)
    here = [folder for folder in folders if names.intersection(folder.nodes)]
    return FoldersPlan(share=share, kept=tuple(_look_and_plan(observed, spec, folder) for folder in here))


def _look_and_plan(observed: Observed, spec: ClusterSpec, folder: ServiceFolder) -> ServiceFolderPlan:
    host, state = observed.host, observed.state
    owner = folder.uid if spec.nodes.privileged else observed.driver.owner_on_host(folder.uid)
    seen = host.folders.look(folder.source)
    if seen.kind == "hidden" and any(node.complete for node in state.nodes):  # from who is not root
        return ServiceFolderPlan(folder=folder, owner=owner)
    what = f"the folder {folder.source} cannot be used for {folder.title}"
    if seen.kind == "absent" and spec.hosts and not folder.outlives:
        fix = f"{SHARING_HOSTS}; then run the same command again"
        raise UsageError(what, evidence=f"{seen.at} does not exist on {host.name}", fix=fix)
    act = judge_folder(seen, folder.source, owner, account=folder.account)
    if not act and not seen.empty and not (state.nodes or spec.hosts or folder.outlives):
        raise UsageError(
            what,
            evidence=f"there is no cluster {spec.name} yet, and an earlier one has left its own there",
            fix=f"remove it: sudo rm -r {folder.source}; then run the same command again",
        )
    return ServiceFolderPlan(folder=folder, owner=owner, act=act)


def _ensure(host: Host, plan: ServiceFolderPlan, rollback: Rollback) -> None:
    """Do what was planned; a folder that was made is removed again on failure, with what a service has put there."""
    if plan.act == "make":
        rollback.add(f"the folder {plan.folder.source}", partial(remove_service_folder, host, plan.folder, plan.owner))
    if plan.act:
        host.folders.make(plan.folder.source, owner=plan.owner, mode=_MODE)


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

    Folders that outlive their cluster stay.

    Args:
        driver: The engine.
        host: The machine.
        spec: Of the cluster.
        names: The nodes that it had here.
        folders: Those of the spec.

    Raises:
        GpuprovError: One cannot be removed.
    """
    going = [
        folder
        for folder in folders
        if not folder.outlives and (not spec.hosts or not {*folder.nodes}.isdisjoint(names))
    ]
    owners = [folder.uid if spec.nodes.privileged else driver.owner_on_host(folder.uid) for folder in going]
    lines = (remove_service_folder(host, folder, owner) for folder, owner in zip(going, owners, strict=True))
    return tuple(filter(None, lines))
