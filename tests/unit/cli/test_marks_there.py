"""`cluster up` and `cluster plan` without a file, of hosts that share a folder: nothing more is asked, no mark left."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuprov.host.folders import FolderLook
from gpuprov.spec.shared_folder import ACCOUNT_UID
from tests.unit.cli.test_spanning import at_the_controller

if TYPE_CHECKING:
    from tests.conftest import Recording
    from tests.unit.cli.test_spanning import Typing

FOLDER = "/data/lab"
UP = ("cluster", "up", "--no-verify")


@pytest.fixture
def lab(
    tmp_path: Path, recording: Recording, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Typing:
    """Two hosts with a cluster and a folder."""
    lab = at_the_controller(tmp_path, recording, monkeypatch, capsys)
    for world in lab.hosts.worlds.values():
        world.host.folders.there[FOLDER] = FolderLook(kind="folder", at=FOLDER, owner=ACCOUNT_UID)
        world.host.folders.marks = left(lab)
    Path(lab.file).write_text(f"{Path(lab.file).read_text()}share: {FOLDER}\n")
    assert asked(lab, *UP, "-f", lab.file) == ["part", "plan", "up", "ready"]
    return lab


def left(lab: Typing) -> dict[tuple[str, str], str]:
    return lab.hosts.worlds["hoff"].host.folders.marks


def asked(lab: Typing, *typed: str, expect: int = 0) -> list[str]:
    """Of hoff; nothing is left after it."""
    lab.hosts.asked.clear()
    lab.type(*typed, expect=expect)
    assert left(lab) == {}
    return [verb for host, verb in lab.hosts.asked if host == "hoff"]


def test_no_more_is_asked_than_without_a_folder(lab: Typing) -> None:
    assert asked(lab, *UP) == ["part", "plan"]
    assert asked(lab, "cluster", "plan") == ["part", "plan"]
    assert asked(lab, *UP, "-n", "6") == ["part", "plan", "up", "ready"]


def test_the_mark_of_the_first_question_is_taken_after_a_second_one(lab: Typing) -> None:
    assert asked(lab, "cluster", "plan", "-n", "5", "--gpus-per-node", "2") == ["part", "part", "plan", "plan"]


def test_what_is_refused_before_hosts_are_asked_again_leaves_none(lab: Typing) -> None:
    assert asked(lab, *UP, "--subnet", "10.77.0.0/24", expect=2) == ["part", "share"]
    assert "cannot be changed while it exists" in lab.errors


def test_other_verbs_leave_none(lab: Typing) -> None:
    lab.hosts.worlds["hoff"].engine.faults.passed.clear()
    for typed in (("cluster", "status"), ("list",), ("verify",), ("rm", "c003")):
        asked(lab, *typed, expect=1 if typed == ("verify",) else 0)  # nothing runs in nodes of a fake engine
    assert not [step for step, _ in lab.hosts.worlds["hoff"].engine.faults.passed if "mark" in step]
