"""What only some engines can do: a driver says which, and who needs one of them asks for it by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from gpuprov.core.errors import EngineError

if TYPE_CHECKING:
    from gpuprov.drivers.base import Driver

Capability = Literal["snapshot", "privileged", "expose-live", "devices-live", "systemd", "jobs", "private-bridge"]

_LACKS: dict[Capability, tuple[str, str]] = {
    "snapshot": ("does not support snapshots", "copy the node: gpuprov clone NODE NEW"),
    "privileged": (
        "does not support privileged nodes",
        "remove `privileged: true` and --privileged, or use --engine lxd",
    ),
    "expose-live": (
        "cannot forward a port to a running node",
        "stop the node first: gpuprov stop NODE; then expose the port and start it again",
    ),
    "devices-live": ("cannot change the devices of a running node", "stop the node first: gpuprov stop NODE"),
    "systemd": ("does not run systemd in nodes", "use --engine lxd"),
    "private-bridge": ("has no bridge of the host for the private network", "use --engine lxd"),
    "jobs": ("does not support jobs", "use --engine docker, or: gpuprov exec NODE -- COMMAND"),
}


class NotCapable(EngineError):
    """The engine's driver does not have the required capability."""


def require_capability(driver: Driver, capability: Capability, *, fix: str = "") -> None:
    """Raise NotCapable if the driver lacks it; the fix is the given workaround or the general one."""
    if capability not in driver.capabilities:
        lack, way_round = _LACKS[capability]
        has = ", ".join(sorted(driver.capabilities)) or "none"
        raise NotCapable(f"{driver.name} {lack}", evidence=f"supported: {has}", fix=fix or way_round)
