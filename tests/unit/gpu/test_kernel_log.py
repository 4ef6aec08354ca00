"""Xids of the kernel's log: from /dev/kmsg, from the journal, or why there are none."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.core.execution import CommandMissing, Completed
from gpuprov.gpu.kernel_log import parse_log, read_kernel_log
from gpuprov.gpu.xids import Xid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuprov.gpu.kernel_log import KernelLog

LOST = "NVRM: Xid (PCI:0000:65:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
KMSG = f"6,1200,5000000,-;eth0: link up\n4,1201,5000001,-;{LOST}\n SUBSYSTEM=pci\n"


def write(root: Path, text: str) -> Path:
    (root / "dev").mkdir()
    (root / "dev/kmsg").write_text(text)
    return root


@pytest.mark.parametrize(
    ("line", "number", "pci"),
    [
        (LOST, 79, "0000:65:00"),
        ("[12.5] NVRM: Xid (0000:03:00): 13, Graphics Exception", 13, "0000:03:00"),
        ("Nov 21 host kernel: NVRM: Xid (PCI:0001:C1:00): 63, pid=77, Row Remapper", 63, "0001:c1:00"),
        ("NVRM: Xid (PCI:0000:01:00 GPU-I:05): 94, pid=7194, name=python3, Ch 00000008", 94, "0000:01:00"),
        ("NVRM: Xid (PCI:0000:01:00 GPU-I:01 GPU-CI:02): 13, pid=1, name=a.out, Graphics", 13, "0000:01:00"),
    ],
)
def test_an_xid_is_found_in_the_forms_it_has_had(line: str, number: int, pci: str) -> None:
    (found,) = parse_log(line).xids
    assert (found.number, found.pci) == (number, pci)
    assert found.text.startswith("NVRM: Xid")


@pytest.mark.parametrize("text", ["", "NVRM: loading NVIDIA UNIX Kernel Module", "Xid 79", "NVRM: Xid (PCI:0): x"])
def test_other_lines_are_none(text: str) -> None:
    assert parse_log(text).xids == ()


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

    monkeypatch.setattr("gpuprov.gpu.kernel_log._read_records", records)
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


SWITCH = "nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 30 LTSSM Fault Up"
NO_START = "NVRM: GPU 0000:65:00.0: RmInitAdapter failed! (0x26:0x65:1477)"
OFF = "NVRM: GPU 0000:65:00.0: GPU has fallen off the bus."
LOADED = "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build"


def test_an_error_that_a_switch_has_handled_itself_is_none() -> None:
    assert parse_log(f"4,1,1000000,-;{SWITCH.replace('Fatal', 'Non-fatal')}").switches == ()


def test_other_errors_and_the_drivers_start() -> None:
    lines = [f"4,1,1000000,-;{SWITCH}", f"4,2,2000000,-;{OFF}", f"4,3,3000000,-;{NO_START}"]
    log = parse_log("\n".join(lines))
    assert (log.switches, log.lost, log.loaded_s) == ((SWITCH,), (OFF, NO_START), None)
    again = parse_log("\n".join([*lines, f"4,4,4000000,-;{LOADED}"]))
    assert (again.switches, again.lost, again.loaded_s) == ((), (), 4.0)


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
