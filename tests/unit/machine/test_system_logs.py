"""The kernel's log: from /dev/kmsg, from the journal, or why there is none; the journal of services."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.core.errors import HostNotReady
from gpuprov.core.execution import CommandMissing, Completed
from gpuprov.gpu.xids import Xid
from gpuprov.machine.system_logs import format_records, read_kernel_lines, read_kernel_log

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuprov.gpu.kernel_log import KernelLog

LOST = "NVRM: Xid (PCI:0000:65:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
KMSG = f"6,1200,5000000,-;eth0: link up\n4,1201,5000001,-;{LOST}\n SUBSYSTEM=pci\n"


def write(root: Path, text: str) -> Path:
    (root / "dev").mkdir()
    (root / "dev/kmsg").write_text(text)
    return root


def test_kmsg_under_a_root(tmp_path: Path) -> None:
    log = read_kernel_log(write(tmp_path, KMSG))
    assert log.xids == (Xid(number=79, pci="0000:65:00", text=LOST, seconds=5.000001),)
    assert (log.source, log.problem) == ("/dev/kmsg", "")


def test_a_quiet_log(tmp_path: Path) -> None:
    log = read_kernel_log(write(tmp_path, "6,1,1,-;all is well\n"))
    assert (log.xids, log.problem) == ((), "")


def test_no_log_says_why(tmp_path: Path) -> None:
    log = read_kernel_log(tmp_path)
    assert log.problem == "/dev/kmsg: No such file or directory"


def journal(exit_code: int, stdout: str = "", stderr: str = "") -> Completed:
    return Completed(argv=("journalctl",), exit_code=exit_code, stdout=stdout, stderr=stderr, seconds=0.1)


NONE_THERE = CommandMissing("cannot run journalctl", evidence="no such program")
NO_RIGHT = journal(1, stderr="No journal files were opened")


def read_with(answer: Completed | Exception, monkeypatch: pytest.MonkeyPatch, kmsg: str | None) -> KernelLog:
    """The log of a machine whose journal answers so, and whose kernel still holds these records, if it may be read."""

    def execute(argv: Sequence[str], **_: Any) -> Completed:
        assert argv[0] == "journalctl"
        assert "--quiet" not in argv, "it would not say that this user may not look"
        if isinstance(answer, Exception):
            raise answer
        return answer

    def records(_device: Path) -> str:
        if kmsg is None:
            raise PermissionError(1, "Operation not permitted")
        return kmsg

    monkeypatch.setattr("gpuprov.machine.system_logs._read_records", records)
    return read_kernel_log(Path("/"), execute=execute)


@pytest.mark.parametrize(
    ("answer", "kmsg", "numbers", "source"),
    [
        (journal(0, f"[    7.250000] host kernel: {LOST}"), "", [79], "the journal"),  # the kernel has forgotten it
        (journal(1), KMSG, [79], "/dev/kmsg"),
        (journal(1), None, [], "the journal"),
        (NO_RIGHT, KMSG, [79], "/dev/kmsg"),
        (NONE_THERE, KMSG, [79], "/dev/kmsg"),
    ],
)
def test_the_journal_comes_first_and_then_what_the_kernel_still_holds(
    answer: Completed | Exception,
    kmsg: str | None,
    numbers: list[int],
    source: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = read_with(answer, monkeypatch, kmsg)
    assert ([xid.number for xid in log.xids], log.source, log.problem) == (numbers, source, "")
    assert all(xid.seconds is not None for xid in log.xids)


@pytest.mark.parametrize(("answer", "says"), [(NO_RIGHT, "No journal files"), (NONE_THERE, "no such program")])
def test_where_neither_can_be_read_both_reasons_are_given(
    answer: Completed | Exception, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = read_with(answer, monkeypatch, None)
    assert "/dev/kmsg: Operation not permitted" in log.problem
    assert says in log.problem


def test_the_kernels_own_device_is_read_to_its_end_without_waiting() -> None:
    if not (os.access("/dev/kmsg", os.R_OK) and stat.S_ISCHR(Path("/dev/kmsg").stat().st_mode)):
        pytest.skip("this user may not read the kernel's log")
    assert read_kernel_log(Path("/")).problem == ""


@pytest.mark.parametrize(
    ("earlier", "returned"),
    [
        ({"--boot=-1": LOST, "--boot=-2": LOST}, ((79, "0000:65:00"),)),
        ({"--boot=-1": LOST}, ()),
        ({"--boot=-2": LOST}, ()),
        ({"--boot=-1": LOST.replace("79", "95"), "--boot=-2": LOST}, ()),
        ({"--boot=-1": LOST.replace("65:", "66:"), "--boot=-2": LOST}, ()),
    ],
)
def test_what_two_reboots_did_not_cure_has_returned(earlier: dict[str, str], returned: tuple[object, ...]) -> None:
    def execute(argv: Sequence[str], **_: Any) -> Completed:
        said = {"--boot=0": LOST, **earlier}.get(argv[-1], "")
        return journal(0, f"[ 7.25] host kernel: {said}") if said else journal(1, stderr="No such boot ID in journal")

    assert read_kernel_log(Path("/"), execute=execute).returned == returned


def test_earlier_boots_are_not_asked_for_what_a_program_did() -> None:
    asked: list[str] = []

    def execute(argv: Sequence[str], **_: Any) -> Completed:
        asked.append(argv[-1])
        return journal(0, "[ 7.25] host kernel: NVRM: Xid (PCI:0000:65:00): 13, Graphics Exception")

    assert read_kernel_log(Path("/"), execute=execute).returned == ()
    assert asked == ["--boot=0"]


def test_records_are_shown_as_dmesg_shows_them() -> None:
    assert format_records(KMSG) == f"[    5.000000] eth0: link up\n[    5.000001] {LOST}\n"
    assert format_records("") == ""


def test_the_kernels_lines_or_why_there_are_none(tmp_path: Path) -> None:
    assert read_kernel_lines(write(tmp_path, KMSG)).splitlines()[1] == f"[    5.000001] {LOST}"
    with pytest.raises(HostNotReady, match="the kernel's log cannot be read") as caught:
        read_kernel_lines(tmp_path / "elsewhere")
    assert caught.value.evidence == "/dev/kmsg: No such file or directory"
