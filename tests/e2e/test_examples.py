"""Programs of users of Celery, submitit, Hydra and Optuna, unchanged, in the nodes of real clusters."""

from __future__ import annotations

import ast
import re
import shutil
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from gpuprov.core.waiting import Wait

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.conftest import Gpuprov
    from tests.e2e.places import Place

EXAMPLES = Path(__file__).parents[2] / "examples"
LIMITS = Path(__file__).parent / "data/celery_limits"
TOOLS = ("submitit", "hydra", "optuna")
LIMIT_S = 300
SWEEP = "python3 train.py --multirun hydra/launcher=submitit_slurm hydra.launcher.gpus_per_node=1"
with_accounts = pytest.mark.parametrize(
    "shop", ["slurm", pytest.param("accounting", marks=pytest.mark.long)], indirect=True
)
on_slurm = pytest.mark.parametrize("shop", ["slurm"], indirect=True)
on_workers = pytest.mark.parametrize("shop", ["worker"], indirect=True)


class Shop:
    """A cluster of two nodes with a GPU each, which share a folder."""

    def __init__(self, gpuprov: Gpuprov, place: Place) -> None:
        self.gpuprov, self.place = gpuprov, place
        self.folder = Path("/srv/gpuprov") / place.cluster
        self.nodes = {place.node(0), place.node(1)}

    def bring(self, name: str, *sources: Path) -> None:
        """Copy files, or one folder under this name, to the shared folder, for the account of the jobs."""
        node, target = self.place.node(0), f"/shared/{name}"
        if not sources[0].is_dir():
            self.gpuprov.in_node(node, "mkdir", "-p", target)
        for source in sources:
            self.gpuprov("cp", str(source), f"{node}:{target}{'' if source.is_dir() else '/'}")
        self.gpuprov.in_node(node, "chown", "-R", "work:", target)

    def type_there(self, folder: str, command: str) -> list[str]:
        """The lines that a command prints in a folder below /shared."""
        line = f"cd /shared/{folder} && timeout {LIMIT_S} {command}"
        return self.gpuprov.in_node(self.place.node(0), "runuser", "-l", "work", "-c", line).splitlines()

    def submit(self, *argv: str) -> str:
        """The id of a job, when it is done."""
        job = self.gpuprov("submit", "--cluster", self.place.cluster, *argv).stdout.strip()
        self.gpuprov("jobs", "wait", "--cluster", self.place.cluster, job)
        return job


@pytest.fixture(scope="module")
def shop(request: pytest.FixtureRequest, gpuprov: Gpuprov, place: Place) -> Iterator[Shop]:
    role: str = request.param
    specs = [yaml.safe_load((EXAMPLES / tool / "cluster.yaml").read_text()) for tool in TOOLS]
    python = [line for spec in specs for line in spec["image"]["python"]] if role != "worker" else []
    spec = gpuprov.folder / f"examples-{role}.yaml"
    image = f"image: {{python: {python}}}\n" if python else ""
    accounting = "accounting: on\n" if role == "accounting" else ""
    nodes = "role: worker" if role == "worker" else "role: slurm"
    spec.write_text(place.spec(nodes=nodes, share="true") + image + accounting)
    made = Shop(gpuprov, place)
    shutil.rmtree(made.folder, ignore_errors=True)  # of a killed run
    gpuprov("cluster", "up", "-f", str(spec), "--no-verify")
    yield made
    gpuprov("cluster", "down", place.cluster, "--force", "--purge", "--yes")


@with_accounts  # where Slurm's own sacct answers, and where the stand-in does
def test_submitit_returns_what_four_jobs_returned(shop: Shop) -> None:
    shop.bring("submitit", EXAMPLES / "submitit")
    said = shop.type_there("submitit", "python3 sweep.py")
    jobs, *results = said
    assert re.fullmatch(r"jobs (\d+)_0 \1_1 \1_2 \1_3", jobs)
    found = [ast.literal_eval(line) for line in results]
    ended = [(result["rate"], result["x"]) for result in found]
    assert ended == [(0.01, 1.9075), (0.03, 2.864), (0.1, 3.0), (0.3, 3.0)]
    assert {result["node"] for result in found} <= shop.nodes
    assert all(result["gpu"].isdecimal() for result in found), found


@pytest.mark.long  # two minutes; tests/unit/roles/test_sacct.py has what nodes answer
@with_accounts
def test_submitit_learns_that_a_job_was_killed(shop: Shop) -> None:
    shop.bring("submitit-killed", Path(__file__).parent / "data/killed_by_scancel.py")
    said = shop.type_there("submitit-killed", "python3 killed_by_scancel.py")
    assert said == ["CANCELLED", "CANCELLED", "RUNNING"]


@pytest.mark.long  # submitit again, below Hydra
@pytest.mark.long  # submitit once more, below Hydra
@on_slurm
def test_hydra_runs_every_combination_as_a_job(shop: Shop) -> None:
    shop.bring("hydra", EXAMPLES / "hydra")
    shop.type_there("hydra", f"{SWEEP} rate=0.01,0.1 steps=50,100")
    logs = "".join(path.read_text() for path in sorted((shop.folder / "hydra").glob("multirun/*/*/*/train.log")))
    found = re.findall(r"rate=(\S+) steps=(\d+) x=(\S+) node=(\S+) gpu=\d+$", logs, re.MULTILINE)
    assert [values for *values, _ in found] == [
        ["0.01", "50", "1.9075"],
        ["0.01", "100", "2.6021"],
        ["0.1", "50", "3.0000"],
        ["0.1", "100", "3.0000"],
    ], logs
    assert {node for *_, node in found} <= shop.nodes


@pytest.mark.long  # a shared file, as in tests/e2e/test_work.py
@on_slurm
def test_processes_of_optuna_share_a_study(shop: Shop) -> None:
    project = ("--project", str(EXAMPLES / "optuna"))
    shop.submit(*project, "--count", "4", "--", "python3", "optimize.py")
    job = shop.submit(*project, "--gpus", "0", "--", "python3", "best.py")
    said = shop.gpuprov("jobs", "logs", "--cluster", shop.place.cluster, job).stdout
    assert "100 trials: " in said, said
    assert set(re.findall(r"\d+ on (\S+)", said)) == shop.nodes
    assert float(said.split()[-1]) < 1, said


@on_workers
def test_each_task_of_celery_is_run_once(shop: Shop) -> None:
    shop.bring("app", *(EXAMPLES / "celery" / f"{name}.py" for name in ("celeryconfig", "app", "client")))
    results = [ast.literal_eval(line) for line in shop.type_there("app", "python3 client.py")]
    assert Counter(result["num_hidden_units"] for result in results) == {128: 4, 256: 4}
    assert {result["node"] for result in results} <= shop.nodes
    assert all(result["uuid"].startswith("GPU-") for result in results), results
    logs = "".join(path.read_text(errors="replace") for path in (shop.folder / "logs").rglob("*.log"))
    assert [logs.count(f"num_hidden_units={units} CUDA=") for units in (128, 256)] == [4, 4], logs


@on_workers
def test_a_celery_app_can_set_up_limit_and_end_the_process_of_its_tasks(shop: Shop) -> None:
    shop.bring("app", *(LIMITS / f"{name}.py" for name in ("celeryconfig", "app", "client")))
    wait = Wait(what="the workers to serve the app", timeout_s=60, fix="look at their logs")
    logs = sorted((shop.folder / "logs").rglob("*.log"))
    denied = "worker_concurrency = '4' has no effect"
    wait.until(lambda: [denied in log.read_text(errors="replace") for log in logs], all)
    said = shop.type_there("app", "python3 client.py")
    kills = ["TimeLimitExceeded(2,)", "terminated"] * 3
    assert said == ["True True", "ended in order", *kills, str(["ended in order"] * 4)]
    for node in shop.nodes:
        assert shop.gpuprov("exec", node, "--", "pgrep", "-x", "sleep", expect=1).stdout == "", "a task left a process"
