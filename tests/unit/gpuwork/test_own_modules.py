"""A project's modules come before installed ones: nvidia-ml-py brings an `example.py`, others bring `tests`."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from gpuwork.jobs.one import run_one
from tests.fakes.programs import PYTHON, write_program
from tests.fakes.worker_bed import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.fakes.worker_bed import WorkerBed
    from tests.unit.gpuwork.conftest import Jobs

pytestmark = pytest.mark.slow

OWN = {"example.py": "OWN = 1\n", "tests/__init__.py": "OWN = 1\n", "yaml.py": "OWN = 1\n"}
USES = "import example, tests, yaml\nassert example.OWN == tests.OWN == yaml.OWN == 1\n"


def test_an_installed_module_has_such_a_name() -> None:
    spec = importlib.util.find_spec("example")
    assert spec is not None
    assert "site-packages" in str(spec.origin)


@pytest.mark.parametrize("place", ["", "src/"])
def test_in_a_grid(place: str, make: Callable[..., Path]) -> None:
    params = f"{USES}param2requests = {{'lr': [0.1 * example.OWN]}}\nparam2default = {{'lr': 0.1}}\n"
    job = f"{USES}def main(values):\n    return {{'loss': 1}}\n"
    own = {f"{place}{name}": text for name, text in OWN.items()}
    project = make({f"{place}params.py": params, f"{place}job.py": job, **own})
    argv = [sys.executable, "-m", "gpuwork.grid", "run", str(project), "--local"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout == "1 run: 1 done\n", done.stderr


@pytest.mark.parametrize("module", ["train", "example", "queue"])
def test_in_a_function(module: str, held: Jobs, make: Callable[..., Path]) -> None:
    project = make({**OWN, f"{module}.py": f"OWN = 1\n{USES}def main(): print('ran', __name__)\n"})
    folder = held.submitted(function=f"{module}:main", project=str(project))
    assert run_one(folder, 0, stop=threading.Event()).state == "done", (folder / "runs/0/log.txt").read_text()
    assert (folder / "runs/0/log.txt").read_text() == f"ran {module}\n"


def test_in_a_program(tmp_path: Path) -> None:
    program = write_program(tmp_path / "program", python=f"{USES}{PYTHON}")
    for name, text in OWN.items():
        (program / name).parent.mkdir(exist_ok=True)
        (program / name).write_text(text)
    argv = [sys.executable, "-m", "gpuwork.programs", "check", str(program)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("runner", ["runner", "queue", "yaml"])
def test_each_module_of_a_program_is_loaded_once(runner: str, tmp_path: Path) -> None:
    (tmp_path / "columns.py").write_text("print('columns')\n")
    (tmp_path / f"{runner}.py").write_text("import columns\nprint('runner')\n")
    code = "import concurrent.futures, sys, yaml\nfrom gpuwork.own_modules import import_own\n"
    code += f"for name in ('columns', {runner!r}, 'columns'): import_own(name, {str(tmp_path)!r})\n"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout == "columns\nrunner\n", done.stderr


def test_in_a_celery_app(bed: WorkerBed, make: Callable[..., Path]) -> None:
    app = "import example\nfrom celery import Celery\napp = Celery('app')\ndef add(x, y): return x + y + example.OWN\n"
    project = make({**OWN, "app.py": app})
    bed.start("GPU-0001", "--project", str(project), "--app", "app")
    told = bed.app().send_task("gpuwork.call", ("app:add", {"x": 1, "y": 2}), queue="gpuwork")
    assert told.get(timeout=60) == 4
