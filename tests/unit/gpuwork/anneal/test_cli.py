"""`python3 -m gpuwork.anneal`: from files to results in one command."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpuwork.anneal.cli import main
from tests.schemas import validate
from tests.unit.gpuwork.anneal.conftest import LINE, changed, read_npz

ROOT = Path(__file__).parents[4]
CONF = "max_steps: 40\ninitial_temp: 1.0\nthread_count: 6\n"


@pytest.fixture
def project(here: Path, simulated: None) -> Path:  # noqa: ARG001
    (here / "line.py").write_text(LINE)
    (here / "run.yaml").write_text(CONF)
    return here


def document(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    validate(told)
    return told


@pytest.mark.slow
def test_a_run_from_files_to_results(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "line.py", "--conf", "run.yaml", "--out", "out", "--text"]) == 0
    said = capsys.readouterr()
    best = read_npz(project / "out/line/best.npz")
    assert f"line: best {float(best['values'][0])!r} of chain {best['chains'][0]}, 6 chains SIMULATED" in said.out
    assert "; all of it in out/line/best.json" in said.out
    found = read_npz(project / "out/line/all.npz")
    assert found["values"].min() == best["values"][0]
    assert found["states"][best["chains"][0]].tolist() == best["states"][0].tolist()
    lines = (project / "out/line/all.txt").read_text().splitlines()
    assert [line.split()[0] for line in lines] == [str(chain) for chain in range(6)]
    assert [float(line.split()[1]) for line in lines] == [float(value) for value in found["values"]]
    assert len((project / "out/line/best.txt").read_text().splitlines()) == 1
    assert main(["run", "line.py", "--conf", "run.yaml", "--out", "out"]) == 3, "results are never overwritten"
    assert "results are never overwritten" in capsys.readouterr().err
    assert main(["show", "out", "--series"]) == 0
    (run,) = document(capsys)["runs"]
    assert (run["state"], run["simulated"], run["best"]) == ("done", True, float(best["values"][0]))
    assert [one["chain"] for one in run["series"]] == list(range(6))
    assert run["series"][0]["points"][-1] == [40, float(found["values"][0])]


def test_faults_are_told_before_anything_is_written(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "bad.py").write_text(changed("def cool(", "def other("))
    (project / "bad.yaml").write_text("max_steps: 0")
    for verb in (["check"], ["run", "--out", "out"], ["prepare", "--store", "out"]):
        assert main([*verb, "bad.py", "--conf", "bad.yaml"]) == 2
        said = capsys.readouterr()
        assert "2 faults in the models and configurations; nothing was written" in said.err
        assert "bad.py: cool: is missing" in said.err
        assert "bad.yaml:1: max_steps: is 0" in said.err
    assert main(["check", "--json", "bad.py"]) == 2
    assert [fault["where"] for fault in document(capsys)["faults"]] == ["cool"]
    assert main(["check", "line.py", "--conf", "run.yaml"]) == 0
    assert capsys.readouterr().out == "no faults\n"
    assert not (project / "out").exists()


@pytest.mark.slow
def test_checking_needs_neither_numba_nor_numpy(project: Path, bare_python: str) -> None:
    argv = [bare_python, "-m", "gpuwork.anneal", "check", str(project / "line.py"), "--conf", str(project / "run.yaml")]
    assert subprocess.run(argv, cwd=ROOT, check=True, capture_output=True).stdout == b"no faults\n"
    argv = [*argv[:3], "run", *argv[4:], "--out", str(project / "out")]
    done = subprocess.run(argv, cwd=ROOT, check=False, capture_output=True, text=True)
    assert done.returncode == 3
    assert "this machine lacks what this needs; nothing was written" in done.stderr
    assert all(f"{module}: ModuleNotFoundError" in done.stderr for module in ("numpy", "numba.cuda.core.config"))
    install = f"next: {bare_python} -m pip install 'numpy<2.5' 'numba-cuda[cu13]>=0.30,<0.31'"
    assert install in done.stderr.replace(str(Path(bare_python).resolve()), bare_python)
    assert not (project / "out").exists()


@pytest.mark.slow
def test_several_pairs_run_one_after_the_other_and_a_bad_one_stops_none(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "bad.py").write_text(changed("WIDTH = 4.0", "WIDTH = 1 // 0"))
    assert main(["run", "bad.py", "line.py", "--conf", "run.yaml", "--out", "out", "--chains", "3"]) == 1
    said = capsys.readouterr()
    assert "ZeroDivisionError" in said.err
    assert "line: best" in said.out
    assert "3 chains" in said.out
    assert read_npz(project / "out/line/all.npz")["values"].shape == (3,)


@pytest.mark.slow
def test_a_chain_without_a_value_is_told_with_its_number(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = changed("return state[0] * state[0] + state[1]", "return math.nan if state[1] else 0.0")
    broken = changed("    state[1] = 1.0", "    state[1] = 1.0 if state[0] > 2 else 0.0", broken)
    (project / "line.py").write_text(broken)
    assert main(["run", "line.py", "--conf", "run.yaml", "--out", "out"]) == 1
    said = capsys.readouterr()
    values = read_npz(project / "out/line/all.npz")["values"]
    first = int(np.flatnonzero(np.isnan(values))[0])
    assert f"error: line: chain {first}, step 0: evaluate returned NaN or minus infinity" in said.err
    assert 0 < np.isnan(values).sum() < 6
    assert "line: best 0.0 of chain" in said.out


@pytest.mark.slow
def test_an_interrupted_run_says_where_it_is(project: Path) -> None:
    (project / "run.yaml").write_text("max_steps: 100000000\ninitial_temp: 1\nthread_count: 2\n")
    argv = [
        sys.executable,
        "-m",
        "gpuwork.anneal",
        "run",
        str(project / "line.py"),
        "--conf",
        str(project / "run.yaml"),
    ]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen([*argv, "--out", "out"], cwd=project, env=env, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        assert "line: best" in running.stderr.readline(), "the best value is shown while chains run"
        running.send_signal(signal.SIGINT)
        said = running.stderr.read()
        assert running.wait(30) == 130
    logs = Path(said.split("interrupted; what has ended is in ")[1].strip())
    assert (logs / "line/parts/0/log.txt").exists(), "no part had ended: there are only logs"
    assert not (project / "out").exists()
    shutil.rmtree(logs.parent)


@pytest.mark.slow
def test_a_run_without_any_result_leaves_no_folder(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "line.py").write_text(changed("WIDTH = 4.0", "WIDTH = 1 // 0"))
    assert main(["run", "line.py", "--conf", "run.yaml", "--out", "out"]) == 1
    log = Path(capsys.readouterr().err.split("next: less ")[1].strip())
    assert "ZeroDivisionError" in log.read_text()
    assert not (project / "out").exists()
    shutil.rmtree(log.parents[3])


@pytest.mark.slow
def test_prepared_parts_run_from_a_queue(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prepare", "line.py", "--conf", "run.yaml", "--store", "out", "--parts", "2", "--target", "0.5"]) == 0
    told = document(capsys)
    validate(json.loads((project / "out/runs.json").read_text()))
    assert (told["parts"], told["runs"]) == (2, [{"name": "line", "parts": 2}])
    assert main(["merge", "out"]) == 3
    error = document(capsys)["error"]
    assert "2 of 2 parts of line have no result" in error["evidence"]
    began = time.monotonic()
    argv = [sys.executable, "-m", "gpuwork.anneal", "part", str(project / "out")]
    parts = [subprocess.Popen([*argv, str(number)], cwd=ROOT) for number in range(2)]
    assert [part.wait() for part in parts] == [0, 0]
    assert time.monotonic() - began < 20, "neither waits for the other's rate until its patience is over"
    assert main(["merge", "out", "--text"]) == 0
    (run,) = document(capsys)["runs"]
    assert (run["state"], run["chains"]) == ("done", 6)
    assert [part["state"] for part in run["parts"]] == ["done", "done"]
    assert (project / "out/line/best.txt").exists()
    assert main(["part", "out", "2"]) == 3
    assert "there are parts 0 to 1" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--chains", "0"], ["--chains", "x"], ["--target", "nan"], ["--target", "low"]])
def test_what_cannot_be_parsed_is_refused(arguments: list[str], project: Path) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["run", str(project / "line.py"), *arguments])
    assert caught.value.code == 2


@pytest.mark.slow
def test_a_machine_without_a_gpu_is_told_of_the_simulator(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_ENABLE_CUDASIM", "0")
    monkeypatch.setenv("NUMBA_CUDA_DRIVER", str(project / "none"))
    assert main(["run", "line.py", "--conf", "run.yaml", "--out", "out"]) == 1
    said = capsys.readouterr().err
    assert "CudaSupportError" in said
    assert "set NUMBA_ENABLE_CUDASIM=1 for numba's simulator" in said


def test_models_and_configurations_may_be_links(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "link.py").symlink_to("line.py")
    assert main(["check", "link.py", "--to-run"]) == 0
    assert capsys.readouterr().out == "no faults\n"
