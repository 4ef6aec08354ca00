"""A run has a home of its own, and the programs around runs begin with nothing of the account's."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuprov.fleet.questions.hardware import PROGRAM as HARDWARE
from gpuprov.roles.registry import ROLES
from gpuprov.roles.work.queue_page import PROGRAM as RELAY
from gpuprov.roles.work.work_place import controller_argv, text_argv
from gpuprov.spec.shared_folder import ACCOUNT, SHARED
from gpuwork.jobs.one import run_one
from gpuwork.jobs.slurm import render_run_script
from gpuwork.program import program_argv, python_argv
from gpuwork.worker.project import load_app

if TYPE_CHECKING:
    from gpuprov.shapes.job_run import JobRun
    from tests.unit.gpuwork.conftest import Jobs

pytestmark = pytest.mark.slow

PYTHON = "/usr/bin/python3"  # one that is no virtual environment, which has no packages of its user
CUSTOM = "import os; open(os.environ['MARK'], 'a').write('customized\\n')\n"
PLANT = "import pathlib, site; place = pathlib.Path(site.getusersitepackages()); place.mkdir(parents=True)\n"
PLANT += "(place / 'usercustomize.py').write_text('print(\"planted\")')"
ROOT = Path(__file__).parents[3]


def run(folder: Path, number: int = 0) -> JobRun:
    return run_one(folder, number, stop=threading.Event())


def plant(home: Path) -> None:
    asked = [PYTHON, "-c", "import site; print(site.getusersitepackages())"]
    said = subprocess.run(asked, env={"HOME": str(home)}, capture_output=True, text=True, check=True)
    place = Path(said.stdout.strip())
    place.mkdir(parents=True)
    (place / "usercustomize.py").write_text(CUSTOM)


def test_what_one_run_has_its_python_do_first_is_not_done_in_the_next(held: Jobs) -> None:
    folder = held.submitted(PYTHON, "-c", f"{PLANT} if not {{n}} else None", count=2)
    assert run(folder, 0).state == "done"
    again = held.submitted(PYTHON, "-c", "print('begins')")
    assert run(again).state == "done"
    assert (again / "runs/0/log.txt").read_text() == "begins\n"
    home = folder / "runs/0/home"
    assert [*home.rglob("usercustomize.py")]


def test_the_home_stays_for_the_next_try_and_loses_its_caches_with_the_last(held: Jobs) -> None:
    script = "test -e ~/.cache/big && touch ~/kept && exit 0; mkdir -p ~/.cache ~/.nv; touch ~/.cache/big; exit 1"
    folder = held.submitted("sh", "-c", f"echo $HOME; {script}", retries=1)
    assert run(folder).state == "done"
    home = folder / "runs/0/home"
    assert (folder / "runs/0/log.txt").read_text().splitlines()[0] == str(home)
    assert [path.name for path in home.iterdir()] == ["kept"]


def test_no_link_in_the_place_of_the_home_or_of_a_cache_is_followed(held: Jobs, tmp_path: Path) -> None:
    kept = tmp_path / "elsewhere/.cache"
    kept.mkdir(parents=True)
    (kept / "mine").touch()
    for script in (f"ln -s {kept} ~/.cache", f"cd .. && rm -r home && ln -s {kept.parent} home"):
        assert run(held.submitted("sh", "-c", script)).state == "done"
    assert (kept / "mine").exists()


@pytest.mark.parametrize("isolated", [True, False])
def test_an_isolated_program_begins_without_what_its_account_has(tmp_path: Path, *, isolated: bool) -> None:
    mark = tmp_path / "mark"
    plant(tmp_path)
    argv = program_argv("gpuwork.hardware_reader", isolated=isolated)  # needs no package
    env = {"HOME": str(tmp_path), "MARK": str(mark), "PATH": os.environ["PATH"]}
    subprocess.run([PYTHON, *argv[1:]], env=env, check=True)
    assert mark.exists() is not isolated


def test_a_function_of_a_project_is_called_by_a_python_that_heeds_its_variables(held: Jobs) -> None:
    assert "-I" not in program_argv("gpuwork.jobs.call", isolated=False)
    assert " '-I' " in render_run_script(held.folder)
    assert python_argv() == [sys.executable]  # of a person, who may have Celery in their home


def test_what_gpuprov_and_services_start_is_isolated() -> None:
    for argv in (controller_argv("list"), text_argv("pass"), RELAY, HARDWARE):
        assert argv[argv.index("python3") + 1] == "-I"
    roles = ("worker", "broker", "slurm", "base")
    files = [path for role in roles for path in ROOT.glob(f"roles/{role}/files/**/*")]
    lines = [line for path in files if path.is_file() for line in path.read_text().splitlines()]
    started = [line for line in lines if "/usr/bin/python3 " in line]
    assert len(started) >= 5
    assert all("/usr/bin/python3 -I" in line for line in started)


def test_root_of_a_node_reads_nothing_by_a_name_that_jobs_can_replace_with_a_link() -> None:
    told = [role.diagnostics() for role in ROLES.values()]
    lines = [line for one in told for text in (*one.node.values(), one.cluster) for line in text.split(";")]
    shared = [line.strip() for line in lines if SHARED in line]
    assert shared
    assert all(line.startswith(f"runuser -u {ACCOUNT} -- ") for line in shared)


def test_an_isolated_worker_gives_an_app_the_folders_that_the_node_names(tmp_path: Path) -> None:
    (tmp_path / "named").mkdir()
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); from pathlib import Path; "
        f"from {load_app.__module__} import load_app; "
        "load_app(Path(sys.argv[2]), None, 'memory://'); print(sys.path[0], sys.path[1])"
    )
    env = {**os.environ, "PYTHONPATH": f"{tmp_path / 'named'}:"}
    argv = [sys.executable, "-I", "-c", code, str(ROOT), str(tmp_path)]
    said = subprocess.run(argv, env=env, capture_output=True, text=True, check=True)
    assert said.stdout == f"{tmp_path} {tmp_path / 'named'}\n"
