"""What the NVIDIA driver reported in the kernel's log: Xid errors, since the machine was booted."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gpuprov.core.errors import GpuprovError
from gpuprov.core.execution import run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from gpuprov.core.execution import Completed

# The program's own doing: an exception in a kernel, a bad address, a kernel that was stopped
PROGRAMS_XIDS: Final = (13, 31, 43)
_XID = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]+)\): (\d+)(.*)")
_JOURNAL: Final = ("journalctl", "--dmesg", "--boot", "--no-pager", "--output=short-monotonic", "--grep=NVRM: Xid")
_JOURNAL_TIMEOUT_S: Final = 10.0
_MOST_RECORDS: Final = 1_000_000
_RECORD_BYTES: Final = 8192
_TEXT_MOST: Final = 200


@dataclass(frozen=True, kw_only=True)
class Xid:
    """One error that the driver reported; `pci` as the driver writes it, `text` without the time."""

    number: int
    pci: str
    text: str


@dataclass(frozen=True, kw_only=True)
class KernelLog:
    """The Xids in the log; `problem` says why the log could not be read, and is empty where it could."""

    xids: tuple[Xid, ...] = ()
    source: str = ""
    problem: str = ""


def parse_xids(text: str) -> tuple[Xid, ...]:
    """Xids in lines of dmesg, the journal or /dev/kmsg."""
    return tuple(
        Xid(number=int(found[2]), pci=found[1].lower(), text=found[0].strip()[:_TEXT_MOST])
        for found in _XID.finditer(text)
    )


def read_kernel_log(root: Path, *, execute: Callable[..., Completed] = run) -> KernelLog:
    """Read the kernel's log of this boot: /dev/kmsg, else the journal, which a user may be allowed to read.

    Args:
        root: Where /dev is looked up; the journal is asked on the machine itself only.
        execute: Runs journalctl.
    """
    device = root / "dev/kmsg"
    try:
        return KernelLog(xids=parse_xids(_read_records(device)), source="/dev/kmsg")
    except OSError as error:
        problem = f"/dev/kmsg: {error.strerror}"
    if str(root) != "/":
        return KernelLog(problem=problem)
    try:
        answer = execute(_JOURNAL, timeout_s=_JOURNAL_TIMEOUT_S, check=False)
    except GpuprovError as error:
        return KernelLog(problem=f"{problem}; journal: {error.evidence or error.what}")
    # With nothing found it exits with 1 and says so; without the right to look it says that on stderr.
    said = answer.stderr.strip()
    if said or answer.exit_code not in (0, 1):
        return KernelLog(problem=f"{problem}; journalctl: {said or answer.exit_code}")
    return KernelLog(xids=parse_xids(answer.stdout), source="journal")


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
