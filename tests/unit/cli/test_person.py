"""`gpuprov person`: who has an account, and what nodes get to know of it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from gpuprov.cli.main import EXIT_INTERRUPTED, main
from gpuprov.cluster.people_files import APPLIED, SETTLE
from gpuprov.drivers.base import LABEL_PEOPLE, ExecResult
from gpuprov.shapes.cluster_spec import PersonSpec
from tests.fakes.slurm import FakeJob
from tests.unit.spec.test_people import key

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fakes.engine import Command
    from tests.unit.cli.conftest import Typed

PASSWD = "/var/lib/extrausers/passwd"
KEYS = "/etc/gpuprov/people/keys"
LIMITS = "/etc/gpuprov/people/limits"


@pytest.fixture
def pub(tmp_path: Path) -> Path:
    path = tmp_path / "ann.pub"
    path.write_text(f"{key()}\n")
    return path


def refused(argv: tuple[str, ...], typed: Typed, capsys: pytest.CaptureFixture[str]) -> str:
    before = typed.world.engine.dump()
    capsys.readouterr()
    assert main(argv, host=typed.world.host) == 2
    assert typed.world.engine.dump() == before
    said = capsys.readouterr().err
    assert "evidence: " in said
    assert "fix: " in said
    return said


@pytest.mark.parametrize("then", ["cluster up --no-verify", "person add ann"])
def test_who_breaks_off_is_told_what_nodes_may_have_and_what_finishes_or_undoes_it(
    typed: Typed, capsys: pytest.CaptureFixture[str], then: str
) -> None:
    typed.world.begin_with(1)
    typed.world.engine.faults.raise_at(KeyboardInterrupt(), "set_network_labels")
    assert main(["person", "add", "ann"], host=typed.world.host) == EXIT_INTERRUPTED
    assert "ann" in typed.world.file("c000", PASSWD)
    (said,) = [line for line in capsys.readouterr().err.splitlines() if "nodes may have" in line]
    assert said.endswith(
        "not recorded: add people: ann (10001); to finish, run the same command again; to undo it: gpuprov cluster up"
    )
    typed.world.engine.faults.clear()
    typed(tuple(then.split()), capsys)
    assert ("ann" in typed.world.file("c000", PASSWD)) is ("10001" in typed(("person", "list"), capsys))
    assert ("ann" in typed.world.file("c000", PASSWD)) is (then == "person add ann")
    assert typed(tuple(then.split()), capsys).startswith("unchanged")


def test_somebody_comes_into_all_nodes_and_goes_again(
    typed: Typed, capsys: pytest.CaptureFixture[str], pub: Path
) -> None:
    typed.world.begin_with(2)
    settled = count_settling(typed)
    add = ("person", "add", "ann", "--key", str(pub), "--account", "vision", "--gpus", "2")
    assert (
        typed(add, capsys)
        == "add people: ann (10001, account: vision, gpus: 2)\nrenew /etc/slurm/slurm.conf, people on c[000-001]\n"
    )
    assert sorted(settled) == ["c000", "c001"]
    assert "PrivateData=jobs" in typed.world.file("c001", "/etc/slurm/slurm.conf")
    for node in ("c000", "c001"):
        assert typed.world.file(node, PASSWD).startswith("ann:x:10001:10001:")
        assert typed.world.file(node, KEYS) == f"ann {key()}\n"
        assert typed.world.file(node, LIMITS) == "ann 2\n"
        assert typed.world.file(node, APPLIED).strip()
    assert typed(add, capsys) == "unchanged\n"
    (row,) = json.loads(typed(("--json", "person", "list"), capsys))["people"]
    assert (row["name"], row["uid"], row["account"], row["gpus"]) == ("ann", 10001, "vision", 2)
    assert row["keys"][0].startswith("ssh-ed25519 SHA256:")
    assert (
        typed(("person", "rm", "ann"), capsys)
        == "remove people: ann (10001)\nrenew /etc/slurm/slurm.conf, people on c[000-001]\n"
    )
    assert typed.world.file("c001", PASSWD) == ""
    assert typed(("person", "list"), capsys).startswith("nobody; add somebody")


def test_somebody_gets_other_keys_another_account_and_another_limit(
    typed: Typed, capsys: pytest.CaptureFixture[str], pub: Path, tmp_path: Path
) -> None:
    typed.world.begin_with(1)
    typed(("person", "add", "ann", "--key", str(pub), "--account", "vision", "--gpus", "2"), capsys)
    new = tmp_path / "new.pub"
    new.write_text(f"{key()[:-1]}B ann@new\n")
    changes = ("person", "set", "ann", "--key", str(new), "--gpus", "3")
    assert "fix: gpuprov person set ann\n" in refused(("person", "add", "ann", "--key", str(new)), typed, capsys)
    assert typed(changes, capsys).splitlines()[0] == "change person ann: other keys, gpus: 3 (until now 2)"
    assert typed.world.file("c000", KEYS) == f"ann {key()[:-1]}B ann@new\n"
    assert typed.world.file("c000", LIMITS) == "ann 3\n"
    assert typed(changes, capsys) == "unchanged\n"
    assert "account: speech (until now vision)" in typed(("person", "set", "ann", "--account", "speech"), capsys)
    (row,) = json.loads(typed(("--json", "person", "list"), capsys))["people"]
    assert (row["uid"], row["account"], row["gpus"], len(row["keys"])) == (10001, "speech", 3, 1)
    assert "there is nothing to change" in refused(("person", "set", "ann"), typed, capsys)
    assert "evidence: its people: ann; did you mean ann?" in refused(
        ("person", "set", "an", "--gpus", "1"), typed, capsys
    )


def test_an_account_and_a_limit_are_taken_away(typed: Typed, capsys: pytest.CaptureFixture[str]) -> None:
    typed.world.begin_with(1)
    typed(("person", "add", "ann", "--account", "vision", "--gpus", "2"), capsys)
    assert "gpus: unset (until now 2)" in typed(("person", "set", "ann", "--gpus", "none"), capsys)
    assert typed.world.file("c000", LIMITS) == ""
    assert "account: unset (until now vision)" in typed(("person", "set", "ann", "--account", "none"), capsys)
    (row,) = json.loads(typed(("--json", "person", "list"), capsys))["people"]
    assert (row["account"], row["gpus"]) == (None, None)
    assert typed(("person", "set", "ann", "--account", "none", "--gpus", "none"), capsys) == "unchanged\n"


def test_a_person_and_an_account_have_different_names(typed: Typed, capsys: pytest.CaptureFixture[str]) -> None:
    typed.world.begin_with(1)
    typed(("person", "add", "ann", "--account", "vision"), capsys)
    said = refused(("person", "add", "vision"), typed, capsys)
    assert "vision is an account of cluster lab, so nobody can be called so\nevidence: people of this" in said
    both = ("add", "bob", "--account", "ann"), ("set", "ann", "--account", "ann"), ("add", "x", "--account", "x")
    for command in both:
        said = refused(("person", *command), typed, capsys)
        assert f"{command[-1]} is a person of cluster lab, so no account can be called so" in said


def count_settling(typed: Typed) -> list[str]:
    found: list[str] = []
    answer = typed.world.engine.answer

    def note(command: Command) -> ExecResult:
        if command.argv == (SETTLE,):
            found.append(command.node.name)
        return answer(command)

    typed.world.engine.answer = note
    return found


def test_a_file_brings_people_and_a_new_node_has_them_before_it_boots(
    typed: Typed, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    typed.world.begin_with(1)
    spec = tmp_path / "lab.yaml"
    spec.write_text("version: gpuprov/v1\nnodes: {count: 2}\npeople: [{name: bob, uid: 1234}]\n")
    settled = count_settling(typed)
    up = ("cluster", "up", "-f", str(spec), "--gpu-mode", "simulated", "--no-verify")
    assert ", people" in typed(up, capsys)
    assert settled == ["c000"]  # the other one does it at its boot
    assert typed.world.file("c001", PASSWD).startswith("bob:x:1234:")
    assert "unchanged" in typed(up, capsys)


def test_a_run_that_was_killed_is_completed(typed: Typed, capsys: pytest.CaptureFixture[str]) -> None:
    typed.world.begin_with(2)
    typed(("person", "add", "ann"), capsys)
    files = typed.world.engine.nodes["c001"].files
    files[APPLIED] = replace(files[APPLIED], content=b"")
    settled = count_settling(typed)
    assert "renew people on c001" in typed(("cluster", "up", "--no-verify"), capsys)
    assert settled == ["c001"]


def test_what_stays_somebody_elses_is_said(typed: Typed, capsys: pytest.CaptureFixture[str]) -> None:
    typed.world.begin_with(3)
    answer = typed.world.engine.answer

    def trouble(command: Command) -> ExecResult:
        if command.argv == (SETTLE,):
            said = "/shared/home/ann: belongs to 10009:10009 instead of 10001:10001\n"
            return ExecResult(exit_code=0, stdout=said, stderr="")
        return answer(command)

    typed.world.engine.answer = trouble
    capsys.readouterr()
    assert main(("person", "add", "ann"), host=typed.world.host) == 0
    warned = [line for line in capsys.readouterr().err.splitlines() if "belongs to" in line]
    assert len(warned) == 1
    assert "c[000-002]: /shared/home/ann: belongs to 10009:10009" in warned[0]


def test_nodes_of_an_older_image_have_no_people(typed: Typed, capsys: pytest.CaptureFixture[str]) -> None:
    typed.world.begin_with(2)
    del typed.world.engine.nodes["c001"].labels[LABEL_PEOPLE]
    said = refused(("person", "add", "ann"), typed, capsys)
    assert "c001 cannot have accounts of people" in said
    assert "gpuprov cluster up --renew" in said
    assert "unchanged" in typed(("cluster", "up", "--no-verify"), capsys)


def test_a_file_without_people_takes_nobody_away_unasked(
    typed: Typed, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    typed.world.begin_with(1)
    typed(("person", "add", "ann"), capsys)
    spec = tmp_path / "lab.yaml"
    spec.write_text("version: gpuprov/v1\nnodes: {count: 1}\n")
    up = ("cluster", "up", "-f", str(spec), "--gpu-mode", "simulated", "--no-verify")
    assert "accounts and processes of ann" in refused(up, typed, capsys)
    typed.world.slurm.queue = [FakeJob(id="7", nodes="c000", user="ann", name="train"), FakeJob(id="9", user="work")]
    assert "\n    their jobs: 7 of ann (train) on c000\n" in refused(up, typed, capsys)
    assert "remove people: ann" in typed(("cluster", "plan", *up[2:-1]), capsys)
    assert main(["cluster", "plan", *up[2:-1]], host=typed.world.host) == 0
    assert "ann would go; their jobs: 7 of ann (train) on c000\n" in capsys.readouterr().err
    typed((*up, "--yes"), capsys)
    assert typed.world.file("c000", PASSWD) == ""


def test_nobody_goes_who_has_jobs(typed: Typed, capsys: pytest.CaptureFixture[str]) -> None:
    typed.world.begin_with(1)
    typed(("person", "add", "ann"), capsys)
    typed.world.slurm.queue = [
        FakeJob(id="7", nodes="c000", user="ann", name="train"),
        FakeJob(id="8", user="ann", state="PD"),
        FakeJob(id="9", nodes="c000", user="work"),
    ]
    said = refused(("person", "rm", "ann"), typed, capsys)
    assert "ann has jobs in cluster lab" in said
    assert "7 of ann (train) on c000; 8 of ann" in said
    assert "gpuprov person rm ann --force" in said
    shown = typed(("person", "rm", "ann", "--force"), capsys)
    assert shown.splitlines()[:3] == [
        "cancelled job 7 of ann (train) on c000",
        "cancelled job 8 of ann (train) waiting",
        "remove people: ann (10001)",
    ]
    assert [job.id for job in typed.world.slurm.queue] == ["9"]


def test_where_nobody_knows_of_jobs_it_takes_force(typed: Typed, capsys: pytest.CaptureFixture[str]) -> None:
    typed.world.begin_with(1)
    typed(("person", "add", "ann"), capsys)
    typed.world.slurm.broken = True
    assert main(("person", "rm", "ann"), host=typed.world.host) == 4
    assert typed.world.file("c000", PASSWD)
    typed(("person", "rm", "ann", "--force"), capsys)
    assert not typed.world.file("c000", PASSWD)


@pytest.mark.parametrize("share", [True, False])
def test_who_goes_is_told_how_to_find_their_home_again(
    typed: Typed, capsys: pytest.CaptureFixture[str], share: bool
) -> None:
    typed.world.empty()
    typed.world.up(spec=typed.world.spec(1, share=share, people=(PersonSpec(name="ann", uid=10007),)))
    assert main(("person", "rm", "ann"), host=typed.world.host) == 0
    told = "the home of ann stays; to bring ann back to it: gpuprov person add ann --uid 10007\n"
    assert (told in capsys.readouterr().err) is share


def test_a_limit_that_nobody_holds_is_said(typed: Typed, capsys: pytest.CaptureFixture[str]) -> None:
    typed.world.begin_with(1)
    assert main(("person", "add", "ann", "--gpus", "2"), host=typed.world.host) == 0
    assert "--gpus is only recorded" in capsys.readouterr().err


def test_who_is_not_there_need_not_go(typed: Typed, capsys: pytest.CaptureFixture[str]) -> None:
    typed.world.begin_with(1)
    typed(("person", "add", "bob"), capsys)
    assert main(("person", "rm", "bab", "--force"), host=typed.world.host) == 0
    said = capsys.readouterr()
    assert "cluster lab has nobody called bab; did you mean bob?" in said.err
    assert said.out == "unchanged\n"


def test_a_login_node_that_is_not_there_is_said(
    typed: Typed, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    spec = tmp_path / "lab.yaml"
    spec.write_text("version: gpuprov/v1\nnodes: {count: 1}\nslurm: {login: login}\n")
    capsys.readouterr()
    up = ("cluster", "up", "-f", str(spec), "--gpu-mode", "simulated", "--no-verify")
    assert main(up, host=typed.world.host) == 0
    said = capsys.readouterr().err
    assert "slurm.login names login, which is no node; to create it: gpuprov create-node login --role slurm" in said


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("person", "add", "Ann"), "'Ann' is no name of a person"),
        (("person", "add", "root"), "root is an account or a group of the nodes"),
        (("person", "add", "ann", "--uid", "5"), "5 is no number for a person"),
        (("person", "add", "ann", "--uid", "10007"), "the number 10007 is that of bob"),
        (("person", "add", "ann", "--account", "sudo"), "sudo is an account or a group of the nodes"),
        (
            ("person", "add", "bob", "--gpus", "3"),
            "there is somebody called bob already, with other gpus",
        ),
        (("person", "add", "ann", "--gpus", "lots"), "allowed: a whole number from 0, of GPUs of any type, or none"),
        (("person", "set", "bob", "--gpus", "h100:2"), "fix: --gpus 1, or --gpus none for no limit"),
        (("person", "add", "ann", "--key", "/nowhere"), "the keys in /nowhere cannot be read"),
        (("person", "list", "--cluster", "none"), "there is no cluster none"),
        (("person", "add", "ann", "--cluster", "none"), "there is no cluster none"),
    ],
)
def test_what_is_refused_changes_nothing(
    typed: Typed, capsys: pytest.CaptureFixture[str], argv: tuple[str, ...], said: str
) -> None:
    typed.world.begin_with(1)
    typed(("person", "add", "bob", "--uid", "10007"), capsys)
    assert said in refused(argv, typed, capsys)


def test_a_private_key_is_refused_unread(typed: Typed, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    typed.world.begin_with(1)
    path = tmp_path / "id_ed25519"
    path.write_text("-----BEGIN OPENSSH PRIVATE KEY-----\nc2VjcmV0c2VjcmV0\n-----END OPENSSH PRIVATE KEY-----\n")
    path.with_suffix(".pub").write_text(f"{key()}\n")
    said = refused(("person", "add", "ann", "--key", str(path)), typed, capsys)
    assert "is a private key" in said
    assert "c2Vj" not in said
    assert f"--key {path}.pub" in said
