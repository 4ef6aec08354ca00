"""What the NVIDIA driver reported in the kernel's log since the machine was booted."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from gpuprov.core.errors import GpuprovError
from gpuprov.core.execution import run
from gpuprov.gpu.xids import Xid, standing_xids

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from gpuprov.core.execution import Completed

# Of a part of a GPU (MIG) with the numbers of its instances: (PCI:0000:01:00 GPU-I:01 GPU-CI:02)
_XID = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]+)[^)]*\): (\d+).*")
_LOADED = re.compile(r"NVRM: loading NVIDIA .*Kernel Module.*")
_LOST = re.compile(r"NVRM: .*(?:GPU has fallen off the bus|RmInitAdapter failed).*")
_SWITCH = re.compile(r"nvidia-nvswitch\d+: SXid \([^)]*\): \d+, Fatal.*")
_KMSG_TIME = re.compile(r"^\d+,\d+,(\d+),")  # microseconds
_JOURNAL_TIME = re.compile(r"^\[ *(\d+\.\d+)\]")
_WANTED: Final = "NVRM: (Xid|loading NVIDIA|.*fallen off the bus|.*RmInitAdapter failed)|nvidia-nvswitch.*SXid"
_JOURNAL: Final = ("journalctl", "--dmesg", "--no-pager", "--output=short-monotonic", f"--grep={_WANTED}")
_EARLIER_BOOTS: Final = (-1, -2)
_JOURNAL_TIMEOUT_S: Final = 10.0
_NOTHING_FOUND: Final = 1
_MOST_RECORDS: Final = 1_000_000
_RECORD_BYTES: Final = 8192
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


def read_kernel_log(root: Path, *, execute: Callable[..., Completed] = run) -> KernelLog:
    """Read the kernel's log of this boot: the journal where it has it, else what the kernel still holds.

    The kernel's own buffer is small, and forgets the oldest lines first.

    Args:
        root: Where /dev is looked up; the journal is asked on the machine itself only.
        execute: Runs journalctl.
    """
    journal, problem = _ask_journal(execute, 0) if str(root) == "/" else (None, "")
    if journal:
        log = parse_log(journal, source="the journal")
        return replace(log, returned=_find_returned(log, execute))
    try:
        return parse_log(_read_records(root / "dev/kmsg"), source="/dev/kmsg")
    except OSError as error:
        if journal is not None:  # it could be read, and has nothing
            return KernelLog(source="the journal")
        return KernelLog(problem=f"/dev/kmsg: {error.strerror}{problem}")


def _find_returned(log: KernelLog, execute: Callable[..., Completed]) -> tuple[tuple[int, str], ...]:
    """The Xids that reboots did not cure; earlier boots are looked at only where an Xid asks for one now."""
    standing = standing_xids(log.xids, loaded_s=log.loaded_s)
    found = {(one.xid.number, one.xid.pci) for one in standing if one.action in ("reset-gpu", "restart-host")}
    for boot in _EARLIER_BOOTS:
        if found:
            before = parse_log(_ask_journal(execute, boot)[0] or "")
            found &= {(xid.number, xid.pci) for xid in before.xids}
    return tuple(sorted(found))


def _ask_journal(execute: Callable[..., Completed], boot: int) -> tuple[str | None, str]:
    """The journal's lines of this boot (0) or one before (-1), or None and why there are none to be had."""
    try:
        answer = execute([*_JOURNAL, f"--boot={boot}"], timeout_s=_JOURNAL_TIMEOUT_S, check=False)
    except GpuprovError as error:
        return None, f"; journal: {error.evidence or error.what}"
    # With nothing found it exits with 1; without a journal, or the right to look at it, it says so on stderr.
    said = answer.stderr.strip()
    if said or answer.exit_code not in (0, _NOTHING_FOUND):
        return None, f"; journalctl: {said or answer.exit_code}"
    return (answer.stdout if answer.exit_code == 0 else ""), ""


def _read_records(device: Path) -> str:
    """Every record that the kernel still holds; a read gives one, and none that is new is waited for."""
    handle = os.open(device, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    records: list[bytes] = []
    try:
        for _ in range(_MOST_RECORDS):
            try:
                record = os.read(handle, _RECORD_BYTES)
            except BrokenPipeError:  # the oldest ones were overwritten meanwhile; the next read goes on behind them
                continue
            except BlockingIOError:
                break
            if not record:
                break
            records.append(record)
    finally:
        os.close(handle)
    return b"".join(records).decode(errors="replace")
