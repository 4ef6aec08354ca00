"""`gpuprov grid`: the programs in the fake node are the real ones, and jobs really run."""

from __future__ import annotations

import csv
import io
import json
import shutil
import tarfile
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

from gpuprov.cli.main import main
from gpuprov.cli.tables import Screen
from gpuprov.core.errors import TimedOut
from gpuprov.drivers.base import ExecResult
from gpuprov.shapes.cluster_spec import JobsSpec
from gpuprov.spec.spec_error import SpecError
from tests.fakes.jobs_in_nodes import give_jobs
from tests.schemas import validate
from tests.unit.gpuwork.conftest import JOB, PANDAS, PARAMS
from tests.unit.spec.test_people import ANN

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tests.fakes.engine import Command
    from tests.fakes.forked_programs import ForkedPrograms
    from tests.fakes.jobs_in_nodes import JobsInNodes
    from tests.unit.cli.conftest import Typed

ORDER = ["64 0.1", "64 0.01", "128 0.1", "128 0.01", "256 0.1", "256 0.01"]
STORE = "/shared/grids/Project/runs"
RUN = "param_001/2026-11-22-16-40-12_num1"


class Grid:
    """What is typed about the lab's template, on a host whose cluster takes jobs."""

    def __init__(self, typed: Typed, jobs: JobsInNodes, capfd: pytest.CaptureFixture[str], project: Path) -> None:
        self.world, self.jobs, self.project = typed.world, jobs, project
        self.store = jobs.folder / "grids/Project/runs"
        self._captured = capfd

    def __call__(self, verb: str, *options: str, code: int = 0, project: str | None = None) -> str:
        argv = ("grid", verb, *options, *(() if project == "" else (project or str(self.project),)))
        return self.type(*argv, code=code)

    def type(self, *argv: str, code: int = 0) -> str:
        self._captured.readouterr()
        found = main(argv, host=self.world.host)
        self.said = self._captured.readouterr()
        assert found == code, f"{self.said.out}\n{self.said.err}"
        return self.said.out

    def document(self, verb: str, *options: str, code: int = 0, project: str | None = None) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self(verb, "--json", *options, code=code, project=project))
        validate(document)
        return document

    def refused(self, verb: str, *options: str, code: int = 2, project: str | None = None) -> tuple[str, str, str]:
        error = self.document(verb, *options, code=code, project=project)["error"]
        assert error["evidence"]
        assert error["fix"]
        return error["what"], error["evidence"], error["fix"]

    def run(self, *options: str) -> list[str]:
        """Submit what is missing, wait, and return the names of the runs."""
        document = self.document("run", "--gpus", "0", *options)
        if document["id"]:
            self.type("jobs", "wait", document["id"])
        names: list[str] = document["runs"]
        return names

    def write(self, files: dict[str, str]) -> None:
        for name, text in files.items():
            (self.project / name).parent.mkdir(parents=True, exist_ok=True)
            (self.project / name).write_text(text)

    @property
    def untouched(self) -> bool:
        """Whether the node was asked nothing and given nothing."""
        return self.jobs.asked == [] and "write_tree" not in [step for step, _ in self.world.engine.faults.passed]


@pytest.fixture
def grid(
    typed: Typed,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    programs: ForkedPrograms,
    capfd: pytest.CaptureFixture[str],
) -> Iterator[Grid]:
    """Two nodes, the lab's template, and a Slurm that runs what it is given."""
    typed.world.begin_with(2)
    (tmp_path / "jobs").mkdir()
    jobs = give_jobs(typed.world, tmp_path / "jobs", monkeypatch, programs)
    jobs.share()
    jobs.give_python()
    typed.world.engine.faults.clear()
    made = Grid(typed, jobs, capfd, tmp_path / "Project")
    made.write({"src/params.py": PARAMS, "src/job.py": JOB, "pandas.py": PANDAS})
    yield made
    jobs.finish()


@pytest.fixture
def held(grid: Grid) -> Grid:
    """The same with a Slurm that starts nothing."""
    grid.jobs.slurm.hold()
    return grid


def table(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


@pytest.mark.slow
def test_the_known_answers_of_the_lab(grid: Grid) -> None:
    first = grid.run()
    rows = table(grid("results"))
    assert [f"{row['num_hidden_units']} {row['lr']}" for row in rows] == ORDER
    assert [f"{row['param_name']}/{row['job_name']}" for row in rows] == first
    assert {(row["last.precision"], row["last.recall"], row["run.state"]) for row in rows} == {("0.8", "0.7", "done")}
    assert grid("run", "--gpus", "0") == ""
    assert "submitted runs: 0, done: 6\n" in grid.said.err
    assert grid.document("run")["id"] is None
    assert grid.jobs.held() == []
    shutil.rmtree(grid.store / first[2])
    assert [name.partition("/")[0] for name in grid.run()] == ["param_003"]
    assert [name.partition("/")[0] for name in grid.run("--reps", "2")] == [
        f"param_00{number}" for number in range(1, 7)
    ]
    assert len(table(grid("results"))) == 12
    assert len(grid.jobs.orders()) == 3


@pytest.mark.slow
def test_runs_of_a_person_are_theirs_and_come_back(grid: Grid) -> None:
    grid.world.record(people=(ANN,), jobs=JobsSpec(submit_as=True))
    names = grid.document("run", "--gpus", "0", "--first-only", "--as", "ann")["runs"]
    grid.type("jobs", "wait", "1", "--as", "ann")
    assert set(grid.jobs.persons) == {"ann"}
    home = grid.jobs.folder / "home/ann"
    assert [path.name for path in (home / "grids").iterdir()] == ["Project"]
    assert json.loads((home / "jobs/1/submitter.json").read_text())["person"] == "ann"
    assert not grid.store.exists()
    assert [row["run.state"] for row in table(grid("results", "--as", "ann"))] == ["done"]
    assert grid.document("status", "--as", "ann")["counts"]["done"] == 1
    assert grid.document("pull", "--as", "ann")["runs"] == names
    assert (grid.project / "runs" / names[0]).is_dir()
    assert grid.refused("results")[:2] == ("cluster lab has no runs of Project", f"{STORE} in its nodes holds none")
    assert grid("cancel", "--as", "ann") == "no run of Project is waiting or running\n"


@pytest.mark.slow
def test_what_waits_is_not_submitted_again_and_can_be_cancelled(held: Grid) -> None:
    assert held("run", "--at-most", "4", "--time", "1h", "--memory", "8GiB", "--retries", "2") == "1\n"
    assert "submitted runs: 6, done: 0" in held.said.err
    (order,) = held.jobs.orders()
    assert (order["name"], order["count"], order["at_most"]) == ("Project", 6, 4)
    assert (order["time_limit_s"], order["memory_bytes"], order["gpus"], order["retries"]) == (3600, 8 * 1024**3, 1, 2)
    assert order["project"] is None
    assert order["command"][-2:] == ["--retries", "2"]  # type: ignore[index]
    document = held.document("run", "--reps", "2")
    assert (len(document["runs"]), document["under_way"]) == (6, 6)
    assert held("run", "--reps", "2") == ""
    assert "submitted runs: 0, done: 0, under way: 12\n" in held.said.err
    assert held.document("status")["counts"] == {"done": 0, "failed": 0, "running": 0, "waiting": 12, "missing": 0}
    assert [job["state"] for job in held.document("cancel")["jobs"]] == ["cancelled"] * 12
    assert held("cancel") == "no run of Project is waiting or running\n"
    assert held.document("status")["counts"]["missing"] == 6
    assert held.document("status")["runs"] == []


def test_runs_have_the_limits_of_the_spec_unless_their_own_are_given(held: Grid) -> None:
    held.world.record(jobs=JobsSpec(time="12h", memory="4GiB"))
    held("run", "--memory", "8GiB")
    (order,) = held.jobs.orders()
    assert (order["time_limit_s"], order["memory_bytes"]) == (12 * 3600, 8 * 1024**3)


def test_a_job_of_somebody_with_the_same_name_is_none_of_the_grid(held: Grid) -> None:
    for command in (("true",), ("python3", "-m", "gpuwork.grid", "one", "/shared/grids/Other/runs/x", "{n}")):
        held.type("submit", "--no-project", "--name", "Project", "--count", "2", "--", *command)
    assert held("cancel") == "no run of Project is waiting or running\n"
    assert held.document("status")["counts"]["missing"] == 6


@pytest.mark.slow
def test_a_run_that_fails_has_its_tries_and_is_told(grid: Grid) -> None:
    failing = JOB.replace("def main(param2val):", "def main(param2val):\n    assert param2val['lr'] > 0.05, 'too low'")
    grid.write({"src/job.py": failing})
    document = grid.document("run", "--gpus", "0", "--retries", "1")
    grid.type("jobs", "wait", document["id"], code=1)
    status = grid.document("status")
    assert status["counts"] == {"done": 3, "failed": 3, "running": 0, "waiting": 0, "missing": 3}
    failed = [run for run in status["runs"] if run["state"] == "failed"]
    assert failed[0]["reason"] == "exit status 1: AssertionError: too low"
    assert failed[0]["values"] == "lr=0.01 num_hidden_units=64"
    assert failed[0]["job"] == "1.1"
    assert json.loads((grid.store / failed[0]["name"] / "done.json").read_text())["tries"] == 2
    text = grid("status")
    assert text.splitlines()[-1] == "done: 3, failed: 3, running: 0, waiting: 0, missing: 3"
    grid.write({"src/job.py": JOB})
    assert [name.partition("/")[0] for name in grid.run()] == ["param_002", "param_004", "param_006"]
    grid("run")
    assert "done: 6 (3 with other code)" in grid.said.err


@pytest.mark.slow
def test_a_run_beyond_its_time_has_failed_and_is_repeated(grid: Grid) -> None:
    slow = "import time\n" + JOB.replace("    print(", "    time.sleep(60 * (param2val['lr'] < 0.05))\n    print(")
    grid.write({"src/job.py": slow})
    document = grid.document("run", "--gpus", "0", "--time", "2")
    grid.type("jobs", "wait", document["id"], code=1)
    failed = [run for run in grid.document("status")["runs"] if run["state"] == "failed"]
    assert {run["reason"] for run in failed} == {"ended after its time limit of 2 s"}
    assert sorted(run["name"] for run in failed) == sorted(grid.document("run")["runs"]), "in the same folders"


@pytest.mark.slow
def test_one_run_of_the_defaults_and_one_of_the_first_combination(grid: Grid) -> None:
    assert len(grid.run("--minimal")) == 1
    assert (table(grid("results"))[0]["epochs"], table(grid("results"))[0]["num_hidden_units"]) == ("1", "32")
    assert len(grid.run("--first-only")) == 1
    assert grid.document("status")["counts"]["missing"] == 5


# Its first package is in nodes alone, as numpy is where gpuprov was installed without it.
THERE = """
import os
if os.environ["HOME"] != {home!r}:
    import only_in_nodes
param2requests = {{"lr": [rate / 10 for rate in range(1, {most})]}}
param2default = {{"lr": 0.1}}
"""


def test_a_params_file_is_run_where_its_packages_are(held: Grid) -> None:
    held.write({"src/params.py": THERE.format(home=str(held.jobs.folder), most=4)})
    assert len(held.document("run")["runs"]) == 3
    held.write({"src/params.py": THERE.format(home=str(held.jobs.folder), most=6)})
    counts = held.document("status")["counts"]
    assert (counts["waiting"], counts["missing"]) == (3, 2)
    assert held.jobs.held() == []
    held.write({"src/params.py": THERE.format(home=str(held.jobs.folder), most=1)})
    for verb in ("run", "status"):
        said = "\n".join(held.refused(verb, code=2 if verb == "run" else 4))
        assert "is an empty list" in said, "its faults are found there"
    what, evidence, fix = held.refused("run", "--local", code=3)
    assert what == "this machine lacks what this needs; nothing was written"
    assert "src/params.py:4: cannot be run: ModuleNotFoundError: No module named 'only_in_nodes'" in evidence
    assert fix.endswith(" -m pip install only_in_nodes")
    assert not (held.project / "runs").exists()


@pytest.mark.slow
def test_what_is_pulled_is_whole_and_leaves_other_files(grid: Grid) -> None:
    first = grid.run()
    (grid.project / "runs/notes").mkdir(parents=True)
    (grid.project / "runs/notes/mine").write_text("mine")
    document = grid.document("pull")
    runs = grid.project / "runs"
    assert (document["runs"], document["here"], document["folder"]) == (sorted(first), 0, str(runs))
    assert (runs / first[0] / "precision.csv").read_text() == "index,precision\n1,0.5\n2,0.5\n3,0.8\n"
    assert "lr: 0.1" in (runs / "param_001/param2val.yaml").read_text()
    found = pd.read_csv(runs / "results.csv")
    assert [f"{row.num_hidden_units} {row.lr}" for row in found.itertuples()] == ORDER
    columns = ("num_hidden_units", "lr", "epochs", "last.recall", "run.exit_status", "run.simulated")
    assert "".join(found[column].dtype.kind for column in columns) == "ififib"
    assert {path.name for path in runs.iterdir()} == {"notes", "results.csv", *(f"param_00{n}" for n in range(1, 7))}
    (runs / first[0] / "precision.csv").write_text("changed here")
    grid.run("--reps", "2")
    document = grid.document("pull")
    assert (len(document["runs"]), document["here"]) == (6, 6)
    assert (runs / first[0] / "precision.csv").read_text() == "changed here"
    assert len(table((runs / "results.csv").read_text())) == 12
    assert "6 runs" not in grid("pull")
    assert "copied 0 runs" in grid("pull")


@pytest.mark.slow
def test_what_is_in_the_way_of_a_pull_stays(grid: Grid, tmp_path: Path) -> None:
    grid.run("--first-only")
    runs = grid.project / "runs"
    runs.write_text("a file")
    assert "it is not a folder" in grid.refused("pull")[1]
    runs.unlink()
    runs.symlink_to(tmp_path)
    assert "it is not a folder" in grid.refused("pull")[1]
    runs.unlink()
    runs.mkdir()
    (runs / "results.csv").write_text("mine")
    assert "results.csv was not written by an earlier pull" in grid.refused("pull")[1]
    (runs / "results.csv").unlink()
    (runs / "param_001").mkdir()
    (runs / "param_001/param2val.yaml").write_text("other")
    assert "param_001 has other values here" in grid.refused("pull")[1]
    assert [path.name for path in runs.iterdir()] == ["param_001"]
    assert [path.name for path in (runs / "param_001").iterdir()] == ["param2val.yaml"]


HOSTILE_TARS = {
    "a link as a run": [(f"./{RUN}", tarfile.SYMTYPE)],
    "a link in a run": [(f"./{RUN}", tarfile.DIRTYPE), (f"./{RUN}/x", tarfile.SYMTYPE)],
    "a way out": [("./../../evil", tarfile.REGTYPE)],
    "an absolute path": [("/etc/evil", tarfile.REGTYPE)],
    "no values": [("./param_001", tarfile.DIRTYPE), (f"./{RUN}", tarfile.DIRTYPE)],
    "a run that is a file": [("./param_001", tarfile.DIRTYPE), (f"./{RUN}", tarfile.REGTYPE)],
    "garbage": [],
}


@pytest.mark.parametrize("name", HOSTILE_TARS)
def test_what_a_hostile_node_gives_writes_nothing_else(name: str, grid: Grid, tmp_path: Path) -> None:
    columns = ["param_name", "job_name", *(f"run.{part}" for part in ABOUT)]
    row = [*RUN.split("/"), "done", *[""] * (len(ABOUT) - 1)]
    listed = {"columns": columns, "rows": [row], "combinations": {"param_001": "0" * 64}, "submissions": {}}
    grid.jobs.say = lambda _command: answer("grid-listed", **listed)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as made:
        made.addfile(entry("./", tarfile.DIRTYPE))
        for path, kind in HOSTILE_TARS[name]:
            made.addfile(entry(path, kind))
    grid.world.engine.tars[STORE] = packed.getvalue() if HOSTILE_TARS[name] else b"x" * 5000
    before = sorted(tmp_path.rglob("*"))
    code = main(["grid", "pull", str(grid.project)], host=grid.world.host)
    new = {str(path.relative_to(tmp_path)) for path in set(tmp_path.rglob("*")) - set(before) if "log" not in str(path)}
    assert code in (0, 4)
    assert new <= {"Project/runs", "Project/runs/results.csv"}


ABOUT = ("state", "exit_status", "reason", "node", "gpus", "simulated", "started", "seconds", "code", "image")


def entry(name: str, kind: bytes) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.mode, info.linkname = kind, 0o777, "/etc/passwd" if kind == tarfile.SYMTYPE else ""
    return info


def answer(name: str, **content: object) -> ExecResult:
    told = json.dumps({"schema": f"gpuprov.{name}/v1", "version": 1, **content})
    return ExecResult(exit_code=0, stdout=told, stderr="")


@pytest.mark.slow
def test_the_page_begins_with_the_table_and_has_a_chart_for_each_series(
    grid: Grid, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grid.run()
    grid("results", "--html", str(tmp_path / "page.html"))
    page = (tmp_path / "page.html").read_text()
    assert "SIMULATED" not in page
    assert page.index("<td>param_001</td>") < page.index("<svg ")
    for series in ("precision", "recall"):
        assert page.count(f">{series} of 6 runs, coloured by lr</text>") == 1
        assert page.count(f">{series}: last values by lr and num_hidden_units</text>") == 1
    assert page.count("<svg ") == 4
    assert "<script" not in page
    done = next(grid.store.glob("param_001/*/done.json"))
    done.write_text(done.read_text().replace('"simulated": false', '"simulated": true'))
    grid("results", "--html", str(tmp_path / "page.html"))
    assert "coloured by lr SIMULATED" in (tmp_path / "page.html").read_text()
    assert "SIMULATED" in grid.said.err
    assert grid.document("results")["simulated"] is True
    monkeypatch.setattr("gpuprov.project.local_packages.find_spec", lambda _name: None)
    grid("results", "--html", str(tmp_path / "page.html"))
    page = (tmp_path / "page.html").read_text()
    assert "<td>param_001</td>" in page
    assert "<svg " not in page
    assert "-m pip install &#39;gpuprov[charts]&#39;" in page
    assert "has no charts: matplotlib is not installed; next: " in grid.said.err


@pytest.mark.slow
def test_at_a_terminal_the_best_run_comes_first(grid: Grid, monkeypatch: pytest.MonkeyPatch) -> None:
    grid.run()
    in_pipe = grid("results")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("gpuprov.cli.session.Session.screen", Screen(columns=80))
    text = grid("results")
    assert text.splitlines()[0].split() == ["RUN", "lr", "num_hidden_units", "precision", "recall", "STATE", "SECONDS"]
    assert text.splitlines()[1].startswith("param_001  0.1   64                0.8        0.7     done   ")
    assert text.splitlines()[-1] == "the best first: highest precision"
    assert max(map(len, text.splitlines())) <= 80
    assert grid("results", "--lowest", "recall").endswith("the best first: lowest recall\n")
    monkeypatch.undo()
    assert grid("results") == in_pipe, "CSV in the order of the runs"
    for options, words in (
        (("--lowest", "loss"), "no run has a series 'loss'\nseries: precision, recall\n--lowest precision"),
        (("--lowest", "recall", "--highest", "recall"), "--lowest and --highest exclude each other"),
    ):
        assert words in "\n".join(grid.refused("results", *options))


@pytest.mark.slow
def test_local_runs_are_made_here(grid: Grid) -> None:
    assert grid("run", "--local", "--at-most", "3") == "6 runs: 6 done\n"
    document = grid.document("run", "--local")
    assert (document["schema"], document["exit_code"]) == ("gpuprov.grid-local/v1", 0)
    assert "0 runs" in grid.said.err
    assert len(list((grid.project / "runs").glob("param_*/*/done.json"))) == 6
    assert grid.untouched


BAD: dict[str, tuple[str, tuple[str, ...], str]] = {
    "reps 0": ("run", ("--reps", "0"), "--reps: is 0, for 6 combinations (allowed: 1 to 1,666)"),
    "reps huge": ("run", ("--reps", "1667"), "--reps: is 1667"),
    "reps a word": ("run", ("--reps", "x"), "not a valid integer"),
    "at most 0": ("run", ("--at-most", "0"), "--at-most: is 0"),
    "gpus 65": ("run", ("--gpus", "65"), "--gpus: is 65"),
    "retries": ("run", ("--retries", "101"), "--retries: is 101"),
    "time": ("run", ("--time", "soon"), "is not a valid duration"),
    "memory": ("run", ("--memory", "8"), "--memory: '8' is not a valid amount of memory"),
    "time and memory": ("run", ("--time", "soon", "--memory", "8", "--reps", "0"), "3 faults in the job"),
    "time and gpus here": ("run", ("--local", "--time", "1h", "--gpus", "1"), "--time and --gpus are for runs in"),
    "time here": ("run", ("--local", "--time", "1h"), "--time is for runs in a cluster"),
    "gpus here": ("run", ("--local", "--gpus", "1"), "--gpus is for runs in a cluster"),
    "at most here": ("run", ("--local", "--at-most", "0"), "--at-most"),
    "no such cluster": ("run", ("--cluster", "two"), "the cluster two has no nodes"),
    "results of none": ("results", (), "has no runs of Project"),
    "pull of none": ("pull", (), "has no runs of Project"),
    "status of no cluster": ("status", ("--cluster", "two"), "the cluster two has no nodes"),
    "cancel of no cluster": ("cancel", ("--cluster", "two"), "the cluster two has no nodes"),
    "a page in a folder": ("results", ("--html", "/"), "cannot be written"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_is_refused_in_words(name: str, grid: Grid) -> None:
    verb, options, words = BAD[name]
    parts = grid.refused(verb, *options)
    assert words in "\n".join(parts)
    assert len(parts[0]) < 300
    assert not (grid.jobs.folder / "grids").exists()
    assert not (grid.project / "runs").exists()
    assert "write_tree" not in [step for step, _ in grid.world.engine.faults.passed]


@pytest.mark.parametrize("verb", ["run", "status", "results", "pull", "cancel"])
@pytest.mark.parametrize("project", ["/no/where", "/etc/passwd", "a\nb", "x" * 5000])
def test_what_is_no_project_is_refused(verb: str, project: str, grid: Grid) -> None:
    assert "is not the folder of a project" in grid.refused(verb, project=project)[0]
    assert "Missing argument" in grid.refused(verb, project="")[0]
    assert grid.untouched


def test_all_faults_of_a_project_are_told_at_once_and_nothing_is_copied(grid: Grid) -> None:
    grid.write({"src/params.py": 'param2requests = {"lr": 1,\n"x": [[1]]}\nparam2default = {"lr": [1], "x": 0}\n'})
    (grid.project / "passwords").symlink_to("/etc/passwd")
    with (grid.project / "huge.bin").open("wb") as file:
        file.truncate(5 * 1024**3)
    what, evidence, fix = grid.refused("run", "--gpus", "65", "--retries", "101")
    assert what == "7 faults in the job; nothing was submitted"
    lines = evidence.splitlines()
    starts = [line.partition(": ")[0] for line in lines]
    assert starts == [
        "--gpus",
        "--retries",
        "src/params.py:1",
        "src/params.py:2",
        "src/params.py:3",
        "huge.bin",
        "passwords",
    ]
    assert "src/params.py:2: param2requests.x: has a value that is a list" in lines[3]
    assert "is a link out of the project, to /etc/passwd" in lines[6]
    assert "has 5120 MiB, more than 256 MiB" in lines[5]
    assert "correct the project" in fix
    assert grid.untouched
    assert "list_nodes" not in [step for step, _ in grid.world.engine.faults.passed], "not even the engine was asked"
    assert "5 faults in the project" in grid.refused("status")[0]
    assert "5 faults in the project" in grid.refused("run", "--local")[0]


def many(count: int) -> str:
    names = ", ".join(f'"p{number}": 0' for number in range(count))
    return f'param2requests = {{"p0": [1]}}\nparam2default = {{{names}}}\n'


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"src/params.py": None}, "has neither params.py nor grid.yaml"),
        ({"src/job.py": None}, "src/job.py: is missing"),
        ({"src/grid.yaml": "fixed: {x: 1}\n"}, "has src/grid.yaml and src/params.py"),
        ({"src/params.py": many(2000)}, "has 2000 parameters (allowed: at most 1000)"),
        ({"src/params.py": "\0"}, "is not Python"),
    ],
)
def test_a_project_that_is_none_is_refused(files: dict[str, str | None], words: str, grid: Grid) -> None:
    for name in files:
        (grid.project / name).unlink(missing_ok=True)
    grid.write({name: text for name, text in files.items() if text is not None})
    assert words in "\n".join(grid.refused("run"))
    assert grid.untouched


@pytest.mark.slow
def test_a_folder_that_cannot_name_a_grid_can_still_be_run_here(grid: Grid) -> None:
    odd = grid.project.with_name("My Project")
    grid.project.rename(odd)
    for verb in ("run", "status", "results", "pull", "cancel"):
        assert "'My Project'" in grid.refused(verb, project=str(odd))[0]
    assert grid("run", "--local", "--first-only", project=str(odd)) == "1 run: 1 done\n"


def test_a_cluster_without_a_shared_folder_says_what_to_type(grid: Grid) -> None:
    for node in grid.world.engine.nodes.values():
        node.mounts = ()
    for verb in ("run", "status", "results", "pull", "cancel"):
        assert grid.refused(verb)[2] == "gpuprov cluster up --share"
    assert not (grid.project / "runs").exists()


@pytest.mark.slow
def test_what_slurm_refuses_is_prepared_and_not_submitted(grid: Grid) -> None:
    grid.jobs.slurm.said_by("sbatch", "sbatch: error: Invalid account", code=1)
    assert "Invalid account" in grid.refused("run", "--gpus", "0", code=4)[1]
    grid.jobs.slurm.obey("sbatch")
    assert grid.document("status")["counts"] == {"done": 0, "failed": 0, "running": 0, "waiting": 0, "missing": 6}
    assert len(grid.run()) == 6


LISTED: dict[str, Any] = {
    "columns": ["param_name", "job_name", *(f"run.{part}" for part in ABOUT)],
    "rows": [[*RUN.split("/"), "done", *[""] * (len(ABOUT) - 1)]],
    "combinations": {"param_001": "0" * 64},
    "submissions": {},
}
WRONG_TABLES: Sequence[dict[str, Any]] = (
    {"columns": []},
    {"columns": LISTED["columns"][::-1]},
    {"rows": [["x"]]},
    {"rows": [["../../etc", "x", "done", *[""] * (len(ABOUT) - 1)]]},
    {"rows": [[*RUN.split("/"), "happy", *[""] * (len(ABOUT) - 1)]]},
    {"rows": LISTED["rows"] * 2},
    {"combinations": {}},
    {"combinations": {"param_001": "x"}},
    {"submissions": {"../x": []}},
    {"submissions": {"2026-11-22-16-40-12": ["../x"]}},
    {"more": 1},
)


@pytest.mark.parametrize("wrong", WRONG_TABLES, ids=str)
@pytest.mark.parametrize("verb", ["results", "pull"])
def test_a_table_that_is_none_is_refused(verb: str, wrong: dict[str, Any], grid: Grid) -> None:
    grid.jobs.say = lambda _command: answer("grid-listed", **{**LISTED, **wrong})
    what = grid.refused(verb, code=4)[0]
    assert what == "the program for grids in c000 gave an unexpected answer (`list`)"
    assert not (grid.project / "runs").exists()


def interrupt(_command: Command) -> ExecResult:
    raise KeyboardInterrupt


def late(_command: Command) -> ExecResult:
    raise TimedOut("it did not finish", evidence="no output", fix="gpuprov shell c000")


def test_all_is_asked_at_once_and_nothing_of_the_copy_stays(held: Grid) -> None:
    for under_way in (0, 6):
        held.jobs.asked.clear()
        assert held.document("run")["under_way"] == under_way
        assert held.jobs.asked == [("submit",)]
        assert held.jobs.held() == []
    assert len(held.jobs.orders()) == 1


def test_what_nobody_heard_the_end_of_says_where_to_look(held: Grid) -> None:
    held.jobs.say = late
    assert held.refused("run", code=6)[2] == "see whether it was submitted: gpuprov jobs"
    assert held.jobs.held() == []
    held.jobs.say = interrupt
    held("run", code=130)
    assert "see whether it was submitted: gpuprov jobs" in held.said.err
    assert held.jobs.held() == []


def test_unknown_limits_are_refused_before_anything_is_copied(held: Grid, monkeypatch: pytest.MonkeyPatch) -> None:
    unknown = SpecError("the spec cannot be read", problems=(), fix="gpuprov cluster up")
    monkeypatch.setattr("gpuprov.lifecycle.find_controller._limits", lambda _state: unknown)
    assert held.document("run", code=2)["error"]["what"] == "the spec cannot be read"
    assert held.untouched


@pytest.mark.parametrize(
    "wrong",
    [
        {"project": "Other"},
        {"project": None},
        {"id": None},
        {"id": 1},
        {"id": "1.0"},
        {"id": "0"},
        {"id": "1\n"},
        {"runs": []},
        {"runs": ["x"]},
        {"runs": ["../../etc/x"]},
        {"runs": None},
        {"done": -1},
        {"under_way": True},
        {"other_code": "1"},
        {"more": 1},
    ],
    ids=str,
)
def test_an_answer_that_is_none_is_refused(wrong: dict[str, Any], grid: Grid) -> None:
    told = {"project": "Project", "id": "1", "runs": [RUN], "done": 0, "under_way": 0, "other_code": 0}
    grid.jobs.say = lambda _command: answer("grid-submitted", **told)
    assert grid.document("run")["id"] == "1"
    grid.jobs.say = lambda _command: answer("grid-submitted", **{**told, **wrong})
    assert grid.refused("run", code=4)[0] == "the program for grids in c000 gave an unexpected answer (`submit`)"
    assert grid.jobs.held() == []
