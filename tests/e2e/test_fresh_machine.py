"""The README's first command on a machine that was just installed, and a power cut on its first day."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.machine import container, virtual_machine

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.conftest import Gpuprov
    from tests.e2e.machine import Machine
    from tests.e2e.places import Place

NODES = [f"c00{number}" for number in range(4)]
JOB = "outlives-the-cut"
WORKING = {"idle", "allocated", "mixed"}


@pytest.fixture(scope="module", params=["container", pytest.param("virtual", marks=pytest.mark.long)])
def machine(
    request: pytest.FixtureRequest,
    gpuprov: Gpuprov,  # noqa: ARG001 - root, and LXD is there
    place: Place,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Machine]:
    folder = tmp_path_factory.mktemp("machine")
    with container(place, folder) if request.param == "container" else virtual_machine(folder) as made:
        made.run("make", "up")
        yield made
    shutil.rmtree(folder)


def status(machine: Machine) -> dict[str, Any]:
    return {row["name"]: row for row in json.loads(machine.run("gpuprov", "--json", "cluster", "status"))["nodes"]}


def test_make_up_makes_four_nodes(machine: Machine) -> None:
    assert {name: (row["slurm"], row["health"]) for name, row in status(machine).items()} == dict.fromkeys(
        NODES, ("idle", "ok")
    )
    assert sorted(machine.run("gpuprov", "exec", NODES[0], "--", "srun", "-N4", "hostname").split()) == NODES
    assert json.loads(machine.run("gpuprov", "--json", "cluster", "up"))["unchanged"] is True


def test_nodes_are_back_after_a_power_cut_with_nobody_there(machine: Machine) -> None:
    """LXD was not restarted since it was installed, and nobody asks it anything until the nodes' daemons run."""
    batch = ("sbatch", "--job-name", JOB, "--wrap", "sleep 600", "--nodes", "2", "--output", "/dev/null")
    machine.run("gpuprov", "exec", NODES[0], "--", *batch)
    kept = (
        f"grep -qs {JOB} /var/lib/slurm/slurmctld/job_state && sync || echo not yet"  # Slurm writes every few seconds
    )
    machine.wait_for(lambda: not machine.run("gpuprov", "exec", NODES[0], "--", "sh", "-c", kept), within_s=60)
    machine.lose_power()
    machine.boot()
    count = ("sh", "-c", "pgrep -c -x slurmd || true")
    machine.wait_for(lambda: machine.run(*count).strip() == str(len(NODES)), within_s=60)
    machine.wait_for(lambda: {row["slurm"].rstrip("*") for row in status(machine).values()} <= WORKING, within_s=60)
    queue = machine.run("gpuprov", "exec", NODES[0], "--", "squeue", "--noheader", "--format=%j %T").split()
    assert queue in ([JOB, "PENDING"], [JOB, "RUNNING"])
    machine.run("gpuprov", "exec", NODES[0], "--", "scancel", "--user", "root")
    assert json.loads(machine.run("gpuprov", "--json", "verify"))["verdict"] == "pass"
