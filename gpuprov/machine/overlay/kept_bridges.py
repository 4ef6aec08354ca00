"""Bridges of private networks that an engine needs before it starts, kept as commands of `ip` over a reboot.

dockerd does not load a macvlan network whose parent is missing, and starts no container on it. The parent of a private
network over hosts is a bridge of gpuprov's own. After a boot it has to be there before dockerd is: `ip -batch` reads
these files then, without gpuprov (roles/host, docker_bridges.yml).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from gpuprov.core.errors import HostNotReady
from gpuprov.core.names import check_cluster_name
from gpuprov.machine.overlay.plan import plan_bridge

if TYPE_CHECKING:
    from gpuprov.machine.overlay.plan import OverlayRequest

BRIDGES: Final = Path("/var/lib/gpuprov/bridges")


class KeptBridges:
    """This host's files, one for each cluster that has such a bridge.

    Args:
        folder: Where they are.
    """

    def __init__(self, folder: Path = BRIDGES) -> None:
        self._folder = folder

    def path(self, cluster: str) -> Path:
        """The file of a cluster."""
        return self._folder / f"{check_cluster_name(cluster)}.ip"

    def keep(self, request: OverlayRequest) -> None:
        """Write the commands that make the bridge; remove them where the engine makes its own.

        Raises:
            HostNotReady: They cannot be written.
        """
        path = self.path(request.cluster)
        if request.bridge:
            path.unlink(missing_ok=True)
            return
        text = "".join(f"{' '.join(one.argv[1:])}\n" for one in plan_bridge(request, None))
        try:
            if path.is_file() and path.read_text(encoding="ascii") == text:
                return
            path.parent.mkdir(parents=True, exist_ok=True)
            made = path.with_suffix(".new")
            made.write_text(text, encoding="ascii")
            made.rename(path)
        except OSError as error:
            raise HostNotReady(
                f"bridge {request.parent} of cluster {request.cluster} cannot be kept for the next boot",
                evidence=str(error),
                fix=f"sudo ls -l {self._folder}",
            ) from error

    def forget(self, cluster: str) -> None:
        """Remove a cluster's file if there is one."""
        self.path(cluster).unlink(missing_ok=True)
