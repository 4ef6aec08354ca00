"""One host's end of the encrypted links between hosts: its key, and its device, seen with `wg` and `ip`.

The private key never leaves the host: it is a file that root alone reads, made here and given to `wg` by its path.
"""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gpuprov.core.errors import HostNotReady
from gpuprov.core.execution import CommandMissing, run
from gpuprov.core.names import check_cluster_name
from gpuprov.machine.links import find_links
from gpuprov.machine.overlay.tunnel_guard import guard_table, plan_guard
from gpuprov.machine.overlay.tunnel_plan import (
    TOLD,
    TunnelMeans,
    check_key,
    find_tunnels,
    is_tunnel,
    parse_tunnel,
    plan_tunnel,
    refuse_taken_range,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.machine.overlay.links import OverlayLink, Step
    from gpuprov.machine.overlay.tunnel_plan import SeenTunnel, TunnelRequest

KEYS: Final = Path("/var/lib/gpuprov/wireguard")
LOADED: Final = Path("/sys/module/wireguard")
_FOLDER_MODE, _FILE_MODE = 0o700, 0o600
_BUDGET_S: Final = 10.0


class TunnelKeys:
    """This host's private keys, one for each cluster.

    Args:
        folder: Where they are.
    """

    def __init__(self, folder: Path = KEYS) -> None:
        self._folder = folder

    def path(self, cluster: str) -> Path:
        """The file of a cluster's private key."""
        return self._folder / f"{check_cluster_name(cluster)}.key"

    def find(self, cluster: str) -> str:
        """The public key of this host; empty where it has none, or no `wg`."""
        path = self.path(cluster)
        if not path.is_file() or shutil.which("wg") is None:
            return ""
        said = run(["wg", "pubkey"], stdin=path.read_text(encoding="ascii"), timeout_s=_BUDGET_S).stdout.strip()
        return check_key(said, source=str(path))

    def ensure(self, cluster: str) -> str:
        """The same; a key is made if there is none.

        Raises:
            HostNotReady: This host has no WireGuard, or the key cannot be read or written.
        """
        get_means(self.path(cluster))
        try:
            return self.find(cluster) or self._make(cluster)
        except OSError as error:
            raise HostNotReady(
                f"the key of the encrypted overlay of cluster {cluster} cannot be kept on this host",
                evidence=str(error),
                fix=f"sudo ls -l {self._folder}",
            ) from error

    def has(self, cluster: str) -> bool:
        """Whether there is one: the overlay is encrypted, or once was."""
        return self.path(cluster).exists()

    def remove(self, cluster: str) -> None:
        """Remove a cluster's key if there is one."""
        self.path(cluster).unlink(missing_ok=True)

    def _make(self, cluster: str) -> str:
        """Written beside its place, so that a run that is killed leaves no half of a key."""
        path = self.path(cluster)
        path.parent.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
        path.parent.chmod(_FOLDER_MODE)
        made = path.with_suffix(".new")
        made.unlink(missing_ok=True)
        made.touch(mode=_FILE_MODE, exist_ok=False)
        made.write_text(run(["wg", "genkey"], timeout_s=_BUDGET_S).stdout, encoding="ascii")
        made.rename(path)
        return self.find(cluster)


def get_means(key_file: Path) -> TunnelMeans:
    """What this host makes such links with.

    Raises:
        HostNotReady: It lacks `wg` or `nft`, or has neither a kernel with WireGuard nor wireguard-go.
    """
    for program, package in (("wg", "wireguard-tools"), ("nft", "nftables")):
        if shutil.which(program) is None:
            raise HostNotReady(
                "this host cannot encrypt the overlay",
                evidence=f"there is no command {program}",
                fix=f"sudo apt-get install --no-install-recommends {package}  # on this host",
            )
    in_kernel = _kernel_has_wireguard()
    if not in_kernel and shutil.which("wireguard-go") is None:
        raise HostNotReady(
            "this host cannot encrypt the overlay",
            evidence="its kernel has no module wireguard, and there is no command wireguard-go",
            fix="sudo apt-get install --no-install-recommends wireguard-go  # on this host",
        )
    return TunnelMeans(in_kernel=in_kernel, key_file=key_file)


def preview_tunnel(request: TunnelRequest, links: Mapping[str, OverlayLink], keys: TunnelKeys) -> tuple[Step, ...]:
    """What this host's end lacks, in commands; changes nothing.

    Raises:
        GpuprovError: A name or the addresses are taken, or the host has no WireGuard.
    """
    means = get_means(keys.path(request.cluster))
    own = [request.device, *(link.name for link in find_tunnels(request.cluster, links))]
    refuse_taken_range(request, find_links() or (), own=own)
    seen = _look(request.device) if is_tunnel(links.get(request.device)) else None
    steps = plan_tunnel(request, links, seen, means, now=time.time())
    shown = show_guard(request.cluster)
    guard = plan_guard(request.cluster, request.device, vni=request.vni, port=request.vxlan_port, shown=shown)
    return (*steps, *guard)


def show_guard(cluster: str) -> str:
    """What nft says of the packet filter of a cluster's overlay; empty where there is none."""
    argv = ["nft", "-j", "list", "table", "inet", guard_table(cluster)]
    try:
        done = run(argv, timeout_s=_BUDGET_S, check=False)
    except CommandMissing:
        return ""
    return "" if done.exit_code else done.stdout


def refuse_other_key(request: TunnelRequest, keys: TunnelKeys) -> None:
    """Refuse to act where the key that the other hosts were told is not this host's.

    Raises:
        HostNotReady: It has been changed meanwhile.
    """
    found = keys.find(request.cluster)
    if not request.key or found != request.key:
        raise HostNotReady(
            f"the key of the encrypted overlay of cluster {request.cluster} differs from the one on other hosts",
            evidence=f"the public key here is {found or 'none'}, they agreed on {request.key or 'none'}",
            fix="run the same command again",
        )


def _look(device: str) -> SeenTunnel | None:
    """A device as it is; None where it does not answer. What is asked for has no private key in it."""
    said = {}
    for what in TOLD:
        done = run(["wg", "show", device, what], timeout_s=_BUDGET_S, check=False)
        if done.exit_code:
            return None
        said[what] = done.stdout
    shown = json.loads(run(["ip", "-j", "-4", "address", "show", "dev", device], timeout_s=_BUDGET_S).stdout or "[]")
    held = [f"{info['local']}/{info['prefixlen']}" for link in shown for info in link.get("addr_info", [])]
    return parse_tunnel(said, held)


def _kernel_has_wireguard() -> bool:
    if LOADED.exists():
        return True
    if shutil.which("modprobe") is None:
        return False
    return run(["modprobe", "-n", "-q", "wireguard"], timeout_s=_BUDGET_S, check=False).exit_code == 0
