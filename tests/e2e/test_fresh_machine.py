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
STATE = "/var/lib/slurm/slurmctld/job_state"  # Slurm writes it every few seconds
WORKING = {"idle", "allocated", "mixed"}


@pytest.fixture(
    scope="module",
    params=[
        pytest.param((container, "bookworm", ()), id="container"),
        pytest.param(
            (container, "bookworm", ("incus", "docker")), id="container, three engines", marks=pytest.mark.long
        ),
        pytest.param((container, "trixie", ()), id="container, Debian 13", marks=pytest.mark.long),
        pytest.param((virtual_machine, "bookworm", ()), id="virtual machine", marks=pytest.mark.long),
        pytest.param((virtual_machine, "trixie", ()), id="virtual machine, Debian 13", marks=pytest.mark.long),
    ],
)
def machine(
    request: pytest.FixtureRequest,
    gpuprov: Gpuprov,  # noqa: ARG001 - root, and LXD is there
    place: Place,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Machine]:
    folder = tmp_path_factory.mktemp("machine")
    kind, suite, more_engines = request.param
    with kind(place, folder, suite) as made:
        made.run("make", "up")
        for engine in more_engines:
            made.run("gpuprov", "host", "prepare", "--engine", engine)
            made.run("gpuprov", "cluster", "up", "--name", engine, "-n", "2", "--engine", engine)
        yield made
    shutil.rmtree(folder)


def nodes(machine: Machine) -> list[dict[str, Any]]:
    """The nodes of all clusters, as `list` and `cluster status` show them."""
    listed = json.loads(machine.run("gpuprov", "--json", "list"))["nodes"]
    clusters = sorted({node["cluster"] for node in listed})
    shown = [json.loads(machine.run("gpuprov", "--json", "cluster", "status", cluster)) for cluster in clusters]
    return [node for cluster in shown for node in cluster["nodes"]]


def test_make_up_makes_four_nodes(machine: Machine) -> None:
    found = nodes(machine)
    assert {(node["slurm"], node["health"]) for node in found} == {("idle", "ok")}
    assert [node["name"] for node in found if node["engine"] == "lxd"] == NODES
    assert sorted(machine.run("gpuprov", "exec", NODES[0], "--", "srun", "-N4", "hostname").split()) == NODES
    assert json.loads(machine.run("gpuprov", "--json", "cluster", "up"))["unchanged"] is True


def test_nodes_are_back_after_a_power_cut_with_nobody_there(machine: Machine) -> None:
    """No engine was restarted since it was installed, and nobody asks one anything until the nodes' daemons run."""
    there = len(nodes(machine))
    batch = ("sbatch", "--job-name", JOB, "--wrap", "sleep 600", "--nodes", "2", "--output", "/dev/null")
    machine.run("gpuprov", "exec", NODES[0], "--", *batch)
    kept = f"grep -qs {JOB} {STATE} && sync || echo not yet"
    machine.wait_for(lambda: not machine.run("gpuprov", "exec", NODES[0], "--", "sh", "-c", kept), within_s=60)
    machine.lose_power()
    machine.boot()
    count = ("sh", "-c", "pgrep -c -x slurmd || true")
    machine.wait_for(lambda: machine.run(*count).strip() == str(there), within_s=60)
    machine.wait_for(lambda: {node["slurm"].rstrip("*") for node in nodes(machine)} <= WORKING, within_s=60)
    queue = machine.run("gpuprov", "exec", NODES[0], "--", "squeue", "--noheader", "--format=%j %T").split()
    assert queue in ([JOB, "PENDING"], [JOB, "RUNNING"])
    machine.run("gpuprov", "exec", NODES[0], "--", "scancel", "--user", "root")
    assert json.loads(machine.run("gpuprov", "--json", "verify"))["verdict"] == "pass"
