"""What the NVIDIA driver reported in the kernel's log since the machine was booted. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from gpuprov.gpu.xids import Xid

# Of a part of a GPU (MIG) with the numbers of its instances: (PCI:0000:01:00 GPU-I:01 GPU-CI:02)
_XID = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]+)[^)]*\): (\d+).*")
_LOADED = re.compile(r"NVRM: loading NVIDIA .*Kernel Module.*")
_LOST = re.compile(r"NVRM: .*(?:GPU has fallen off the bus|RmInitAdapter failed).*")
_SWITCH = re.compile(r"nvidia-nvswitch\d+: SXid \([^)]*\): \d+, Fatal.*")
_KMSG_TIME = re.compile(r"^\d+,\d+,(\d+),")  # microseconds
_JOURNAL_TIME = re.compile(r"^\[ *(\d+\.\d+)\]")
_TEXT_MOST: Final = 200


@dataclass(frozen=True, kw_only=True)
class KernelLog:
    """What the log says of GPUs.

    Attributes:
        xids: In the order in which they were reported.
        switches: Lines of NVSwitches that reported a fatal error (SXid).
        lost: Lines that say that a GPU has left the bus, or could not be started.
        loaded_s: When the driver was loaded last, in seconds since boot; None where the log does not say.
        returned: Number and GPU of those that ask for a reset or a reboot, and were reported in each of the two boots
            before this one as well.
        source: What was read.
        problem: Why nothing could be read; empty where something could.
    """

    xids: tuple[Xid, ...] = ()
    switches: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    loaded_s: float | None = None
    returned: tuple[tuple[int, str], ...] = ()
    source: str = ""
    problem: str = ""


def parse_log(text: str, *, source: str = "") -> KernelLog:
    """What lines of dmesg, the journal or /dev/kmsg say; what came before the driver's last start is left to Xids."""
    xids: list[Xid] = []
    switches: list[str] = []
    lost: list[str] = []
    loaded_s = None
    for line in text.splitlines():
        seconds = _seconds(line)
        if found := _XID.search(line):
            xids.append(
                Xid(number=int(found[2]), pci=found[1].lower(), text=found[0].strip()[:_TEXT_MOST], seconds=seconds)
            )
        elif _LOADED.search(line):
            loaded_s = seconds
            switches, lost = [], []
        elif found := _SWITCH.search(line):
            switches.append(found[0].strip()[:_TEXT_MOST])
        elif found := _LOST.search(line):
            lost.append(found[0].strip()[:_TEXT_MOST])
    return KernelLog(xids=tuple(xids), switches=tuple(switches), lost=tuple(lost), loaded_s=loaded_s, source=source)


def _seconds(line: str) -> float | None:
    """Since boot; None where the line does not begin with it."""
    if found := _KMSG_TIME.match(line):
        return int(found[1]) / 1e6
    found = _JOURNAL_TIME.match(line)
    return float(found[1]) if found else None
