"""People in Slurm's accounting: what sacctmgr is told, from what it says."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from gpuprov.core.errors import EngineError
from gpuprov.drivers.base import ExecResult
from gpuprov.roles.slurm.associations import (
    CHANGE,
    ensure_associations,
    parse_associations,
    plan_associations,
    relearn_numbers,
)
from gpuprov.shapes.base import changed
from gpuprov.spec.people import limits_people
from tests.unit.spec.test_people import ANN, BOB, DORA

if TYPE_CHECKING:
    from pathlib import Path

BEGINNING = "root||\nroot|root|\nwork||\nwork|work|\n"
ADDED = (
    "add account people cluster=lab description=people organization=people",
    "add account vision cluster=lab description=vision organization=vision",
    "add user ann cluster=lab account=vision",
    "modify user where name=ann cluster=lab account=vision set GrpTRES=gres/gpu=2",
    "add user bob cluster=lab account=people",
)
AFTER = f"{BEGINNING}vision||\nvision|ann|cpu=8,gres/gpu=2\npeople||\npeople|bob|\n"


def test_new_people_get_an_account_and_their_limit() -> None:
    assert plan_associations("lab", (ANN, BOB), parse_associations(BEGINNING)) == ADDED


def test_a_second_run_changes_nothing() -> None:
    assert plan_associations("lab", (ANN, BOB), parse_associations(AFTER)) == ()


def test_a_limit_changes_and_goes() -> None:
    seen = parse_associations(AFTER)
    (line,) = plan_associations("lab", (changed(ANN, gpus=None), BOB), seen)
    assert line == "modify user where name=ann cluster=lab account=vision set GrpTRES=gres/gpu=-1"
    (line,) = plan_associations("lab", (ANN, changed(BOB, gpus=0)), seen)
    assert line.endswith("account=people set GrpTRES=gres/gpu=0")


def test_somebody_moves_to_another_account() -> None:
    lines = plan_associations("lab", (changed(ANN, account="audio"), BOB), parse_associations(AFTER))
    assert lines[1:] == (
        "add user ann cluster=lab account=audio",
        "modify user where name=ann cluster=lab set defaultaccount=audio",
        "modify user where name=ann cluster=lab account=audio set GrpTRES=gres/gpu=2",
        "delete user where name=ann cluster=lab account=vision",
    )


def test_whoever_leaves_an_account_has_the_new_limit_there_at_once() -> None:
    """Slurm removes no account in which jobs are, and these would keep to the old limit."""
    free = changed(ANN, account=None, gpus=None)
    *first, limit, gone = plan_associations("lab", (free, changed(BOB, account="vision")), parse_associations(AFTER))
    assert "modify user where name=ann cluster=lab account=vision set GrpTRES=gres/gpu=-1" in first
    assert (limit, gone) == (
        "delete user where name=ann cluster=lab account=vision",
        "delete user where name=bob cluster=lab account=people",
    )
    stays = "people||\npeople|ann|\nvision||\nvision|ann|\n"
    assert plan_associations("lab", (free,), parse_associations(stays)) == (
        "modify user where name=ann cluster=lab set defaultaccount=people",
        "delete user where name=ann cluster=lab account=vision",
    )


def test_an_account_that_cannot_be_left_yet_keeps_nothing_else_from_being_done(tmp_path: Path) -> None:
    log = tmp_path / "log"
    sacctmgr = tmp_path / "sacctmgr"
    sacctmgr.touch(mode=0o755)
    lines = ["add user ann", "delete user where name=ann", "delete user where name=bob"]

    def change(refused: str) -> tuple[int, list[str]]:
        log.write_text("")
        sacctmgr.write_text(f'#!/bin/sh\necho "$*" >> {log}\ncase "$*" in *{refused}*) exit 1;; esac\n')
        stdin = "".join(f"{line}\n" for line in lines)
        done = subprocess.run(
            ["/bin/sh", "-c", CHANGE],
            input=stdin,
            text=True,
            check=False,
            env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        )
        return done.returncode, [line.removeprefix("-iQ ") for line in log.read_text().splitlines()]

    assert change("nothing") == (0, lines)
    assert change("name=ann") == (1, lines)
    assert change("add") == (1, lines[:1])


def test_somebody_of_a_directory_is_known_like_others() -> None:
    assert plan_associations("lab", (DORA,), parse_associations(f"{BEGINNING}vision||\n")) == (
        "add user dora cluster=lab account=vision",
        "modify user where name=dora cluster=lab account=vision set GrpTRES=gres/gpu=1",
    )
    assert limits_people((BOB, DORA))


def test_who_is_no_person_stays() -> None:
    assert plan_associations("lab", (), parse_associations(f"{AFTER}own||\nown|eve|gres/gpu=1\n")) == ()


def test_limits_are_enforced_only_where_somebody_has_one() -> None:
    assert limits_people((ANN, BOB))
    assert not limits_people((BOB,))


class Node:
    """A controller's node with an answer for each command."""

    def __init__(self, *answers: ExecResult) -> None:
        self.answers, self.asked = [*answers], list[bytes]()

    def run(self, _name: str, _argv: object, *, timeout_s: float, stdin: bytes = b"") -> ExecResult:
        assert timeout_s
        self.asked.append(stdin)
        return self.answers.pop(0)


def said(text: str = "", *, exit_code: int = 0) -> ExecResult:
    return ExecResult(exit_code=exit_code, stdout="" if exit_code else text, stderr=text if exit_code else "")


def ask(node: Node) -> None:
    ensure_associations(node, "c000", "lab", (ANN, BOB))  # type: ignore[arg-type]


def test_differences_are_told_in_one_go() -> None:
    node = Node(said(BEGINNING), said())
    ask(node)
    assert node.asked[1].decode().splitlines() == [*ADDED]


def test_a_node_that_records_nothing_is_left_alone() -> None:
    node = Node(said())
    ask(node)
    assert node.asked == [b""]


@pytest.mark.parametrize(
    "answers",
    [[said("sacctmgr: error: down", exit_code=1)], [said("nonsense")], [said(BEGINNING), said("no", exit_code=1)]],
)
def test_what_is_refused_is_an_error(answers: list[ExecResult]) -> None:
    with pytest.raises(EngineError, match="does not take the people"):
        ask(Node(*answers))


ACTIVE = """\
 Error with request: Job(s) active, cancel job(s) before remove
  JobID = 1          C = ey         A = vision     U = ann
  JobID = 12         C = ey         A = vision     U = bob
"""


def test_whoever_has_jobs_keeps_their_account_until_these_have_ended() -> None:
    with pytest.raises(EngineError, match="keeps people in an account that they leave until their jobs") as refused:
        ask(Node(said(BEGINNING), said(ACTIVE, exit_code=1)))
    assert refused.value.evidence == "1 of ann, 12 of bob"
    assert refused.value.fix == "wait until these have ended: gpuprov exec c000 -- squeue"


USERS = """\
Current Association Manager state

User Records

UserName=root(0) DefAccount=root DefWckey=(null) AdminLevel=Administrator
UserName=ann({ann}) DefAccount=vision DefWckey=(null) AdminLevel=None
UserName=bob({bob}) DefAccount=people DefWckey=(null) AdminLevel=None
"""


@pytest.mark.parametrize(
    ("ann", "bob", "starts"), [(10001, 10002, False), (10001, 4294967294, False), (10001, 10009, True)]
)
def test_a_slurmctld_that_has_a_number_wrong_starts_again(
    ann: int, bob: int, starts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    restarted: list[tuple[str, str]] = []
    monkeypatch.setattr(
        "gpuprov.roles.slurm.associations.services.restart_well",
        lambda _driver, name, service: restarted.append((name, service)),
    )
    monkeypatch.setattr("gpuprov.roles.slurm.associations.services.status_command", lambda *_: "look")
    node = Node(said(USERS.format(ann=ann, bob=bob)), said())
    relearn_numbers(node, "c000", (ANN, BOB))  # type: ignore[arg-type]
    assert restarted == [("c000", "slurmctld")] * starts
    assert len(node.answers) == int(not starts), "it waits until Slurm answers"


@pytest.mark.parametrize(
    ("directory", "number", "starts"),
    [
        ("dora:20001\n", 20001, False),
        ("dora:20002\n", 20001, True),
        ("dora:20001\n", 4294967294, True),
        ("", 4294967294, False),
        ("x:1\ndora:\n", 20001, False),
    ],
)
def test_a_number_of_the_directory_is_what_the_directory_says_now(
    directory: str, number: int, starts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuprov.roles.slurm.associations.services.restart_well", lambda *_: None)
    monkeypatch.setattr("gpuprov.roles.slurm.associations.services.status_command", lambda *_: "look")
    known = USERS.format(ann=ANN.uid, bob=BOB.uid) + f"UserName=dora({number}) DefAccount=vision\n"
    node = Node(said(known), said(directory), said())
    relearn_numbers(node, "c000", (ANN, DORA))  # type: ignore[arg-type]
    assert len(node.answers) == int(not starts)


def test_a_slurmctld_that_says_nothing_or_something_else_stays() -> None:
    for text in ("", "No users currently cached in Slurm.\n", "UserName=ann(x) \n", "UserName=" * 10_000):
        relearn_numbers(Node(said(text)), "c000", (ANN, BOB))  # type: ignore[arg-type]


def test_a_slurmctld_that_does_not_say_its_numbers_is_an_error() -> None:
    node = Node(said("slurm_load_assoc_mgr_info error: Unable to contact slurm controller", exit_code=1))
    with pytest.raises(EngineError, match="does not say which numbers") as raised:
        relearn_numbers(node, "c000", (ANN, BOB))  # type: ignore[arg-type]
    assert "Unable to contact" in raised.value.evidence
    assert raised.value.fix == "gpuprov exec c000 -- scontrol show assoc_mgr flags=users"
