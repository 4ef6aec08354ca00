"""A container that was given some of its host's GPUs: the others are still on the PCI bus there, or in the driver."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gpuprov.core.errors import HostNotReady
from gpuprov.gpu.driver_files import read_driver_files
from gpuprov.shapes.base import changed

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from gpuprov.shapes.verify import NodeReport

    Facts = dict[str, Any]

# PROC_PID_INIT_INO of the kernel: the process namespace of the machine itself, and of no container
_MACHINES_OWN: Final = "pid:[4026531836]"
_GPU_NODE = re.compile(r"nvidia(\d+)", re.ASCII)
# Containers get it for graphics only.
_MODESET: Final = "/dev/nvidia-modeset"


@dataclass(frozen=True, kw_only=True)
class Lent:
    """What a container shows of its host's GPUs.

    Attributes:
        listed: Minor of each GPU that the driver lists there, by UUID.
        nodes: Minors of the GPUs that have a device node.
    """

    listed: Mapping[str, int]
    nodes: frozenset[int]


def find_lent(root: Path) -> Lent | None:
    """Return what this container shows; None on a machine itself, where a GPU without a device node is a problem."""
    space = root / "proc/self/ns/pid"
    if not space.is_symlink() or str(space.readlink()) == _MACHINES_OWN:
        return None
    try:
        driver = read_driver_files(root)
    except HostNotReady:
        return None
    listed = {gpu.uuid: gpu.minor for gpu in driver.gpus} if driver else {}
    names = (_GPU_NODE.fullmatch(path.name) for path in (root / "dev").glob("nvidia*"))
    return Lent(listed=listed, nodes=frozenset(int(name[1]) for name in names if name))


def leave_out_withheld(facts: Facts, lent: Lent) -> tuple[Facts, tuple[str, ...]]:
    """Take the GPUs that the container was not given from what was seen there.

    A GPU that the driver lists was not given if it has no device node and NVML does not list it either. One that is on
    the PCI bus only was not given if every device node is that of a GPU that the driver lists; else it is missing.

    Returns:
        The facts, and the PCI addresses of the GPUs that are no longer in them.
    """
    driver = facts["driver"]
    by_nvml = {gpu["uuid"] for gpu in (facts["nvml"] or {}).get("gpus", ())}
    unlisted = {uuid for uuid, minor in lent.listed.items() if minor not in lent.nodes and uuid not in by_nvml}
    if not lent.nodes or unlisted >= lent.listed.keys():
        return facts, ()
    withheld = {pci for uuid, pci in driver["pci"].items() if uuid in unlisted}
    if lent.nodes <= set(lent.listed.values()):
        known = {*driver["pci"].values(), *driver["excluded"]}
        withheld |= {card for card, name in driver["cards"].items() if name == "nvidia" and card not in known}
    paths = {_MODESET, *(f"/dev/nvidia{lent.listed[uuid]}" for uuid in unlisted)}
    given = {
        **driver,
        "gpus": [uuid for uuid in driver["gpus"] if uuid not in unlisted],
        "pci": {uuid: pci for uuid, pci in driver["pci"].items() if uuid not in unlisted},
        "cards": {card: name for card, name in driver["cards"].items() if card not in withheld},
    }
    devices = facts["devices"]
    left = {
        **devices,
        "wrong": [line for line in devices["wrong"] if line.split(" is missing")[0] not in paths],
        "right": ", ".join(one for one in devices["right"].split(", ") if one.split(" ")[0] not in paths),
    }
    return {**facts, "driver": given, "devices": left}, tuple(sorted(withheld))


def tell_withheld(report: NodeReport, withheld: tuple[str, ...]) -> NodeReport:
    """Say in the count of the GPUs which of them this container cannot judge."""
    if not withheld:
        return report
    said = f"this is a container, which was not given the GPUs at {', '.join(withheld)}: nothing is known of them"
    checks = (
        changed(check, status="warn", evidence=f"{check.evidence}; {said}")
        if check.id == "host-gpus" and check.status == "pass"
        else check
        for check in report.checks
    )
    return changed(report, checks=tuple(checks))
