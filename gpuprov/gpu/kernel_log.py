"""What the NVIDIA driver reported in the kernel's log since the machine was booted. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gpuprov.gpu.xids import Xid

if TYPE_CHECKING:
    from collections.abc import Iterator

# Of a part of a GPU (MIG) with the numbers of its instances: (PCI:0000:01:00 GPU-I:01 GPU-CI:02)
_XID = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]+)[^)]*\): (\d+).*")
_LOADED = re.compile(r"NVRM: loading NVIDIA .*Kernel Module.*")
_LOST = re.compile(r"NVRM: .*(?:GPU has fallen off the bus|RmInitAdapter failed).*")
# A GPU that does not answer when the driver is loaded is told over two or three lines, before that of the load itself
_PROBED = re.compile(r"NVRM: The NVIDIA GPU (?P<pci>[0-9a-fA-F:.]+).*")
_MESSAGE = re.compile(r"NVRM: (?P<words>.*)")
_OFF = re.compile(r"fallen off the bus")
_STARTED = re.compile(r"Initialized nvidia-drm \S+ .*for (?P<pci>[0-9a-fA-F:.]+)")
_SPREAD_MOST: Final = 4
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
    """What lines of dmesg, the journal or /dev/kmsg say; what came before the driver's last start is left to Xids.

    A GPU that did not answer while the driver was loaded is lost until it is loaded again without such a message, or
    that GPU is started.
    """
    xids: list[Xid] = []
    switches: list[str] = []
    lost: list[str] = []
    unprobed: list[str] = []  # of the load that has not been told yet
    loaded_s = None
    for line in _join_messages(text):
        seconds = _seconds(line)
        if found := _XID.search(line):
            xids.append(
                Xid(number=int(found[2]), pci=found[1].lower(), text=found[0].strip()[:_TEXT_MOST], seconds=seconds)
            )
        elif _LOADED.search(line):
            loaded_s = seconds
            switches, lost, unprobed = [], unprobed, []
        elif found := _SWITCH.search(line):
            switches.append(found[0].strip()[:_TEXT_MOST])
        elif found := _STARTED.search(line):
            lost = [one for one in lost if not _is_of(found["pci"], one)]
            unprobed = [one for one in unprobed if not _is_of(found["pci"], one)]
        elif (found := _MESSAGE.search(line)) and _OFF.search(line) and not _LOST.search(line):
            unprobed.append(found[0].strip()[:_TEXT_MOST])
        elif found := _LOST.search(line):
            lost.append(found[0].strip()[:_TEXT_MOST])
    lost += unprobed
    return KernelLog(xids=tuple(xids), switches=tuple(switches), lost=tuple(lost), loaded_s=loaded_s, source=source)


def _join_messages(text: str) -> Iterator[str]:
    """The lines, where those that the driver spreads its message of a lost GPU over are one; others may lie between."""
    lines = text.replace("\\x0a", "\n").splitlines()  # as /dev/kmsg writes a new line
    taken: set[int] = set()
    for number, line in enumerate(lines):
        if number in taken:
            continue
        found = _PROBED.search(line)
        if found is None or _OFF.search(line):
            yield line
            continue
        message, parts = line.rstrip(), []
        for later, other in enumerate(lines[number + 1 : number + 1 + _SPREAD_MOST], number + 1):
            more = _MESSAGE.search(other)
            if more is None or _PROBED.search(other) or _LOADED.search(other) or _XID.search(other):
                continue
            message += f" {more['words'].strip()}"
            parts.append(later)
            if _OFF.search(message) and more["words"].rstrip().endswith("."):
                break
        if _OFF.search(message):
            taken |= set(parts)
            yield message
        else:
            yield line


def _is_of(pci: str, line: str) -> bool:
    """Whether a line names this GPU; some leave the function out."""
    return pci.lower().partition(".")[0] in line.lower()


def _seconds(line: str) -> float | None:
    """Since boot; None where the line does not begin with it."""
    if found := _KMSG_TIME.match(line):
        return int(found[1]) / 1e6
    found = _JOURNAL_TIME.match(line)
    return float(found[1]) if found else None
