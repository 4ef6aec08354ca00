"""The package is copied into nodes, with the shapes: the standard library, msgspec and PyYAML suffice for them."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sources import nodes_of, parsed

pytestmark = pytest.mark.slow

PACKAGE = Path(__file__).parents[3] / "gpuwork"
MODULES = sorted(PACKAGE.rglob("*.py"))
ALLOWED = {*sys.stdlib_module_names, "gpuwork", "msgspec", "yaml"}
SHAPES = PACKAGE.parent / "gpuprov/shapes"
NUMPY = ("arrays_file", "backend", "chains", "compiled", "exchange", "kernel", "result", "streams", "tree", "troubles")
OF_SOME = {
    **{f"anneal/{name}.py": {"numpy"} for name in NUMPY},
    "anneal/predecessor/broker.py": {"dramatiq"},
    "anneal/predecessor/encoding.py": {"numpy"},
    "anneal/predecessor/worker.py": {"dramatiq", "redis"},
    "programs/certificate.py": {"distributed"},
    "programs/lead.py": {"distributed"},
    "programs/meet.py": {"bokeh", "dask", "distributed"},
    "programs/member.py": {"distributed"},
    "programs/members.py": {"distributed"},
    "broker.py": {"celery", "kombu"},
    "sending.py": {"celery", "kombu"},
    "worker/consumer.py": {"celery", "kombu"},
    "worker/asked.py": {"celery"},
    "worker/cli.py": {"celery"},
    "worker/gate.py": {"celery"},
    "worker/keeper.py": {"celery"},
    "worker/project.py": {"celery"},
    "worker/restart.py": {"celery"},
    "worker/task_process.py": {"celery"},
    "machine.py": {"pynvml"},
    "worker/tasks.py": {"celery"},
}


def test_its_modules_import_the_standard_library_msgspec_and_yaml_alone() -> None:
    assert MODULES
    for path in MODULES:
        allowed = ALLOWED | OF_SOME.get(str(path.relative_to(PACKAGE)), set())
        for node in nodes_of(parsed(path)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or "."] if isinstance(node, ast.ImportFrom) else []
            names = [name for name in names if not name.startswith("gpuprov.shapes.")]
            assert {name.split(".")[0] for name in names} <= allowed, path


def test_shapes_import_the_standard_library_msgspec_and_yaml_alone() -> None:
    for path in SHAPES.rglob("*.py"):
        names = [node.module for node in nodes_of(parsed(path)) if isinstance(node, ast.ImportFrom)]
        names += [alias.name for node in nodes_of(parsed(path)) if isinstance(node, ast.Import) for alias in node.names]
        others = [name for name in names if name and not name.startswith("gpuprov.shapes")]
        assert {name.split(".")[0] for name in others} <= {*sys.stdlib_module_names, "msgspec", "yaml"}, path


def test_jobs_need_neither_yaml_nor_celery() -> None:
    code = (
        "import sys, gpuwork.jobs.cli, gpuwork.jobs.one, gpuwork.jobs.call; "
        "sys.exit(bool({'yaml', 'celery', 'kombu'} & sys.modules.keys()))"
    )
    subprocess.run([sys.executable, "-c", code], cwd=PACKAGE.parent, check=True)


def test_a_copy_of_it_runs_a_grid(tmp_path: Path) -> None:
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(PACKAGE, tmp_path / "here/gpuwork", ignore=ignore)
    shutil.copytree(SHAPES, tmp_path / "here/gpuprov/shapes", ignore=ignore)
    (tmp_path / "project").mkdir()
    (tmp_path / "project/grid.yaml").write_text("grid: {lr: [0.1]}\n")
    code = "import sys\ndef main(values):\n    assert not [path for path in sys.path if 'here' in path], sys.path\n"
    (tmp_path / "project/job.py").write_text(code)
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    argv = [sys.executable, "-m", "gpuwork.grid", "run", "../project", "--local"]
    done = subprocess.run(argv, cwd=tmp_path / "here", env=env, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("1 run: 1 done\n", 0), done.stderr
