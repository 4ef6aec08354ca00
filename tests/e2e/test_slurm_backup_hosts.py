"""The machine of Slurm's controller loses power: the backup on the other machine has the queue, and gives it back.

With that machine goes slurmdbd; what ran meanwhile is on record once it is back.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.e2e.controller import AWAY, controller_of
from tests.e2e.several_machines import SHARED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.conftest import Gpuprov
    from tests.e2e.controller import Controller
    from tests.e2e.places import Place

pytestmark = pytest.mark.long

HOSTS = ("hoff", "hinton")
SPEC = f"""\
version: gpuprov/v1
name: lab
hosts: [{{name: hoff}}, {{name: hinton}}]
nodes: {{count: 4}}
gpus: {{mode: simulated}}
share: {SHARED}
slurm: {{backup: c002}}
accounting: on
people: [{{name: ann, uid: 10001, account: vision, gpus: 1}}]
unreachable: {{after_s: 5}}
"""
TAKEOVER_S = 240
LATE_S = 60  # between the end of a job and when it is known
WRITTEN_S = 8  # Slurm writes its queue every 5 s
REFUSED = 2
NO_ACCOUNTING = 4
BATCH = "runuser -u {} -- sbatch --parsable --output=/dev/null --chdir=/tmp -w c003 --gres=gpu:1 --exclusive --wrap"


@pytest.fixture(scope="module")
def controller(gpuprov: Gpuprov, place: Place, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Controller]:
    with controller_of(gpuprov, place, tmp_path_factory.mktemp("backup"), dict.fromkeys(HOSTS, ()), SPEC) as made:
        yield made


@pytest.fixture(scope="module")
def at_least() -> dict[str, int]:
    """The seconds that jobs have had GPUs, by id, as the tests go on."""
    return {}


def batch(controller: Controller, script: str, person: str = "work") -> str:
    """The id of somebody's job on the other machine's second node."""
    return controller("exec", "c002", "--", *BATCH.format(person).split(), script).stdout.strip()


def recorded(controller: Controller) -> dict[str, float]:
    """Seconds of GPUs of the jobs that have ended, as accounting has them."""
    rows = controller("--json", "usage", "--cluster", "lab", "--by", "job").document["rows"]
    return {row["name"]: row["gpu_seconds"] for row in rows if not row["running"]}


def word(controller: Controller, job: str) -> str:
    """Slurm's word for it, as the backup's node hears it."""
    ask = ("timeout", "60", "squeue", "-h", "-t", "all", "-j", job, "-o", "%T")
    return controller.lab.machines["hinton"].run("lxc", "exec", "c002", "--", *ask).strip()


def test_a_backup_on_the_controllers_machine_is_refused(controller: Controller) -> None:
    file = controller.folder / "near.yaml"
    file.write_text(SPEC.replace("c002", "c001"))
    said = controller("cluster", "up", "-f", str(file), expect=REFUSED).all
    assert "c001 cannot be the backup of Slurm's controller c000" in said
    assert "slurm.backup: c002, which is on hinton" in said


def test_the_queue_outlasts_the_machine_of_the_controller(controller: Controller, at_least: dict[str, int]) -> None:
    controller("cluster", "up", "-f", controller.spec, "--no-verify")
    runs, waits = batch(controller, "sleep 150; touch /shared/ran"), batch(controller, "touch /shared/waited")
    backup = controller.lab.machines["hinton"]
    backup.wait_for(lambda: word(controller, runs) == "RUNNING", within_s=TAKEOVER_S)
    time.sleep(WRITTEN_S)
    controller.lab.machines["hoff"].lose_power()
    took_over = "timeout 30 squeue -h >/dev/null 2>&1 && echo yes || true"
    backup.wait_for(lambda: backup.run("lxc", "exec", "c002", "--", "sh", "-c", took_over).strip(), within_s=TAKEOVER_S)
    assert (word(controller, runs), word(controller, waits)) == ("RUNNING", "PENDING")
    job = controller("submit", "--cluster", "lab", "--no-project", "--", "touch", "/shared/submitted").stdout.strip()
    controller("jobs", "wait", "--cluster", "lab", job)
    assert (controller.lab.shared / "submitted").exists()
    ann = batch(controller, "sleep 2", "ann")
    assert "evidence: slurmdbd is on" in controller("usage", "--cluster", "lab", expect=NO_ACCOUNTING).all
    told = controller.nodes("cluster", "status", expect=AWAY)
    assert [told[name]["status"] for name in ("c000", "c001", "c002")] == ["unreachable", "unreachable", "running"]
    backup.wait_for(lambda: word(controller, ann) == "COMPLETED", within_s=TAKEOVER_S)
    assert (word(controller, runs), word(controller, waits)) == ("COMPLETED", "COMPLETED")
    at_least |= {runs: 150, waits: 0, ann: 2}
    assert (controller.lab.shared / "ran").exists()
    assert (controller.lab.shared / "waited").exists()


def test_the_controller_is_back_with_its_machine(controller: Controller, at_least: dict[str, int]) -> None:
    machine = controller.lab.machines["hoff"]
    busy = batch(controller, "sleep 400")
    controller.lab.machines["hinton"].wait_for(lambda: word(controller, busy) == "RUNNING", within_s=TAKEOVER_S)
    machine.boot()
    state = "scontrol ping | grep -c 'primary.* is UP' || true"
    machine.wait_for(
        lambda: machine.run("sh", "-c", "lxc list -f csv -c s | grep -c RUNNING || true").strip() == "2",
        within_s=TAKEOVER_S,
    )
    machine.wait_for(
        lambda: machine.run("lxc", "exec", "c000", "--", "sh", "-c", state).strip() == "1", within_s=TAKEOVER_S
    )
    controller("cluster", "up")
    assert word(controller, busy) == "RUNNING"
    assert controller.srun("c000", "-N3", "-w", "c[000-002]", "hostname") == ["c000", "c001", "c002"]
    controller("exec", "c000", "--", "scancel", busy)
    machine.wait_for(lambda: recorded(controller).keys() >= {*at_least, busy}, within_s=TAKEOVER_S)
    found = recorded(controller)
    wrong = {job: found[job] for job, least in at_least.items() if not least <= found[job] < least + LATE_S}
    assert wrong == {}, at_least


def test_down_empties_the_folder_of_the_queue(controller: Controller) -> None:
    beside = controller.lab.shared.with_name("beside")
    assert list(beside.iterdir())
    controller("cluster", "down", "--yes", "--force")
    assert not list(beside.iterdir())
