"""A cluster in Incus beside those in LXD and Docker: made, run twice, changed behind its back, and removed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.core.waiting import Wait
from tests.e2e.conftest import lxd
from tests.e2e.killing import dump_cluster
from tests.e2e.places import MARK, PLACES
from tests.e2e.test_exhaustion import daemon
from tests.e2e.test_networks import ASK, outside  # noqa: F401 - a fixture
from tests.e2e.test_refusals import has_three_parts

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.e2e.conftest import Finished, Gpuprov
    from tests.e2e.killing import Dump

PLACE = PLACES["incus"]
NODES = [PLACE.node(number) for number in range(2)]
FOREIGN = PLACE.node(7)
INCUSD = "/usr/libexec/incus/incusd"
OTHER = ("--engine", "incus", "-n", "1", "--gpu-mode", "simulated", "--no-verify")
CREATE = ("--cluster", PLACE.cluster, "--engine", "incus", "--gpu-mode", "simulated", "--role", "plain")


@pytest.fixture(scope="module", autouse=True)
def cluster(gpuprov: Gpuprov, place: Any, incus: Callable[..., str]) -> Iterator[Finished]:  # noqa: ARG001 - swept
    """Two nodes for all tests; each leaves them as it found them."""
    spec = gpuprov.folder / "incus.yaml"
    spec.write_text(PLACE.spec(engine="incus"))
    foreign = ("--empty", FOREIGN, "--no-profiles", "--storage", pool())
    incus("create", *foreign, "--config", f"{MARK}={PLACE.cluster}")
    before = lxd(f"instances/{FOREIGN}", client="incus")
    yield gpuprov("--json", "cluster", "up", "-f", str(spec))
    gpuprov("cluster", "down", PLACE.cluster, "--yes")
    assert look(gpuprov).parts == {}
    assert lxd(f"instances/{FOREIGN}", client="incus") == before, "nothing foreign is touched"


def pool() -> str:
    return str(lxd("storage-pools", client="incus")[0]).rpartition("/")[2]


def networks() -> list[dict[str, Any]]:
    """Each of them; Incus lists who uses one in any order."""
    listed: list[dict[str, Any]] = lxd("networks?recursion=1", client="incus")
    managed = [network for network in listed if network["managed"]]  # others' links come and go
    return [{**network, "used_by": sorted(network["used_by"] or ())} for network in managed]


def look(gpuprov: Gpuprov) -> Dump:
    dump = dump_cluster(PLACE.cluster, PLACE.mark, gpuprov.folder / "data", client="incus")
    for key in ("volumes", "folders"):  # those of the foreign instance
        left = [item for item in dump.parts.pop(key, []) if FOREIGN not in item]  # type: ignore[attr-defined]
        dump.parts.update({key: left} if left else {})
    return dump


def test_up_makes_idle_nodes_that_verify_passes(gpuprov: Gpuprov, cluster: Finished) -> None:
    document = cluster.document
    assert [(row["engine"], row["slurm"], row["health"]) for row in document["nodes"]] == [("incus", "idle", "ok")] * 2
    assert {check["status"] for node in document["verify"]["nodes"] for check in node["checks"]} <= {"pass", "skip"}
    assert document["verify"]["verdict"] == "pass"
    assert sorted(gpuprov.in_node(NODES[0], "srun", "-N2", "hostname").split()) == NODES
    assert lxd(f"instances/{NODES[0]}", client="incus")["config"]["security.guestapi"] == "false"


def test_a_second_up_changes_nothing(gpuprov: Gpuprov) -> None:
    before = look(gpuprov)
    assert gpuprov.json("cluster", "up", "--name", PLACE.cluster)["unchanged"] is True
    assert gpuprov.json("cluster", "plan", "--name", PLACE.cluster)["plan"] == []
    assert before.differences(look(gpuprov)) == []


def test_a_rule_and_a_key_that_others_changed_are_put_right(
    gpuprov: Gpuprov, incus: Callable[..., str], host: Callable[..., str]
) -> None:
    before = look(gpuprov)
    incus("config", "set", NODES[1], "security.guestapi=true")
    host("nft", "delete", "chain", "inet", "incus", f"pstrt.{PLACE.mark}0")
    plan = json.dumps(gpuprov.json("cluster", "plan", "--name", PLACE.cluster)["plan"])
    assert "security.guestapi" in plan
    assert "NAT" in plan
    gpuprov("cluster", "up", "--name", PLACE.cluster, "--no-verify")
    assert before.differences(look(gpuprov)) == []
    assert gpuprov.json("cluster", "plan", "--name", PLACE.cluster)["plan"] == []


@pytest.mark.long  # tests/contract/test_networks.py
def test_nodes_reach_the_outside_as_the_host(gpuprov: Gpuprov, outside: subprocess.Popen[str]) -> None:  # noqa: F811
    gpuprov.in_node(NODES[1], "python3", "-c", ASK, PLACE.address(3, 2))
    assert outside.stdout
    assert outside.stdout.readline() == f"{PLACE.address(3, 1)}\n"


@pytest.mark.long  # tests/contract has each verb of a node on Incus
def test_a_node_s_life(gpuprov: Gpuprov, incus: Callable[..., str]) -> None:
    name, copy = PLACE.node(3), PLACE.node(4)
    gpuprov("create-node", name, *CREATE, "--gpus", "gpu1")
    try:
        devices = {device["path"] for device in gpuprov.json("show", name)["node"]["devices"]}
        assert devices == {"/dev/nvidia1", "/dev/nvidiactl"}
        assert name in incus("list", "--format", "csv", "--columns", "n").split()
        gpuprov.in_node(name, "touch", "/root/kept")
        gpuprov("snapshot", name, "good")
        gpuprov.in_node(name, "rm", "/root/kept")
        gpuprov("restore", name, "good")
        gpuprov.in_node(name, "test", "-e", "/root/kept")
        gpuprov("stop", name)
        gpuprov("clone", name, copy, "--gpu-mode", "simulated")
        gpuprov.in_node(copy, "test", "-e", "/root/kept")
        assert gpuprov("ssh", copy, "hostname").stdout == f"{copy}\n"
        assert "systemd" in gpuprov("logs", copy).stdout
    finally:
        gpuprov("rm", name, copy)
    assert gpuprov("rm", name, "--engine", "incus").stdout == "unchanged\n"


def test_a_lease_holds_on_all_engines(gpuprov: Gpuprov, docker: Any) -> None:  # noqa: ARG001 - it is there
    """One pool of GPUs: what a node of Incus holds alone, no node of LXD or Docker gets, and the other way round."""
    names = {engine: PLACE.node(10 + number) for number, engine in enumerate(("lxd", "incus", "docker"))}
    simulated = {"GPUPROV_SIMULATED_GPUS": "64"}
    for holder, held in names.items():
        alone = ("--role", "plain", "--gpu-mode", "simulated", "--gpus", "gpu63", "--exclusive")
        cluster_of_its_own = f"{PLACE.mark}-{holder}"
        where = ("--cluster", cluster_of_its_own, "--engine", holder)
        gpuprov("create-node", held, *where, *alone, variables=simulated)
        try:
            for engine in names.keys() - {holder}:
                wanted = ("--cluster", f"{PLACE.mark}-{engine}", "--engine", engine)
                refused = gpuprov("create-node", names[engine], *wanted, *alone, expect=2, variables=simulated)
                has_three_parts(refused)
                assert f"{held} (cluster {cluster_of_its_own}, exclusive, {holder}" in refused.stderr
        finally:
            gpuprov("cluster", "down", cluster_of_its_own, "--yes", "--engine", holder)


def test_what_is_foreign_is_refused(gpuprov: Gpuprov) -> None:
    for verb in (("rm",), ("stop",), ("start",)):
        assert "gpuprov did not create" in gpuprov(*verb, FOREIGN, "--engine", "incus", expect=2).stderr
    assert "is taken" in gpuprov("create-node", FOREIGN, *CREATE, expect=4).stderr


def test_a_bridge_of_lxd_is_refused(gpuprov: Gpuprov, lxc: Callable[..., str]) -> None:
    before = networks()
    lxc("network", "create", f"{PLACE.mark}2", "ipv4.address=none", "ipv6.address=none")
    try:
        refused = gpuprov("cluster", "up", "--name", f"{PLACE.mark}-b", *OTHER, "--bridge", f"{PLACE.mark}2", expect=4)
    finally:
        lxc("network", "delete", f"{PLACE.mark}2")
    has_three_parts(refused)
    assert f"{PLACE.mark}2 exists and was not created by gpuprov" in refused.stderr
    assert networks() == before


def test_an_incus_without_storage_is_told(gpuprov: Gpuprov, tmp_path: Path) -> None:
    folder = tmp_path / "incus"
    folder.mkdir()
    argv = (INCUSD, "--group", "root", "--logfile", str(tmp_path / "incus.log"))
    with daemon(*argv, INCUS_DIR=str(folder)):
        Wait(what="the second Incus", timeout_s=30, fix="read its log").until((folder / "unix.socket").exists, bool)
        where = {"INCUS_DIR": str(folder)}
        refused = gpuprov("cluster", "up", "--name", f"{PLACE.mark}-b", *OTHER, expect=3, variables=where)
    has_three_parts(refused)
    assert "incus has no storage pool" in refused.stderr
    assert "gpuprov host prepare --engine incus" in refused.stderr


def test_undo_under_nodes_changes_nothing_and_a_second_prepare_neither(gpuprov: Gpuprov) -> None:
    refused = gpuprov("host", "undo", "--engine", "incus", expect=3).stderr
    assert f"Incus has {NODES[0]}" in refused
    assert gpuprov("host", "prepare", "--engine", "incus").stdout == "unchanged\n"


def test_doctor_names_the_engines(gpuprov: Gpuprov, docker: Any) -> None:  # noqa: ARG001 - it is there
    findings = {found["id"]: found for found in gpuprov.json("doctor", "--engine", "incus")["findings"]}
    assert "lxd, incus and docker respond; new clusters are created on lxd" in findings["engines"]["evidence"]
    assert findings["engine"]["evidence"].startswith("incus 6.")
