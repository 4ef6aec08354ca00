"""What the kernel and the services of this machine logged: the only reader of the kernel's log and the journal."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from gpuprov.core.errors import GpuprovError, HostNotReady
from gpuprov.core.execution import run
from gpuprov.gpu.kernel_log import KernelLog, parse_log
from gpuprov.gpu.xids import standing_xids

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from gpuprov.core.execution import Completed

_WANTED: Final = (
    "NVRM: (Xid|loading NVIDIA|The NVIDIA GPU|.PCI ID:|installed in|.*fallen off the bus|responding to"
    "|.*RmInitAdapter failed)|nvidia-nvswitch.*SXid|Initialized nvidia-drm"
)
_JOURNAL: Final = ("journalctl", "--dmesg", "--no-pager", "--output=short-monotonic", f"--grep={_WANTED}")
_EARLIER_BOOTS: Final = (-1, -2)
_JOURNAL_TIMEOUT_S: Final = 10.0
_NOTHING_FOUND: Final = 1
_MOST_RECORDS: Final = 1_000_000
_RECORD_BYTES: Final = 8192
_RECORD: Final = re.compile(r"\d+,\d+,(\d+),[^;]*;(.*)")
_UNITS_LINES: Final = 2000
_UNITS_TIMEOUT_S: Final = 20.0


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


def read_kernel_lines(root: Path) -> str:
    """All that the kernel still holds of its log, a line for each record: `[   12.345678] what it says`.

    Raises:
        HostNotReady: It cannot be read.
    """
    try:
        return format_records(_read_records(root / "dev/kmsg"))
    except OSError as error:
        raise HostNotReady(
            "the kernel's log cannot be read", evidence=f"/dev/kmsg: {error.strerror}", fix="sudo dmesg | tail"
        ) from error


def format_records(text: str) -> str:
    """The records of /dev/kmsg as dmesg prints them; the lines after a record, which name its device, stay out."""
    found = [match for line in text.splitlines() if (match := _RECORD.fullmatch(line))]
    return "".join(f"[{int(match[1]) / 1e6:12.6f}] {match[2]}\n" for match in found)


def read_unit_journal(units: Iterable[str]) -> str:
    """The newest lines of the journal of some units.

    Raises:
        GpuprovError: journalctl is missing, fails or does not respond.
    """
    named = [f"--unit={unit}" for unit in units]
    argv = ["journalctl", "--no-pager", f"--lines={_UNITS_LINES}", *named]
    return run(argv, timeout_s=_UNITS_TIMEOUT_S).stdout
