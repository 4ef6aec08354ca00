"""`python3 -m gpuwork.grid` as people and queues call it, with the lab's known answers."""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuwork.grid.cli import main
from gpuwork.grid.tables import MOST_POINTS, thin_out
from tests.schemas import validate
from tests.unit.gpuwork.conftest import lives, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[3]
ENV = {**os.environ, "PYTHONPATH": str(ROOT)}
UUID = "GPU-5fd4f087-86f3-0b8f-8f46-1234567890ab"

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("in_bare_python")]


class Typed:
    """Types commands in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.err = ""

    def __call__(self, *arguments: str | Path, code: int = 0) -> str:
        status = main([*map(str, arguments)])
        out, self.err = self._capsys.readouterr()
        assert status == code, self.err
        return out


@pytest.fixture
def typed(capsys: pytest.CaptureFixture[str]) -> Typed:
    return Typed(capsys)


def table(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(text.splitlines()))


def start(*arguments: str | Path) -> subprocess.Popen[str]:
    argv = [sys.executable, "-m", "gpuwork.grid", *map(str, arguments)]
    return subprocess.Popen(argv, env=ENV, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_the_known_answers_of_the_lab(make: Callable[..., Path], typed: Typed, tmp_path: Path) -> None:
    project = make()
    share = tmp_path / "share"
    typed("run", project, "--local", "--share", share, code=2)
    assert f"{share} is not a folder" in typed.err, "it may not be mounted"
    share.mkdir()
    assert typed("run", project, "--local", "--share", share) == "6 runs: 6 done\n"
    assert [line.split(" done in ")[0].split(" ", 2)[2] for line in typed.err.splitlines()[1:]] == [
        "num_hidden_units=64 lr=0.1",
        "num_hidden_units=64 lr=0.01",
        "num_hidden_units=128 lr=0.1",
        "num_hidden_units=128 lr=0.01",
        "num_hidden_units=256 lr=0.1",
        "num_hidden_units=256 lr=0.01",
    ]
    assert typed("run", project, "--local", "--share", share) == "0 runs\n"
    assert typed("run", project, "--local", "--share", share, "--reps", "2", "--at-most", "3") == "6 runs: 6 done\n"
    runs = share / "Project/runs"
    jobs = sorted(path.name for path in (runs / "param_006").iterdir() if path.is_dir())
    assert [name.rpartition("_")[2] for name in jobs] == ["num1", "num2"]
    assert (runs / "param_006" / jobs[0] / "precision.csv").read_text() == "index,precision\n1,0.5\n2,0.5\n3,0.8\n"
    assert (runs / "param_006" / jobs[1] / "recall.csv").read_text() == "index,recall\n1,0.4\n2,0.6\n3,0.7\n"
    assert "param_name: param_006\nlr: 0.01\nnum_hidden_units: 256\n" in (runs / "param_006/param2val.yaml").read_text()
    assert (runs / "param_006" / jobs[0] / "saves").is_dir()
    log = (runs / "param_001").glob("*_num1/log.txt")
    told = "{'lr': 0.1, 'num_hidden_units': 64, 'epochs': 3, 'param_name': 'param_001', 'job_name': '"
    assert next(log).read_text().startswith(told)
    rows = table(typed("results", project, "--share", share))
    assert len(rows) == 12
    assert {key: rows[0][key] for key in ("param_name", "lr", "num_hidden_units", "epochs", "last.recall")} == {
        "param_name": "param_001",
        "lr": "0.1",
        "num_hidden_units": "64",
        "epochs": "3",
        "last.recall": "0.7",
    }
    assert {row["run.state"] for row in rows} == {"done"}
    assert not (project / "runs").exists()


def test_one_deleted_result_is_exactly_one_run(make: Callable[..., Path], typed: Typed) -> None:
    project = make()
    typed("run", project, "--local")
    (one,) = (project / "runs/param_004").glob("*_num1")
    shutil.rmtree(one)
    assert typed("run", project, "--local") == "1 run: 1 done\n"
    assert "param_004/" in typed.err
    next((project / "runs/param_002").glob("*/done.json")).unlink()
    assert typed("run", project, "--local") == "1 run: 1 done\n"
    (rows,) = [row for row in [table(typed("results", project))] if row]
    assert [row["param_name"] for row in rows] == [f"param_{number:03d}" for number in range(1, 7)]


def test_minimal_and_first_only(make: Callable[..., Path], typed: Typed) -> None:
    project = make()
    assert typed("run", project, "--local", "--minimal") == "1 run: 1 done\n"
    assert typed("run", project, "--local", "--first-only") == "1 run: 1 done\n"
    values = [(row["num_hidden_units"], row["lr"], row["epochs"]) for row in table(typed("results", project))]
    assert values == [("32", "0.1", "1"), ("64", "0.1", "3")]
    assert typed("run", project, "--local") == "5 runs: 5 done\n"


def test_a_yaml_grid_with_a_job_beside_it(make: Callable[..., Path], typed: Typed) -> None:
    job = "def main(param2val):\n    return {'twice': 2 * param2val['x'], 'layers': len(param2val['layers'])}\n"
    project = make({"grid.yaml": "fixed: {x: 21}\ngrid: {layers: [[1, 2], [3]]}\n", "job.py": job})
    assert typed("run", project, "--local") == "2 runs: 2 done\n"
    rows = table(typed("results", project))
    assert [(row["layers"], row["last.twice"], row["last.layers"]) for row in rows] == [
        ("(1, 2)", "42", "2"),
        ("(3,)", "42", "1"),
    ]


FAILING = """
import sys
def main(param2val):
    print("here I am", flush=True)
    if param2val["how"] == "raise":
        raise ValueError("no such luck")
    if param2val["how"] == "kill":
        import os, signal
        os.kill(os.getpid(), signal.SIGKILL)
    if param2val["how"] == "return":
        return 7
"""


def test_a_run_that_fails_does_not_stop_the_others_and_is_made_again(make: Callable[..., Path], typed: Typed) -> None:
    project = make({"grid.yaml": "grid: {how: [raise, kill, return, work]}\n", "job.py": FAILING})
    assert typed("run", project, "--local", code=1) == "4 runs: 1 done, 3 failed\n"
    assert "failed: exit status 1: ValueError: no such luck\n" in typed.err
    rows = table(typed("results", project))
    assert [(row["how"], row["run.state"], row["run.exit_status"]) for row in rows] == [
        ("raise", "failed", "1"),
        ("kill", "failed", "137"),
        ("return", "failed", "1"),
        ("work", "done", "0"),
    ]
    assert "WrongResult: main returned an object of type int" in rows[2]["run.reason"]
    (log,) = (project / "runs/param_001").glob("*/log.txt")
    assert log.read_text().startswith("here I am\nTraceback")
    assert typed("run", project, "--local", code=1) == "3 runs: 3 failed\n"
    assert len(table(typed("results", project))) == 7, "what failed is kept"


def test_a_running_job_does_not_see_an_edit(make: Callable[..., Path], typed: Typed, tmp_path: Path) -> None:
    flag = tmp_path / "go"
    job = f"""
import os, time
def main(param2val):
    open("started", "w").close()
    until = time.monotonic() + 60
    while not os.path.exists({str(flag)!r}) and time.monotonic() < until:
        time.sleep(0.02)
    import late
    return {{"answer": late.ANSWER, "here": int(os.getcwd() == param2val["save_path"])}}
"""
    project = make({"grid.yaml": "grid: {x: [1]}\n", "job.py": job, "late.py": "ANSWER = 1\n"})
    process = start("run", project, "--local")
    wait_until(lambda: list((project / "runs").glob("param_001/*/saves/started")), "the job has not begun")
    (project / "late.py").write_text("ANSWER = 2\n")
    flag.touch()
    assert process.communicate(timeout=60)[0] == "1 run: 1 done\n"
    (row,) = table(typed("results", project))
    assert (row["last.answer"], row["last.here"]) == ("1", "1")
    assert typed("run", project, "--local") == "0 runs\n"
    assert "to run: 0, done: 1 (1 with other code)\n" in typed.err


def test_nothing_is_written_where_anything_is_wrong(make: Callable[..., Path], typed: Typed) -> None:
    project = make({"params.py": "param2requests = {'a': 1}\nparam2default = {}\n", "job.py": "x = 1\n"})
    (project / "passwords").symlink_to("/etc/passwd")
    typed("run", project, "--local", code=2)
    assert typed.err == (
        f"error: 4 faults in {project}; nothing was written\n"
        "  params.py:1: param2requests.a: is of type int, not a list of values (allowed: [first, second, ...])\n"
        "  params.py:1: param2requests.a: has no default in param2default\n"
        "  job.py: has no function main (allowed: def main(param2val):)\n"
        "  passwords: is a link out of the project, to /etc/passwd (allowed: a relative link inside the project)\n"
        "  next: correct these; docs/grids.md describes what a project consists of\n"
    )
    assert sorted(path.name for path in project.iterdir()) == ["job.py", "params.py", "passwords"]


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"job.py": ""}, "Project: has neither params.py nor grid.yaml"),
        ({"grid.yaml": "", "src/params.py": ""}, "Project: has grid.yaml and src/params.py"),
        ({"grid.yaml": "grid: {a: [1]}"}, "job.py: is missing"),
        ({"my-src/grid.yaml": "grid: {a: [1]}", "my-src/job.py": "main = print"}, "my-src: cannot be imported"),
        ({"grid.yaml": "grid: {a: [1]}", "job.py": "def main(:"}, "job.py:1: is not Python"),
        ({"grid.yaml": "grid: {a: [1]}", "job.py": "\ndef main(a, b): pass"}, "job.py:2: main: takes (a, b)"),
        ({"grid.yaml": "grid: {a: [1]}", "job.py": "def main(*, a): pass"}, "job.py:1: main: takes (*, a)"),
    ],
)
def test_a_project_that_cannot_be_run(
    make: Callable[..., Path], typed: Typed, files: dict[str, str], words: str
) -> None:
    typed("run", make(files), "--local", code=2)
    assert f"\n  {words}" in typed.err


def test_a_main_from_elsewhere_is_believed(make: Callable[..., Path], typed: Typed) -> None:
    files = {"grid.yaml": "grid: {a: [1]}", "job.py": "from other import main\n", "other.py": "def main(x): pass\n"}
    assert typed("run", make(files), "--local") == "1 run: 1 done\n"


def test_a_store_that_cannot_be_written_leaves_nothing(
    make: Callable[..., Path], typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make()
    typed("run", project, "--local", "--first-only")
    before = sorted((project / "runs").rglob("*"))

    def full(path: Path, *_: object, **__: object) -> None:
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr("gpuwork.grid.submit.write_file", full)
    typed("run", project, "--local", "--reps", "2", code=3)
    assert "nothing was submitted\n  [Errno 28] No space left on device" in typed.err
    assert f"  next: df -h {project}" in typed.err
    assert sorted((project / "runs").rglob("*")) == before


@pytest.mark.parametrize("place", [".code", ".submissions", ".lock", "param_002"])  # a lock is made anew
def test_what_a_job_put_in_the_way_is_not_followed(
    make: Callable[..., Path], typed: Typed, tmp_path: Path, place: str
) -> None:
    project = make()
    typed("run", project, "--local", "--first-only")
    target = tmp_path / "target"
    (target if place == ".lock" else target / "folder").mkdir(parents=True)
    path = project / "runs" / place
    if path.exists():
        path.rename(tmp_path / "moved")
    path.symlink_to(target / "nothing" if place == ".lock" else target)
    before = sorted(target.rglob("*"))
    typed("run", project, "--local", code=0 if place == ".lock" else 3)
    assert sorted(target.rglob("*")) == before


def test_where_a_run_was_made_is_in_its_record(
    make: Callable[..., Path], typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "bin/nvidia-smi"
    tool.parent.mkdir()
    tool.write_text(f"#!/bin/sh\necho 'GPU 0: SIMULATED (UUID: {UUID})'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    monkeypatch.setenv("GPUWORK_IMAGE", "0123456789ab")
    project = make()
    assert typed("run", project, "--local", "--first-only") == "1 run: 1 done (SIMULATED)\n"
    assert " done SIMULATED in " in typed.err
    (path,) = (project / "runs").glob("*/*/done.json")
    done = json.loads(path.read_text())
    validate(done)
    assert {key: done[key] for key in ("gpus", "simulated", "image", "tries", "exit_status", "node")} == {
        "gpus": [UUID],
        "simulated": True,
        "image": "0123456789ab",
        "tries": 1,
        "exit_status": 0,
        "node": os.uname().nodename,
    }
    assert (project / "runs/.code" / done["code"] / "src/job.py").exists()


def test_what_is_prepared_is_run_one_by_one_from_any_folder(make: Callable[..., Path], typed: Typed) -> None:
    project = make()
    prepared = json.loads(typed("prepare", project))
    validate(prepared)
    folder = Path(prepared["folder"])
    validate(json.loads((folder / "submission.json").read_text()))
    moved = project.parent / "moved"
    (project / "runs").rename(moved)  # the share has another path on nodes
    folder = moved / folder.relative_to(project / "runs")
    typed("one", folder, "5")
    assert typed.err.startswith(f"{prepared['runs'][5]} done in ")
    typed("one", folder, "5")
    assert typed.err.startswith(f"{prepared['runs'][5]} already done in ")
    assert len(list(moved.glob("*/*/done.json"))) == 1
    typed("one", folder, "6", code=3)
    assert "the submission has no run 6\n  " in typed.err
    typed("one", moved, "0", code=3)
    assert "is not a submission" in typed.err


def test_runs_that_a_role_has_at_work_are_not_prepared_again(
    make: Callable[..., Path], typed: Typed, tmp_path: Path
) -> None:
    project = make()
    prepared = json.loads(typed("prepare", project))
    (tmp_path / "alive").write_text("\n".join(prepared["runs"][1:]))
    again = json.loads(typed("prepare", project, "--under-way", tmp_path / "alive"))
    validate(again)
    assert (again["runs"], again["under_way"]) == (prepared["runs"][:1], 5)
    (tmp_path / "alive").write_text("\n".join(prepared["runs"]))
    nothing = json.loads(typed("prepare", project, "--under-way", tmp_path / "alive"))
    validate(nothing)
    assert (nothing["folder"], nothing["runs"]) == (None, [])
    typed("prepare", project, "--under-way", tmp_path / "nothing", code=2)


def test_a_copy_that_was_changed_is_told_and_nothing_is_run(make: Callable[..., Path], typed: Typed) -> None:
    project = make()
    folder = Path(json.loads(typed("prepare", project))["folder"])
    (copy,) = (project / "runs/.code").iterdir()
    (copy / "src").chmod(0o755)
    (copy / "src/extra.py").touch()
    typed("one", folder, "0", code=3)
    assert "the frozen copy of the project was changed or removed" in typed.err
    assert not list((project / "runs").glob("*/*/log.txt"))


SLEEPING = """
import os, subprocess, sys, time
def main(param2val):
    child = subprocess.Popen(["sleep", "600"])
    stubborn = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    other = subprocess.Popen([sys.executable, "-c", stubborn])
    with open("part", "w") as file:
        file.write(f"{os.getpid()} {child.pid} {other.pid}")
    os.rename("part", "pids")
    if param2val["wait"]:
        time.sleep(600)
"""
SLEEPING_LIGHTLY = SLEEPING.replace("signal.SIG_IGN", "signal.SIG_DFL")  # nobody has to be waited for and killed


def pids_of(project: Path) -> list[str]:
    wait_until(lambda: list((project / "runs").glob("*/*/saves/pids")), "the job has not begun")
    (path,) = (project / "runs").glob("*/*/saves/pids")
    return path.read_text().split()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_run_with_all_its_processes(make: Callable[..., Path], number: signal.Signals) -> None:
    job = SLEEPING if number == signal.SIGTERM else SLEEPING_LIGHTLY
    project = make({"grid.yaml": "grid: {wait: [true]}\n", "job.py": job})
    process = start("run", project, "--local")
    pids = pids_of(project)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, ""), err
    assert "interrupted; run the same command again to finish the remaining runs\n" in err
    assert not list(filter(lives, pids))
    assert not list((project / "runs").glob("*/*/done.json"))


def test_one_ends_as_a_group_too_and_is_made_again_in_its_folder(make: Callable[..., Path], typed: Typed) -> None:
    project = make({"grid.yaml": "grid: {wait: [true]}\n", "job.py": SLEEPING_LIGHTLY})
    folder = json.loads(typed("prepare", project))["folder"]
    process = start("one", folder, "0")
    pids = pids_of(project)
    typed("one", folder, "0", code=75)
    assert "is running elsewhere" in typed.err
    assert typed("run", project, "--local") == "1 run: 1 running elsewhere\n"
    process.terminate()
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert not list(filter(lives, pids))
    (project / "job.py").write_text("def main(param2val): pass\n")
    assert typed("run", project, "--local") == "1 run: 1 done\n"
    (path,) = (project / "runs").glob("*/*/done.json")
    assert json.loads(path.read_text())["tries"] == 2


def test_a_killed_one_takes_its_job_with_it(make: Callable[..., Path], typed: Typed) -> None:
    project = make({"grid.yaml": "grid: {wait: [true]}\n", "job.py": SLEEPING})
    process = start("one", json.loads(typed("prepare", project))["folder"], "0")
    pids = pids_of(project)
    process.kill()
    process.communicate(timeout=60)
    wait_until(lambda: not lives(pids[0]), "the job lives on")
    for pid in filter(lives, pids[1:]):  # what the job itself started, beyond what its death signal reaches
        os.kill(int(pid), signal.SIGKILL)


def test_what_a_job_leaves_behind_is_ended_with_it(make: Callable[..., Path], typed: Typed) -> None:
    project = make({"grid.yaml": "grid: {wait: [false]}\n", "job.py": SLEEPING})
    assert typed("run", project, "--local") == "1 run: 1 done\n"
    assert not list(filter(lives, pids_of(project)))


def test_without_local_it_says_what_to_type(make: Callable[..., Path], typed: Typed) -> None:
    project = make()
    typed("run", project, code=2)
    assert f"next: python3 -m gpuwork.grid run {project} --local" in typed.err
    typed("results", project, code=3)
    assert "there are no runs" in typed.err


def test_a_project_is_not_taken_for_a_part_of_python(make: Callable[..., Path]) -> None:
    job = "def main(param2val):\n    import mine\n    return {'answer': mine.ANSWER}\n"
    files = {f"{name}.py": "raise SystemExit('mine')\n" for name in ("json", "queue", "yaml", "argparse", "csv")}
    project = make({"grid.yaml": "grid: {x: [1]}\n", "job.py": job, **files, "mine.py": "ANSWER = 1"})
    argv = [sys.executable, "-m", "gpuwork.grid", "run", ".", "--local"]
    done = subprocess.run(argv, cwd=project, env=ENV, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("1 run: 1 done\n", 0), done.stderr


def test_two_at_once_make_every_run_once(make: Callable[..., Path], typed: Typed) -> None:
    job = "import time\ndef main(param2val):\n    time.sleep(0.3)\n"
    project = make({"grid.yaml": "grid: {x: [1, 2, 3, 4, 5, 6]}\n", "job.py": job})
    processes = [start("run", project, "--local", "--at-most", "2") for _ in range(2)]
    ended = [process.communicate(timeout=100) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], ended
    records = [json.loads(path.read_text()) for path in (project / "runs").glob("*/*/done.json")]
    assert [record["tries"] for record in records] == [1] * 6
    assert typed("run", project, "--local") == "0 runs\n"


def test_a_run_that_is_killed_again_and_again_has_one_end(make: Callable[..., Path], typed: Typed) -> None:
    job = "import time\ndef main(param2val):\n    time.sleep(0.2)\n    return {'answer': 42}\n"
    project = make({"grid.yaml": "grid: {x: [1]}\n", "job.py": job})
    folder = json.loads(typed("prepare", project))["folder"]
    for number in range(24):
        process = start("one", folder, "0")
        time.sleep(0.04 * number)
        process.kill()
        process.communicate(timeout=60)
    wait_until(lambda: main(["one", folder, "0"]) == 0, "the run does not end")
    (path,) = (project / "runs").glob("*/*/done.json")
    record = json.loads(path.read_text())
    validate(record)
    typed("one", folder, "0")
    assert json.loads(path.read_text()) == record
    assert [row["last.answer"] for row in table(typed("results", project))] == ["42"]


def test_a_run_that_fails_has_no_end_before_its_retries_are_used_up(make: Callable[..., Path], typed: Typed) -> None:
    project = make({"params.py": "param2requests = {}\nparam2default = {'x': 1}\n", "job.py": "def main(p): 1 / 0\n"})
    prepared = json.loads(typed("prepare", project))
    run = project / "runs" / prepared["runs"][0]
    typed("one", prepared["folder"], "0", "--retries", "1", code=1)
    assert not (run / "done.json").exists()
    typed("one", prepared["folder"], "0", "--retries", "1", code=1)
    assert json.loads((run / "done.json").read_text())["tries"] == 2


def test_what_programs_are_told_is_as_its_schema_says(make: Callable[..., Path], typed: Typed, tmp_path: Path) -> None:
    project, store = make(), tmp_path / "grids/Other/runs"
    checked = json.loads(typed("check", project))
    assert validate(checked) == "gpuprov.grid-checked/v1"
    assert (len(checked["combinations"]), checked["faults"]) == (6, [])
    prepared = json.loads(typed("prepare", project, "--store", store, "--first-only"))
    typed("one", prepared["folder"], "0")
    listed = json.loads(typed("list", store))
    assert validate(listed) == "gpuprov.grid-listed/v1"
    assert listed["combinations"] == {"param_001": checked["combinations"][0]}
    assert listed["submissions"] == {Path(prepared["folder"]).name: prepared["runs"]}
    series = json.loads(typed("series", store))
    assert validate(series) == "gpuprov.grid-series/v1"
    assert series["combinations"][0]["series"]["recall"] == [[["1", "0.4"], ["2", "0.6"], ["3", "0.7"]]]
    (store / "param_001/param2val.yaml").write_text("# values " + "0" * 64 + "\n")
    changed = json.loads(typed("list", store))
    (row,) = (dict(zip(changed["columns"], row, strict=True)) for row in changed["rows"])
    assert (row["run.state"], "was changed or removed" in row["run.reason"]) == ("failed", True)
    assert validate(json.loads(typed("series", store))) == "gpuprov.grid-series/v1"
    (project / "src/job.py").unlink()
    assert json.loads(typed("check", project, code=2))["faults"][0]["message"] == "is missing"
    assert validate(json.loads(typed("prepare", project, code=2))) == "gpuprov.error/v1"


def test_of_a_long_series_the_ends_are_kept() -> None:
    points = tuple((str(number), "0") for number in range(1001))
    thin = thin_out(points)
    assert (len(thin), thin[0], thin[-1]) == (MOST_POINTS, points[0], points[-1])
    assert thin_out(points[:MOST_POINTS]) == points[:MOST_POINTS]
