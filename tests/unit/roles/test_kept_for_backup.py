"""What a controller writes for its backup, and what a backup says of the accounting it has left behind."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.core.errors import EngineError
from gpuprov.drivers.base import ExecResult
from gpuprov.roles.slurm.questions import ACCOUNTING
from gpuprov.roles.slurm.takeover import keep_for_backup

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from gpuprov.drivers.base import Driver

pytestmark = pytest.mark.slow
WITH_JOBS = b"\x00\x00\x00\x05work\x00\x00"
PROGRAMS = {
    "scontrol": 'case $1 in ping) cat "$ROOT/ping" ;; create) exit 1 ;;'
    ' delete) cat "$ROOT/next" >"$ROOT/.new" && mv "$ROOT/.new" "$ROOT/s/assoc_mgr_state" ;; esac',
    "sacctmgr": '[ -e "$ROOT/answers" ]',
    "sdiag": 'echo "DBD Agent queue size: 3"',
    "sleep": "exit 0",
}


class Node:
    """A node with Slurm's files, and stand-ins for its programs."""

    def __init__(self, root: Path) -> None:
        self.root, self.kept = root, root / "s/assoc_mgr_state"
        for name in ("bin", "s"):
            (root / name).mkdir()
        for name, text in PROGRAMS.items():
            (root / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
            (root / "bin" / name).chmod(0o755)
        (root / "slurm.conf").write_text(f"StateSaveLocation={root}/s\nAccountingStorageHost=10.0.3.2\n")
        (root / "slurmdbd.conf").touch()
        (root / "next").write_bytes(WITH_JOBS)

    def run(self, _name: str, argv: Sequence[str], **_: Any) -> ExecResult:
        env = {"PATH": f"{self.root}/bin:{os.environ['PATH']}", "ROOT": str(self.root)}
        argv = [word.replace("/etc/slurm", str(self.root)) for word in argv]
        done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False, timeout=60)
        return ExecResult(exit_code=done.returncode, stdout=done.stdout, stderr=done.stderr)

    def keep(self, *, changed: bool = False) -> bool:
        """Whether slurmctld has written it anew."""
        driver: Driver = self  # type: ignore[assignment]
        before = self.kept.stat().st_ino if self.kept.exists() else 0
        keep_for_backup(driver, "c000", changed=changed)
        return before != (self.kept.stat().st_ino if self.kept.exists() else 0)

    def asked(self) -> list[str]:
        return self.run("c001", ["sh", "-c", ACCOUNTING]).stdout.splitlines()


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_it_is_written_once_and_again_after_a_change(node: Node) -> None:
    assert node.keep()
    assert not node.keep()
    assert node.keep(changed=True)


def test_what_is_there_from_before_the_accounting_is_written_anew(node: Node) -> None:
    node.kept.write_bytes(b"\x00\x07network\x00")
    assert node.keep()
    assert node.kept.read_bytes() == WITH_JOBS


def test_a_node_that_records_nothing_is_left_alone(node: Node) -> None:
    (node.root / "slurmdbd.conf").unlink()
    assert not node.keep(changed=True)


@pytest.mark.parametrize("text", ["echo 'Unable to contact' >&2; exit 1", "exit 0"], ids=["refused", "not written"])
def test_what_is_not_written_is_an_error(node: Node, text: str) -> None:
    (node.root / "bin/scontrol").write_text(f"#!/bin/sh\n{text}\n")
    with pytest.raises(EngineError, match="may not take over") as caught:
        node.keep()
    assert caught.value.evidence.startswith("Unable to contact" if "echo" in text else "slurmctld has not written")


def test_a_backup_says_where_slurmdbd_is_only_while_it_has_control(node: Node) -> None:
    (node.root / "slurmdbd.conf").unlink()
    ping = node.root / "ping"
    ping.write_text("Slurmctld(primary) at c000 is DOWN\nSlurmctld(backup) at c001 is UP\n")
    assert node.asked() == ["elsewhere"], "no controller's node"
    (node.root / "controller").touch()
    assert node.asked() == ["silent", "why elsewhere it is on the node with the address 10.0.3.2", "queue 3"]
    (node.root / "answers").touch()
    assert node.asked() == ["answers", "queue 3"]
    ping.write_text("Slurmctld(primary) at c000 is UP\nSlurmctld(backup) at c001 is UP\n")
    assert node.asked() == ["elsewhere"]
