"""The transcript that gpuprov is for: up, look, run, change nothing, grow, shrink, repair."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from subprocess import Popen

    from tests.e2e.conftest import Finished, Gpuprov, World

NODES = ["e000", "e001", "e002", "e003"]
IDLE = dict.fromkeys(NODES, "idle")
pytestmark = pytest.mark.usefixtures("cluster")


def test_up_makes_four_idle_nodes_and_says_so(gpuprov: Gpuprov, cluster: Finished) -> None:
    document = cluster.document
    assert document["unchanged"] is False
    assert [line for line in document["changed"] if line.startswith("create node")] == [
        f"create node e00{n} 10.78.3.{n + 2} role slurm, 1 GPU shared (simulated)" for n in range(4)
    ]
    assert "SIMULATED" in cluster.stderr
    for number, (name, row) in enumerate(gpuprov.rows().items()):
        expected = {
            "name": f"e00{number}",
            "role": "slurm",
            "status": "running",
            "address": f"10.78.3.{number + 2}",
            "private_address": f"10.78.5.{number + 1}",
            "sharing": "shared",
            "simulated": True,
            "slurm": "idle",
            "health": "ok",
        }
        assert {key: row[key] for key in expected} == expected
        assert len(row["gpus"]) == len(row["devices"]) == 1, name


def test_status_for_people_says_simulated_on_every_line(gpuprov: Gpuprov) -> None:
    lines = gpuprov("cluster", "status", "gpte2e").stdout.splitlines()
    assert lines[0].split() == ["NODE", "STATUS", "ADDRESS", "PRIVATE", "GPU", "SHARING", "ROLE", "SLURM", "HEALTH"]
    assert [line.split()[0] for line in lines[1:5]] == NODES
    assert all("SIMULATED" in line for line in lines[1:5])


def test_nvidia_smi_lists_the_lease_of_its_node(gpuprov: Gpuprov) -> None:
    for row in gpuprov.json("cluster", "status", "gpte2e")["nodes"]:
        assert gpuprov.in_node(row["name"], "nvidia-smi", "-L") == f"GPU 0: SIMULATED (UUID: {row['gpus'][0]})\n"


def test_srun_reaches_every_node(gpuprov: Gpuprov) -> None:
    assert sorted(gpuprov.in_node("e000", "srun", "-N4", "hostname").split()) == NODES


def test_a_job_sees_the_gpu_it_asked_for(gpuprov: Gpuprov) -> None:
    script = 'echo "gpus=$CUDA_VISIBLE_DEVICES"'
    assert gpuprov.in_node("e000", "srun", "--gres=gpu:1", "sh", "-c", script) == "gpus=0\n"
    assert gpuprov.in_node("e000", "srun", "sh", "-c", script) == "gpus=NoDevFiles\n"


def test_what_slurm_starts_ends_before_services_where_memory_runs_out(gpuprov: Gpuprov) -> None:
    score = "sleep 1; cat /proc/self/oom_score_adj"
    script = f"f=/tmp/score; sbatch -W -w e000 -o $f --wrap '{score}; srun sh -c \"{score}\"' >&2 && cat $f; rm $f"
    assert gpuprov.in_node("e000", "sh", "-c", script).split() == ["900", "900"]


def test_a_smoke_kernel_under_slurm_is_right_and_says_simulated(gpuprov: Gpuprov) -> None:
    text = gpuprov.in_node("e000", "srun", "--gres=gpu:1", "python3", "-m", "smoke_kernels", "matmul", "--quick")
    assert "passed SIMULATED" in text
    assert "golden" in text


def test_slurm_refuses_more_gpus_than_a_node_has(gpuprov: Gpuprov) -> None:
    refused = gpuprov("exec", "e000", "--", "srun", "--gres=gpu:2", "-n2", "hostname", expect=1)
    assert "Requested node configuration is not available" in refused.stderr
    assert refused.stdout == ""


def test_a_second_up_changes_nothing(gpuprov: Gpuprov, world: World, spec: str) -> None:
    before = world.look()
    second = gpuprov("cluster", "up", "-f", spec)
    assert second.stdout.startswith("unchanged\n")
    assert gpuprov.json("cluster", "up", "--name", "gpte2e")["unchanged"] is True
    assert gpuprov.json("cluster", "plan", "--name", "gpte2e")["plan"] == []
    assert world.look() == before


def wait_until(reached: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 20
    while not reached():
        assert time.monotonic() < deadline, f"waited in vain for {what}"


@contextmanager
def job_on(gpuprov: Gpuprov, first: str, last: str) -> Iterator[Popen[str]]:
    """A job that runs until the block has ended, so that no test guesses how long it must be; it must end well."""
    wait = "while ! [ -e /run/end-job ]; do sleep 0.1; done; rm /run/end-job; hostname"
    with gpuprov.start("exec", "e000", "--", "srun", "-N2", "-w", f"{first},{last}", "sh", "-c", wait) as job:
        try:
            wait_until(lambda: "RUNNING" in gpuprov.in_node("e000", "squeue", "-h", "-o", "%T"), "the job's start")
            yield job
        finally:
            for name in (first, last):
                gpuprov.in_node(name, "touch", "/run/end-job")
            stdout, stderr = job.communicate(timeout=30)
        assert (sorted(stdout.split()), stderr, job.returncode) == ([first, last], "", 0)
    wait_until(lambda: gpuprov.in_node("e000", "squeue", "-h") == "", "the job to be gone")


def test_grow_and_shrink_leave_a_running_job_alone(gpuprov: Gpuprov) -> None:
    with job_on(gpuprov, "e000", "e001") as job:
        grown = gpuprov.json("cluster", "up", "--name", "gpte2e", "-n", "6", "--no-verify")
        assert [row["name"] for row in grown["nodes"]] == [*NODES, "e004", "e005"]
        assert gpuprov.slurm_states() == {**IDLE, "e000": "mixed", "e001": "mixed", "e004": "idle", "e005": "idle"}
        assert len(gpuprov.in_node("e005", "srun", "-N4", "hostname").split()) == 4
        gpuprov("cluster", "up", "--name", "gpte2e", "-n", "2", "--no-verify")
        assert sorted(gpuprov.rows()) == ["e000", "e001"]
        assert gpuprov.in_node("e000", "sinfo", "-h", "-o", "%N").strip() == "e[000-001]"
        assert job.poll() is None
    gpuprov("cluster", "up", "--name", "gpte2e", "-n", "4", "--no-verify")
    assert gpuprov.slurm_states() == IDLE


def test_no_shrink_under_a_running_job(gpuprov: Gpuprov, world: World) -> None:
    with job_on(gpuprov, "e000", "e003"):
        before = world.look()
        refused = gpuprov("cluster", "up", "--name", "gpte2e", "-n", "2", expect=2)
        assert "there are jobs on e[002-003]" in refused.stderr
        assert "of root (sh) on e[000,003]" in refused.stderr
        assert "--drain" in refused.stderr
        assert world.look() == before


def test_nodes_come_back_idle_after_a_restart(gpuprov: Gpuprov) -> None:
    for name in ("e000", "e002"):  # the controller, and another
        gpuprov("stop", name)
        assert gpuprov.rows()[name]["status"] == "stopped"
        gpuprov("start", name)
    assert gpuprov.slurm_states() == IDLE
    assert sorted(gpuprov.in_node("e000", "srun", "-N4", "hostname").split()) == NODES


def test_plan_shows_drift_and_up_repairs_it(gpuprov: Gpuprov, world: World, lxc: Callable[..., str]) -> None:
    before = world.look()
    device = gpuprov.rows()["e002"]["devices"][0].removeprefix("/dev/")  # other clusters hold GPUs of this host, too
    lxc("config", "device", "remove", "e002", f"dev-{device}")
    plan = gpuprov.json("cluster", "plan", "--name", "gpte2e")["plan"]
    assert [line for line in plan if "e002" in line and "device" in line]
    gpuprov("cluster", "up", "--name", "gpte2e", "--no-verify")
    assert world.look() == before
    assert gpuprov.slurm_states() == IDLE
