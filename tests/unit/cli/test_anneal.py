"""`gpuprov anneal`: the programs in the fake node are the real ones, and jobs really anneal, on numba's simulator."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from gpuprov.cli.main import main
from gpuprov.drivers.base import LABEL_GPUS, ExecResult
from gpuprov.shapes.cluster_spec import JobsSpec
from tests.fakes.jobs_in_nodes import give_jobs
from tests.schemas import validate
from tests.unit.gpuwork.anneal.conftest import LINE, anneal, changed, read_npz
from tests.unit.spec.test_people import ANN

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.fakes.engine import Command
    from tests.fakes.forked_programs import ForkedPrograms
    from tests.fakes.jobs_in_nodes import JobsInNodes
    from tests.unit.cli.conftest import Typed

CONF = "max_steps: 60\ninitial_temp: 1.0\nthread_count: 10\n"


class Annealing:
    """What is typed about a model, on a host whose cluster takes jobs."""

    def __init__(self, typed: Typed, jobs: JobsInNodes, capfd: pytest.CaptureFixture[str], folder: Path) -> None:
        self.world, self.jobs, self.folder = typed.world, jobs, folder
        self._captured = capfd

    def __call__(self, *argv: str, code: int = 0) -> str:
        self._captured.readouterr()
        found = main(("anneal", *argv), host=self.world.host)
        self.said = self._captured.readouterr()
        assert found == code, f"{self.said.out}\n{self.said.err}"
        return self.said.out

    def document(self, *argv: str, code: int = 0) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self(*argv, "--json", code=code))
        validate(document)
        return document

    def refused(self, *argv: str, code: int = 2) -> str:
        error = self.document(*argv, code=code)["error"]
        assert error["evidence"]
        assert error["fix"]
        return f"{error['what']}\n{error['evidence']}\n{error['fix']}"

    def run(self, *options: str, code: int = 0) -> dict[str, Any]:
        return self.document("run", "line.py", "--conf", "run.yaml", "--out", "out", *options, code=code)

    @property
    def untouched(self) -> bool:
        """Whether the node was asked nothing and given nothing."""
        return self.jobs.asked == [] and "write_tree" not in [step for step, _ in self.world.engine.faults.passed]


@pytest.fixture
def annealing(
    typed: Typed,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    equipped_programs: ForkedPrograms,
    capfd: pytest.CaptureFixture[str],
) -> Iterator[Annealing]:
    """Two nodes, a model, and a Slurm that runs what it is given."""
    typed.world.begin_with(2)
    (tmp_path / "jobs").mkdir()
    jobs = give_jobs(typed.world, tmp_path / "jobs", monkeypatch, equipped_programs)
    jobs.share()
    jobs.give_python("NUMBA_ENABLE_CUDASIM=1")
    typed.world.engine.faults.clear()
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    (folder / "line.py").write_text(LINE)
    (folder / "run.yaml").write_text(CONF)
    yield Annealing(typed, jobs, capfd, folder)
    jobs.finish()


@pytest.mark.slow
def test_a_run_in_a_cluster_is_divided_followed_and_fetched(annealing: Annealing) -> None:
    annealing.world.record(jobs=JobsSpec(time="12h"))
    document = annealing.run("--nodes", "3", "--plot", "best.svg")
    (run,) = document["runs"]
    assert (run["name"], run["state"], run["chains"], run["simulated"]) == ("line", "done", 10, True)
    assert (document["exit_code"], document["job"], document["folder"]) == (0, "1", str(annealing.folder / "out"))
    assert [part["state"] for part in run["parts"]] == ["done"] * 3
    assert sum(part["chains"] for part in run["parts"]) == 10
    whole = anneal(thread_count=10, max_steps=60).chains
    found = read_npz(annealing.folder / "out/line/all.npz")
    assert found["states"].tobytes() == whole.states.tobytes(), "however it is divided"
    best = read_npz(annealing.folder / "out/line/best.npz")
    assert best["values"].tolist() == [run["best"]] == [whole.values.min()]
    files = {path.name for path in (annealing.folder / "out/line").iterdir()}
    assert files == {"all.npz", "best.npz", "trace.npz", "best.json"}
    told = json.loads((annealing.folder / "out/line/best.json").read_text())
    validate(told)
    assert (told["value"], told["chain"], told["simulated"]) == (run["best"], run["best_chain"], True)
    assert told["state"] == best["states"][0].tolist() == run["best_state"]
    (order,) = annealing.jobs.orders()
    assert (order["name"], order["count"], order["gpus"]) == ("anneal-line", 3, 1)
    assert order["time_limit_s"] == 12 * 3600, "the cluster's default"
    assert "SIMULATED" in annealing.said.err
    page = (annealing.folder / "best.svg").read_text()
    assert ">line: best value of 10 chains SIMULATED</text>" in page
    assert annealing.jobs.held() == [], "what was copied for it is removed"


@pytest.mark.slow
def test_a_run_of_a_person_is_theirs_and_comes_back(annealing: Annealing) -> None:
    annealing.world.record(people=(ANN,), jobs=JobsSpec(submit_as=True))
    document = annealing.run("--nodes", "1", "--as", "ann")
    assert [run["state"] for run in document["runs"]] == ["done"]
    assert (annealing.folder / "out/line/best.json").is_file()
    assert set(annealing.jobs.persons) == {"ann"}
    assert [path.name for path in annealing.jobs.folder.iterdir()] == ["home"]
    assert sorted(path.name for path in (annealing.jobs.folder / "home/ann").iterdir()) == ["anneal", "jobs"]


@pytest.mark.slow
def test_a_cluster_divides_by_its_gpus_and_says_what_it_found(annealing: Annealing) -> None:
    engine = annealing.world.engine
    engine.nodes["c001"].labels[LABEL_GPUS] += ",GPU-more"
    text = annealing("run", "line.py", "--conf", "run.yaml", "--chains", "7")
    assert len([*annealing.jobs.folder.glob("anneal/*/line/parts/*")]) == 3
    folder = next((annealing.folder / "anneal-runs").iterdir())
    value = float(read_npz(folder / "line/best.npz")["values"][0])
    assert text.startswith(f"line: done, best {value!r} of chain ")
    assert f"7 chains SIMULATED, in {folder / 'line'}" in text
    state = ", ".join(f"{number:.6g}" for number in read_npz(folder / "line/best.npz")["states"][0])
    assert f"  at ({state}); all of it in {folder / 'line/best.json'}" in text


@pytest.mark.slow
def test_models_and_configurations_make_pairs(annealing: Annealing) -> None:
    (annealing.folder / "more").mkdir()
    (annealing.folder / "more/line.py").write_text(LINE)
    argv = ("run", "line.py", "more/line.py", "--conf", "run.yaml", "--nodes", "1", "--out", "out")
    document = annealing.document(*argv)
    assert [run["name"] for run in document["runs"]] == ["line", "line-1"]
    values = [read_npz(annealing.folder / f"out/{name}/all.npz")["values"].tolist() for name in ("line", "line-1")]
    assert values[0] == values[1]


@pytest.mark.slow
def test_a_part_whose_node_dies_is_run_again(annealing: Annealing) -> None:
    slow = changed(
        "return old_temp * 0.99",
        "waste = 0.0\n    for i in range(20000):\n        waste += i\n    return old_temp * 0.99",
    )
    (annealing.folder / "line.py").write_text(slow)

    def kill() -> None:
        slurm = annealing.jobs.slurm
        while not [*annealing.jobs.folder.glob("anneal/*/line/division.json")]:
            if done.wait(0.05):
                return  # the run ended without one
        slurm.fail_node(min(task for task, state in slurm.listed().items() if state == "RUNNING"))

    done = threading.Event()
    killer = threading.Thread(target=kill)
    killer.start()
    try:
        document = annealing.run("--nodes", "2")
    finally:
        done.set()
        killer.join()
    assert document["exit_code"] == 0
    tries = [json.loads(path.read_text())["tries"] for path in annealing.jobs.folder.glob("jobs/1/runs/*/done.json")]
    assert sorted(tries) == [1, 2]
    found = read_npz(annealing.folder / "out/line/all.npz")
    assert found["states"].tobytes() == anneal(slow, thread_count=10, max_steps=60).chains.states.tobytes()


@pytest.mark.slow
def test_a_part_that_fails_is_told_in_words(annealing: Annealing) -> None:
    (annealing.folder / "line.py").write_text(changed("WIDTH = 4.0", "WIDTH = 1 // 0"))
    document = annealing.run("--nodes", "2", code=1)
    (run,) = document["runs"]
    assert (run["state"], document["folder"], document["exit_code"]) == ("failed", None, 1)
    assert run["parts"][0]["reason"] == "ZeroDivisionError: ZeroDivisionError: integer division or modulo by zero"
    assert "job 1.0 failed" in annealing.said.err
    assert not (annealing.folder / "out").exists()


@pytest.mark.slow
def test_a_run_that_fails_leaves_the_others_their_results(annealing: Annealing) -> None:
    (annealing.folder / "bad.py").write_text(changed("WIDTH = 4.0", "WIDTH = 1 // 0"))
    argv = ("run", "bad.py", "line.py", "--conf", "run.yaml", "--nodes", "1", "--out", "out")
    document = annealing.document(*argv, code=1)
    assert [run["state"] for run in document["runs"]] == ["failed", "done"]
    assert document["folder"] == str(annealing.folder / "out")
    assert [path.name for path in (annealing.folder / "out").iterdir()] == ["line"]
    assert len(read_npz(annealing.folder / "out/line/all.npz")["values"]) == 10
    assert "bad has no result" in annealing.said.err


@pytest.mark.slow
def test_chains_with_errors_are_told_and_the_results_of_the_others_come(annealing: Annealing) -> None:
    broken = changed("return state[0] * state[0] + state[1]", "return math.nan if state[1] else 0.0")
    broken = changed("    state[1] = 1.0", "    state[1] = 1.0 if state[0] > 2 else 0.0", broken)
    (annealing.folder / "line.py").write_text(broken)
    text = annealing("run", "line.py", "--conf", "run.yaml", "--out", "out", code=1)
    values = read_npz(annealing.folder / "out/line/all.npz")["values"]
    bad = np.flatnonzero(np.isnan(values))
    assert 0 < len(bad) < 10
    assert f"error: line: chain {bad[0]}, step 0: evaluate returned NaN" in text


@pytest.mark.slow
def test_local_runs_need_no_engine(annealing: Annealing) -> None:
    argv = ("run", "line.py", "--conf", "run.yaml", "--local", "--gpu-mode", "simulated")
    text = annealing(*argv, "--out", "out", "--plot", "best.svg")
    assert "line: best" in text
    assert "SIMULATED" in text
    assert "best value of 10 chains" in (annealing.folder / "best.svg").read_text()
    document = annealing.document(*argv, "--out", "more")
    assert (document["cluster"], document["job"], document["exit_code"]) == (None, None, 0)
    assert annealing.untouched


@pytest.mark.slow
def test_values_too_large_to_be_drawn_are_results(annealing: Annealing) -> None:
    model = changed("return state[0] * state[0] + state[1]", "return 1e305 if state[0] > 2 else state[0]")
    (annealing.folder / "line.py").write_text(model.replace("dimensions = 1", "dimensions = 1\nprecision = 'float64'"))
    argv = ("run", "line.py", "--conf", "run.yaml", "--local", "--gpu-mode", "simulated", "--out", "out")
    document = annealing.document(*argv, "--plot", "best.svg")
    assert document["exit_code"] == 0
    assert (annealing.folder / "best.svg").exists()
    values = read_npz(annealing.folder / "out/line/all.npz")["values"]
    assert document["runs"][0]["best"] == values.min()


def test_every_fault_is_told_before_anything_is_copied(annealing: Annealing) -> None:
    assert annealing("check", "line.py", "--conf", "run.yaml") == "no faults\n"
    assert annealing.document("check", "line.py")["faults"] == []
    bad = changed("def cool(", "def other(", changed("WIDTH = 4.0", "open('executed', 'w')\nWIDTH = 4.0"))
    (annealing.folder / "bad.py").write_text(changed("return state[0]", "import os\n    return state[0]", bad))
    (annealing.folder / "bad.yaml").write_text("max_step: 5\nprecision: float16\n")
    for verb in ("check", "run"):
        said = annealing.refused(verb, "bad.py", "--conf", "bad.yaml")
        assert "4 faults in the models and configurations; nothing was executed" in said
        for line in ("bad.py: cool: is missing", "evaluate: uses import", "bad.yaml:1: max_step: is not known",
                     "bad.yaml:2: precision: is 'float16'"):  # fmt: skip
            assert line in said
    (annealing.folder / "bare.py").write_text(changed("dimensions = 1", ""))
    assert annealing("check", "bare.py") == "no faults\n"
    assert "dimensions: is missing" in annealing.refused("run", "bare.py")
    assert annealing.untouched
    assert not (annealing.folder / "executed").exists()


BAD: dict[str, tuple[tuple[str, ...], str]] = {
    "no model": (("none.py",), "none.py: does not exist"),
    "no configuration": (("line.py", "--conf", "none.yaml"), "none.yaml: does not exist"),
    "no pairs": (
        ("line.py", "line.py", *(3 * ("--conf", "run.yaml"))),
        "2 models and 3 configurations cannot be paired",
    ),
    "no chains": (("line.py", "--chains", "0"), "--chains 0; allowed: 1 to 100,000,000"),
    "no target": (("line.py", "--target", "nan"), "--target must be a finite number"),
    "no nodes": (("line.py", "--nodes", "0"), "--nodes 0; allowed: 1 to 10,000"),
    "nodes here": (("line.py", "--nodes", "2", "--local"), "--nodes is for runs in a cluster"),
    "a mode there": (("line.py", "--gpu-mode", "simulated"), "--gpu-mode requires --local"),
    "no such cluster": (("line.py", "--cluster", "two"), "the cluster two has no nodes"),
    "old results": (("line.py", "--out", "."), "results are never overwritten"),
    "old results here": (("line.py", "--out", ".", "--local"), "results are never overwritten"),
    "a folder below a file": (("line.py", "--out", "run.yaml/out"), "results cannot be written to"),
    "a plot in a folder": (("line.py", "--plot", "/"), "cannot be written"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_is_refused_in_words(name: str, annealing: Annealing) -> None:
    argv, words = BAD[name]
    code = 3 if "cannot be written to" in words else 2
    assert words in annealing.refused("run", *argv, code=code)
    assert not (annealing.jobs.folder / "anneal").exists()
    assert [path.name for path in annealing.folder.iterdir() if path.is_dir()] == []


def test_a_plot_without_matplotlib_is_refused_before_anything_runs(
    annealing: Annealing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuprov.project.local_packages.find_spec", lambda _name: None)
    said = annealing.refused("run", "line.py", "--plot", "best.svg", code=3)
    assert said.startswith("--plot needs matplotlib; nothing was run")
    assert said.endswith("-m pip install 'gpuprov[charts]'")
    assert annealing.untouched


def test_ctrl_c_leaves_the_jobs_and_says_how_to_end_them(annealing: Annealing, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    annealing.jobs.slurm.hold()
    monkeypatch.setattr("gpuprov.roles.work.job_controller.JobController.wait", interrupt)
    annealing("run", "line.py", "--conf", "run.yaml", code=130)
    assert "1 is waiting; to end it: gpuprov jobs cancel 1" in annealing.said.err
    assert len(annealing.jobs.orders()) == 1


HOSTILE: dict[str, Any] = {
    "another folder": {"folder": "/etc", "runs": [{"name": "line", "parts": 1}], "parts": 1},
    "no runs": {"runs": [], "parts": 1},
    "a way out": {"runs": [{"name": "../line", "parts": 1}], "parts": 1},
    "parts that are none": {"runs": [{"name": "line", "parts": 0}], "parts": 1},
    "more parts": {"runs": [{"name": "line", "parts": 1}], "parts": 2},
    "another key": {"runs": [{"name": "line", "parts": 1, "more": 1}], "parts": 1},
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_node_that_lies_about_what_it_prepared_is_not_believed(name: str, annealing: Annealing) -> None:
    def say(command: Command) -> ExecResult:
        folder = command.argv[command.argv.index("--store") + 1] if "--store" in command.argv else ""
        told = {"schema": "gpuprov.anneal-prepared/v1", "version": 1, "folder": folder, **HOSTILE[name]}
        return ExecResult(exit_code=0, stdout=json.dumps(told), stderr="")

    annealing.jobs.say = say
    assert "gave an unexpected answer" in annealing.refused("run", "line.py", code=4)
    assert annealing.jobs.orders() == []
