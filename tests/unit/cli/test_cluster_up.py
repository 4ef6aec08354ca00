"""What `cluster up` and its plan show of a cluster that is there, and of one without a batch system."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from gpuprov.cli.main import main
from tests.fakes.slurm import FakeJob
from tests.unit.lifecycle.test_older_images import newer

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.cli.conftest import Typed

UP = ("cluster", "up", "-n", "2", "--gpu-mode", "simulated", "--no-verify")


def test_a_second_run_prints_the_table_once(typed: Typed, capsys: pytest.CaptureFixture[str]) -> None:
    typed.world.begin_with(2)
    shown = typed(UP, capsys)
    assert [line.split()[0] for line in shown.splitlines() if line.startswith("NODE")] == ["NODE"]
    assert sum(line.startswith("c000 ") for line in shown.splitlines()) == 1
    assert "unchanged" in shown


def test_quietly_it_says_what_changed_alone(typed: Typed, capsys: pytest.CaptureFixture[str]) -> None:
    typed.world.begin_with(2)
    assert typed(("-q", *UP), capsys).strip() == "unchanged"


def test_nodes_that_were_verified_are_in_one_table(typed: Typed, capsys: pytest.CaptureFixture[str]) -> None:
    typed.world.begin_with(1)
    shown = typed((*UP[:-1], "--role", "slurm"), capsys, codes=(0, 1)).splitlines()
    (header,) = (line for line in shown if line.startswith("NODE"))
    assert header.split()[-1] in ("VERDICT", "HEALTH")
    assert "VERDICT" in header
    assert [sum(line.startswith(f"{name} ") for line in shown) for name in ("c000", "c001")] == [1, 1]
    assert sum(line.startswith("2 nodes: ") for line in shown) == 1


@pytest.mark.parametrize(("role", "phases"), [("slurm", 1), ("plain", 0)])
def test_a_plain_cluster_has_no_phase_of_slurm(
    typed: Typed, capsys: pytest.CaptureFixture[str], role: str, phases: int
) -> None:
    typed.world.begin_with(1)
    typed.world.empty()
    capsys.readouterr()
    assert main([*UP, "--role", role, "-v"], host=typed.world.host) == 0
    said = capsys.readouterr().err
    assert sum(line.startswith("nodes ...") for line in said.splitlines()) == 1
    assert sum(line.startswith("slurm ...") for line in said.splitlines()) == phases


def test_a_plan_says_that_nodes_from_create_node_stay_unless_they_are_pruned(
    typed: Typed, capsys: pytest.CaptureFixture[str]
) -> None:
    typed.world.up(2)
    typed.world.create("web", role="plain")
    plan = ("cluster", "plan", "-n", "1", "--gpu-mode", "simulated")
    keep = "keep node web (from create-node); --prune removes it"
    assert [line for line in typed(plan, capsys).splitlines() if "node" in line] == ["remove node c001", keep]
    assert json.loads(typed(("--json", *plan), capsys))["kept"] == [keep]
    pruned = json.loads(typed(("--json", *plan, "--prune"), capsys))
    assert (pruned["plan"][:2], pruned["kept"]) == (["remove node c001", "remove node web"], [])
    assert typed.world.names == ["c000", "c001", "web"]


def test_that_nodes_share_gpus_is_said_once_in_words_and_in_the_document(
    typed: Typed, capsys: pytest.CaptureFixture[str]
) -> None:
    words = "6 nodes share 4 GPUs"
    for verb in ("plan", "up"):
        line = ("cluster", verb, "-n", "6", "--gpu-mode", "simulated")
        assert main(["--json", *line, *(("--no-verify",) if verb == "up" else ())], host=typed.world.host) == 0
        said = capsys.readouterr()
        assert json.loads(said.out)["shared"] == words
        assert said.err.count(words) == 1


@pytest.mark.parametrize(
    ("words", "folder"),
    [
        (("--share",), "/srv/gpuprov/lab"),
        (("--share", "--no-verify"), "/srv/gpuprov/lab"),
        (("--share", "true"), "/srv/gpuprov/lab"),
        (("--share", "/data/results"), "/data/results"),
        (("--share=/data/results",), "/data/results"),
        (("--share", "false"), ""),
        ((), "/srv/gpuprov/lab"),
    ],
)
def test_the_folder_to_share_is_an_option_with_or_without_a_path(
    typed: Typed, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], folder: str
) -> None:
    typed((*UP, *words), capsys)
    mounts = {mount.source for node in typed.world.engine.nodes.values() for mount in node.mounts}
    assert {source for source in mounts if source.startswith(("/srv", "/data"))} == ({folder} if folder else set())
    assert set(typed.world.host.folders.there) == ({folder} if folder else set())


def test_a_word_that_is_no_folder_is_refused(typed: Typed, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main([*UP, "--share", "results"], host=typed.world.host) == 2
    assert "share: 'results' is not an absolute path" in capsys.readouterr().err
    assert typed.world.names == []


@pytest.mark.slow
def test_nodes_with_an_older_image_are_told_of_and_replaced_once_somebody_agrees(
    typed: Typed, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    world = typed.world
    world.begin_with(2)
    newer(world, 2)
    file = tmp_path / "lab.yaml"
    file.write_text("name: lab\nnodes: {count: 2}\ngpus: {mode: simulated}\nimage: {python: [numpy==1.26]}\n")
    file.write_text(f"version: gpuprov/v1\n{file.read_text()}")
    spec, line = ("-f", str(file)), "c[000-001]: image is older: lacks numpy==1.26"
    assert typed(("cluster", "plan", *spec), capsys).splitlines() == ["nothing to do but to replace nodes", line]
    told = json.loads(typed(("--json", "cluster", "plan", *spec, "--renew"), capsys))
    assert (told["plan"], told["older"]) == (["replace node c001", "replace node c000"], [line])
    assert "unchanged" in typed(("cluster", "up", *spec, "--no-verify"), capsys)
    assert "old image: lacks numpy==1.26" in typed(("cluster", "status"), capsys)

    renew = ("cluster", "up", "--renew", "--no-verify")
    capsys.readouterr()
    assert main(renew, host=world.host) == 2
    said = capsys.readouterr().err
    assert "c[000-001] of cluster lab would be replaced, one after the other\nevidence: what is in c[000-001]" in said
    assert "repeat the command with --yes" in said, "with its file, which may be why an image is older"
    assert "replace node c000" in typed((*renew, "--yes"), capsys)
    assert "old image" not in typed(("cluster", "status"), capsys)
    assert "unchanged" in typed(renew, capsys), "there is nothing to ask about"


@pytest.mark.parametrize(
    ("verb", "word", "fix"),
    [
        ("up", "fe1", "gpuprov cluster up --name fe1"),
        ("plan", "fe1", "gpuprov cluster plan --name fe1"),
        ("up", "4", "gpuprov cluster up -n 4"),
        ("up", "Fe_1", "gpuprov cluster up --help"),
    ],
)
def test_a_word_too_many_is_taken_for_what_it_may_be(
    capsys: pytest.CaptureFixture[str], verb: str, word: str, fix: str
) -> None:
    assert main(["cluster", verb, "--role", "plain", word]) == 2
    said = capsys.readouterr().err
    assert f"gpuprov cluster {verb} takes no argument {word}" in said
    assert f"fix: {fix}\n" in said


@pytest.mark.parametrize("is_broken", [False, True])
def test_a_plan_shows_what_would_change_also_under_jobs(
    typed: Typed, capsys: pytest.CaptureFixture[str], tmp_path: Path, is_broken: bool
) -> None:
    world, file = typed.world, tmp_path / "lab.yaml"
    world.begin_with(3)
    world.slurm.queue, world.slurm.broken = [FakeJob(id="7", nodes="c002")], is_broken
    file.write_text("version: gpuprov/v1\nnodes: {count: 3}\n")
    before, options = world.engine.dump(), ("-f", str(file), "-n", "2", "--gpu-mode", "simulated")
    capsys.readouterr()
    assert main(["cluster", "plan", *options], host=world.host) == 2
    said = capsys.readouterr()
    assert "remove node c002" in said.out
    again = f"gpuprov cluster up {' '.join(options)} "
    if is_broken:
        assert "error: cannot tell whether jobs run on c002\n" in said.err
        assert f"; or {again}--force to continue" in said.err
    else:
        assert "error: there are jobs on c002\n" in said.err
        assert f"fix: {again}--drain to wait for them, or with --force to end them\n" in said.err
    assert "repeat the command" not in said.err

    assert main(["--json", "cluster", "plan", *options], host=world.host) == 2
    told = json.loads(capsys.readouterr().out)
    assert told["schema"] == "gpuprov.plan/v1"
    assert "remove node c002" in told["plan"]
    assert told["error"]["exit_code"] == 2
    assert world.engine.dump() == before
