"""What a project imports that a machine lacks: found before anything is written, all of it, with what installs it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuprov.gpu.simulator import SIMULATOR_VARIABLE
from gpuprov.provision.recipe import REQUIREMENTS, TOOLKIT
from gpuwork.errors import HostLacks
from gpuwork.grid.imports import find_lacked
from gpuwork.grid.project import read_project
from gpuwork.packages import INSTALL_VARIABLE, KNOWN, pip_command, require_here

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).parents[3]
PARAMS = "param2requests = {'lr': [0.1]}\nparam2default = {'lr': 0.1}\n"


def lacked(folder: Path, files: Mapping[str, str], first: str = "src/job.py") -> list[str]:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return [f"{fault.file}:{fault.line} {fault.module}" for fault in find_lacked(folder, [*files], first)]


def test_what_is_imported_at_the_top_is_found_through_the_projects_own_modules(tmp_path: Path) -> None:
    files = {
        "src/job.py": "import os, none_a.b\nimport helper\nfrom pkg import one\nfrom . import relative\n",
        "src/helper.py": "import none_b\nimport none_a\n",
        "pkg/__init__.py": "from pkg.two import x\n",
        "pkg/two.py": "import none_c as c\n",
    }
    assert lacked(tmp_path, files) == ["src/job.py:1 none_a", "src/helper.py:1 none_b", "pkg/two.py:1 none_c"]


@pytest.mark.parametrize(
    "text",
    [
        "try:\n    import none_a\nexcept ImportError:\n    pass\n",
        "def main(values):\n    import none_a\n",
        "import sys\nsys.path.insert(0, '/data/lib')\nimport none_a\n",
        "import site, none_a\nsite.addsitedir('/data/lib')\n",
        "if False:\n    import none_a\n",
        "import json, yaml, xml.dom\n",
        "not Python",
    ],
)
def test_what_may_be_there_when_it_runs_is_believed(text: str, tmp_path: Path) -> None:
    assert lacked(tmp_path, {"src/job.py": text}) == []


def test_what_runs_elsewhere_need_not_be_here(tmp_path: Path) -> None:
    lacked(tmp_path, {"params.py": PARAMS, "job.py": "import none_a\ndef main(values): return None\n"}, "job.py")
    assert read_project(tmp_path, ["job.py", "params.py"])[1] == []
    _, faults = read_project(tmp_path, ["job.py", "params.py"], here=True)
    assert [str(fault) for fault in faults] == ["job.py:1: imports none_a, which is not installed"]


def test_all_that_is_missing_is_told_with_one_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(INSTALL_VARIABLE, raising=False)
    with pytest.raises(HostLacks) as caught:
        require_here(("json", "none_a", "none_b.c"), ("sh", "none-d"), others=("nvcc",))
    told = caught.value.evidence.splitlines()
    assert [line.partition(":")[0] for line in told] == ["none_a", "none_b.c", "none-d", "nvcc", "Python"]
    pip = f"{sys.executable} -m pip install"
    assert caught.value.fix.startswith(f"apt-get install none-d; {pip} 'nvidia-cuda-nvcc>=13,<14' ")
    assert caught.value.fix.endswith(" none_a none_b")
    assert pip_command(["numpy.linalg", "torch"]) == f"{pip} 'numpy<2.5' torch"
    monkeypatch.setenv(INSTALL_VARIABLE, "pip install 'gpuprov[local]'")
    assert pip_command(["numpy.linalg", "torch"]) == "pip install 'gpuprov[local]' torch"
    assert pip_command(["torch"]) == f"{pip} torch"


def test_the_packages_are_those_of_nodes() -> None:
    known = {package for packages in KNOWN.values() for package in packages}
    assert known - {"pandas"} <= {*REQUIREMENTS["cu13"], *TOOLKIT["cu13"]}


HIDE = """
import sys
class Hide:
    def find_spec(self, name, *_):
        if name.partition(".")[0] in {hidden}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Hide())
"""


@pytest.mark.slow
def test_programs_say_what_this_machine_lacks_before_they_write(tmp_path: Path) -> None:
    (tmp_path / "hide").mkdir()
    hidden = {"numpy", "numba", "pandas", "dask", "distributed"}
    (tmp_path / "hide/sitecustomize.py").write_text(HIDE.format(hidden=hidden))
    project = tmp_path / "vision"
    (project / "src").mkdir(parents=True)
    (project / "src/params.py").write_text(f"import numpy as np\n{PARAMS.replace('[0.1]', 'list(np.ones(2))')}")
    (project / "src/job.py").write_text("import pandas as pd\nimport torchless\ndef main(values): return None\n")
    env = {
        "PATH": "/nowhere", "PYTHONPATH": f"{tmp_path / 'hide'}:{ROOT}", SIMULATOR_VARIABLE: "1", "HOME": str(tmp_path),
        INSTALL_VARIABLE: "pip install 'gpuprov[local]'",
    }  # fmt: skip
    kmeans, anneal = ROOT / "examples/kmeans", ROOT / "examples/anneal"
    for argv, names, fix in (
        (
            ("gpuwork.grid", "run", str(project), "--local"),
            ("src/params.py:1: cannot be run: ModuleNotFoundError", "src/job.py:1: imports pandas", "torchless"),
            "next: pip install 'gpuprov[local]' torchless\n",
        ),
        (
            ("gpuwork.anneal", "run", str(anneal / "ackley.py"), "--conf", str(anneal / "run.yaml")),
            ("numpy: ModuleNotFoundError", "numba.cuda.core.config: ModuleNotFoundError"),
            "next: pip install 'gpuprov[local]'\n",
        ),
        (
            ("gpuwork.programs", "run", str(kmeans / "program"), "--data", str(kmeans / "points.csv")),
            ("dask: ", "distributed: ", "g++: is not installed", "openssl: is not installed"),
            "next: apt-get install g++ openssl; pip install 'gpuprov[local]'\n",
        ),
    ):
        done = subprocess.run(
            [sys.executable, "-m", *argv], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 3, done.stderr
        assert "error: this machine lacks what this needs; nothing was written\n" in done.stderr
        assert done.stderr.endswith(fix)
        assert all(name in done.stderr for name in names), done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hide", "vision"]
    assert sorted(path.name for path in project.iterdir()) == ["src"]
