"""The folders of the host that nodes of a cluster have: the one that all share, and those of services."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuprov.cluster.service_folders import ensure_service_folder, look_and_plan_service_folders
from gpuprov.cluster.share import ensure_share, look_and_plan_share
from gpuprov.planes.registry import service_folders

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuprov.cluster.design import NodeDesign
    from gpuprov.cluster.service_folders import ServiceFolderPlan
    from gpuprov.cluster.share import SharePlan
    from gpuprov.cluster.state import ClusterState
    from gpuprov.cluster.surroundings import Surroundings
    from gpuprov.core.rollback import Rollback
    from gpuprov.drivers.base import Driver
    from gpuprov.host.base import Host
    from gpuprov.shapes.cluster_spec import ClusterSpec


@dataclass(frozen=True, kw_only=True)
class FoldersPlan:
    """What has to be done for them."""

    share: SharePlan
    kept: tuple[ServiceFolderPlan, ...]

    def lines(self) -> tuple[str, ...]:
        """One line for each folder for which there is something to do."""
        return (*self.share.lines(), *filter(None, (folder.line for folder in self.kept)))

    def ensure(self, host: Host, rollback: Rollback) -> tuple[str, ...]:
        """Do it, and return a line for each; what was made is removed again on failure."""
        shared = ensure_share(host, self.share, rollback)
        kept = [ensure_service_folder(host, folder, rollback) for folder in self.kept]
        return (*shared, *filter(None, kept))


def look_and_plan_folders(
    driver: Driver,
    host: Host,
    spec: ClusterSpec,
    state: ClusterState,
    designs: Sequence[NodeDesign],
    around: Surroundings,
) -> FoldersPlan:
    """Look at the folders that a spec asks for; changes nothing.

    Arguments and errors are those of `look_and_plan_share`.
    """
    share = look_and_plan_share(driver, host, spec, state, designs, around)
    names = {design.name for design in designs}
    here = [folder for folder in service_folders(spec) if names.intersection(folder.nodes)]
    return FoldersPlan(share=share, kept=look_and_plan_service_folders(driver, host, spec, state, here))
