"""Xids of the kernel's log: from /dev/kmsg, from the journal, or why there are none."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.core.execution import CommandMissing, Completed
from gpuprov.gpu.kernel_log import Xid, parse_xids, read_kernel_log

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    ],
)
def test_an_xid_is_found_in_the_forms_it_has_had(line: str, number: int, pci: str) -> None:
    (found,) = parse_xids(line)
    assert (found.number, found.pci) == (number, pci)
    assert found.text.startswith("NVRM: Xid")


@pytest.mark.parametrize("text", ["", "NVRM: loading NVIDIA UNIX Kernel Module", "Xid 79", "NVRM: Xid (PCI:0): x"])
def test_other_lines_are_none(text: str) -> None:
    assert parse_xids(text) == ()


def test_kmsg_under_a_root(tmp_path: Path) -> None:
    log = read_kernel_log(write(tmp_path, KMSG))
    assert log.xids == (Xid(number=79, pci="0000:65:00", text=LOST),)
    assert (log.source, log.problem) == ("/dev/kmsg", "")


def test_a_quiet_log(tmp_path: Path) -> None:
    log = read_kernel_log(write(tmp_path, "6,1,1,-;all is well\n"))
    assert (log.xids, log.problem) == ((), "")


def test_no_log_says_why(tmp_path: Path) -> None:
    log = read_kernel_log(tmp_path)
    assert log.problem == "/dev/kmsg: No such file or directory"


def journal(exit_code: int, stdout: str = "", stderr: str = "") -> Completed:
    return Completed(argv=("journalctl",), exit_code=exit_code, stdout=stdout, stderr=stderr, seconds=0.1)


@pytest.mark.parametrize(
    ("answer", "numbers", "problem"),
    [
        (journal(0, LOST), [79], ""),
        (journal(1, "-- No entries --"), [], ""),
        (journal(1, stderr="No journal files were opened"), [], "No journal files"),
        (CommandMissing("cannot run journalctl", evidence="no such program"), [], "no such program"),
    ],
)
def test_the_journal_is_asked_where_kmsg_may_not_be_read(
    answer: Completed | Exception, numbers: list[int], problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def execute(argv: Sequence[str], **_: Any) -> Completed:
        assert argv[0] == "journalctl"
        if isinstance(answer, Exception):
            raise answer
        return answer

    def denied(*_: object) -> int:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("gpuprov.gpu.kernel_log.os.open", denied)
    log = read_kernel_log(Path("/"), execute=execute)
    assert [xid.number for xid in log.xids] == numbers
    assert problem in log.problem
    assert bool(problem) == bool(log.problem)


def test_the_kernels_own_device_is_read_to_its_end_without_waiting() -> None:
    if not (os.access("/dev/kmsg", os.R_OK) and stat.S_ISCHR(Path("/dev/kmsg").stat().st_mode)):
        pytest.skip("this user may not read the kernel's log")
    assert read_kernel_log(Path("/")).problem == ""
