"""Verbs on nodes that are on other hosts, as they are typed on a machine that has no engine of its own."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from gpuprov.cluster.state import observe_cluster
from gpuprov.cluster.whole import recorded_whole
from gpuprov.core.errors import EngineError
from gpuprov.drivers.base import LABEL_CLUSTER, LABEL_MEMBERS
from gpuprov.shapes.base import changed
from tests.fakes.doors import door_without
from tests.fakes.slurm import Drain, FakeJob
from tests.unit.cli.test_spanning import AWAY, at_the_controller

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Recording
    from tests.fakes.world import World
    from tests.unit.cli.test_spanning import Typing

pytestmark = pytest.mark.slow

CONF = "/etc/slurm/slurm.conf"


@pytest.fixture
def lab(
    tmp_path: Path, recording: Recording, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Typing:
    """c000 with Slurm's controller and c001 are on hoff, c002 and c003 on hinton."""
    made = at_the_controller(tmp_path, recording, monkeypatch, capsys)
    made.type("cluster", "up", "-f", made.file, "--no-verify")
    made.hosts.asked.clear()
    return made


def world(lab: Typing, host: str) -> World:
    return lab.hosts.worlds[host]


def conf_of_all(lab: Typing) -> str:
    """That of all nodes, which is the same."""
    found = {node.files[CONF].content for one in lab.hosts.worlds.values() for node in one.engine.nodes.values()}
    (conf,) = found
    return conf.decode()


def states(lab: Typing) -> dict[str, str]:
    return {node["name"]: node["work"] for node in lab.json("cluster", "status")["nodes"]}


def verbs(lab: Typing) -> list[str]:
    """The round trips, each by its verb or verbs."""
    return list(dict.fromkeys(verb for _, verb in lab.hosts.asked))


def test_a_removed_node_is_in_no_file_of_any_host(lab: Typing) -> None:
    told = lab.json("rm", "c003")
    assert "hinton: removed c003" in told["changed"]
    assert any(line.startswith("hoff: renew") and "slurm.conf" in line for line in told["changed"])
    assert "NodeName=c003" not in conf_of_all(lab)
    wholes = [recorded_whole(observe_cluster(one.driver, "lab")) for one in lab.hosts.worlds.values()]
    assert wholes[0] == wholes[1]
    assert sorted(wholes[0].homes) == ["c000", "c001", "c002"] if wholes[0] else False
    assert verbs(lab) == ["find", "out-of-service", "nodes", "tell"]
    assert max(Counter(lab.hosts.asked).values()) == 1
    assert set(states(lab).values()) == {"idle"}
    assert "hinton: create node c003" in " ".join(lab.json("cluster", "up", "--no-verify")["changed"])


def test_a_cluster_whose_record_cannot_be_read_keeps_no_node_of_others(lab: Typing) -> None:
    engine = world(lab, "hinton").engine
    whole = next(network for network in engine.networks.values() if network.labels.get(LABEL_MEMBERS))
    odd = {LABEL_CLUSTER: "early", LABEL_MEMBERS: '{"from": "a later version"}'}
    engine.networks["gpbr77"] = changed(whole, name="gpbr77", labels=odd)
    assert "hinton: removed c003" in lab.json("rm", "c003")["changed"]


def test_a_node_beside_the_controller_is_held_by_its_own_host(lab: Typing) -> None:
    seen: list[tuple[str, ...]] = []
    world(lab, "hoff").slurm.on_drain = seen.append
    lab.type("rm", "c001")
    assert verbs(lab) == ["find", "nodes", "tell"]
    assert seen == [("c001",)], "only by the command itself, on its own host"
    assert "NodeName=c001" not in conf_of_all(lab)


def test_nodes_of_several_hosts_in_one_command(lab: Typing) -> None:
    told = lab.json("rm", "c001", "c003", "c009")
    assert {"hoff: removed c001", "hinton: removed c003"} <= set(told["changed"])
    assert "there is no node c009" in lab.errors
    assert sorted(states(lab)) == ["c000", "c002"]
    assert set(states(lab).values()) == {"idle"}
    assert lab.json("rm", "c001", "c003")["unchanged"]


def test_a_job_on_a_node_is_spared_by_the_host_that_knows_it(lab: Typing) -> None:
    slurm = world(lab, "hoff").slurm
    slurm.queue.append(FakeJob(id="7", nodes="c003"))
    world(lab, "hinton").slurm.queue = slurm.queue
    lab.type("rm", "c003", expect=2)
    assert "job 7 of alice" in lab.errors
    assert "c003" in world(lab, "hinton").engine.nodes
    assert slurm.drains == {}, "it takes jobs again"
    told = lab.json("rm", "c003", "--force")
    assert "hinton: removed c003" in told["changed"]
    assert "ending job 7" in " ".join(lab.hosts._reporter.lines)


def test_no_job_starts_on_a_node_while_its_host_stops_it(lab: Typing) -> None:
    slurm = world(lab, "hoff").slurm
    seen: list[tuple[str, ...]] = []
    slurm.on_drain = seen.append
    told = lab.json("stop", "c002", "c003")
    assert told["changed"] == ["hinton: stopped c002", "hinton: stopped c003"]
    assert seen == [("c002", "c003")]
    assert {node["status"] for node in lab.json("cluster", "status")["nodes"]} == {"running", "stopped"}
    assert slurm.drains == {}
    lab.hosts.asked.clear()
    told = lab.json("start", "c[002-003]")
    assert "hinton: started c002" in told["changed"]
    assert verbs(lab) == ["find", "nodes", "ready"]
    assert set(states(lab).values()) == {"idle"}


def test_a_node_that_stops_is_held_and_then_released(lab: Typing) -> None:
    lab.type("stop", "c003")
    assert verbs(lab) == ["find", "out-of-service", "nodes", "in-service"]


def test_a_node_is_not_held_for_one_that_is_not_there(lab: Typing) -> None:
    lab.type("stop", "c003", "c009", expect=2)
    assert "there is no node c009" in lab.errors
    assert verbs(lab) == ["find"]
    assert world(lab, "hoff").slurm.drains == {}


def test_a_node_from_create_node_is_not_held_by_a_run_that_keeps_it(lab: Typing) -> None:
    lab.type("create-node", "c009", "--host", "hinton", "--gpus", "0")
    seen: list[tuple[str, ...]] = []
    world(lab, "hoff").slurm.on_drain = seen.append
    lab.type("cluster", "up", "-n", "3", "--no-verify", "--force")
    assert seen == [("c003",)]
    assert "c009" in states(lab)


def test_a_node_that_is_stopped_stays_as_slurm_has_it_where_the_command_is_refused(lab: Typing) -> None:
    lab.type("stop", "c003")
    slurm = world(lab, "hoff").slurm
    before = dict(slurm.reasons)
    seen: list[tuple[str, ...]] = []
    slurm.on_drain = seen.append
    lab.type("stop", "c003", "c009", expect=2)
    assert (slurm.drains, slurm.reasons, seen) == ({}, before, [])
    lab.hosts.asked.clear()
    lab.type("rm", "c003")
    assert verbs(lab) == ["find", "out-of-service", "nodes", "tell"]
    assert seen == [], "it takes no jobs"


def test_a_node_that_somebody_drained_stays_so_where_the_command_is_refused(lab: Typing) -> None:
    slurm = world(lab, "hoff").slurm
    slurm.drains["c002"] = Drain(reason="broken fan")
    for one in lab.hosts.worlds.values():
        one.slurm.queue = [FakeJob(id="7", nodes="c003")]
    lab.type("stop", "c002", "c003", expect=2)
    assert "job 7 of alice" in lab.errors
    assert slurm.drains == {"c002": Drain(reason="broken fan")}


def test_a_node_that_could_not_be_stopped_takes_jobs_again(lab: Typing) -> None:
    engine = world(lab, "hinton").engine
    engine.faults.raise_at(EngineError("stuck", evidence="D state", fix="wait"), "stop_node", subject="c003")
    lab.type("stop", "c003", expect=4)
    assert "stuck" in lab.errors
    assert world(lab, "hoff").slurm.drains == {}
    assert set(states(lab).values()) == {"idle"}


def test_a_host_that_fails_to_remove_keeps_its_node_in_all_files(lab: Typing) -> None:
    engine = world(lab, "hinton").engine
    engine.faults.raise_at(EngineError("stuck", evidence="D state", fix="wait"), "delete_node", subject="c003")
    told = lab.json("rm", "c001", "c003", expect=AWAY)
    assert "hoff: removed c001" in told["changed"]
    conf = conf_of_all(lab)
    assert "NodeName=c003" in conf
    assert "NodeName=c001" not in conf
    assert world(lab, "hoff").slurm.drains == {}
    assert "hinton: removed c003" in lab.json("rm", "c003")["changed"]


def test_the_node_that_others_need_stays(lab: Typing) -> None:
    lab.type("rm", "c000", "c001", expect=2)
    assert "c000 has the Slurm service of cluster lab" in lab.errors
    assert "c[002-003]" in lab.errors
    assert sorted(world(lab, "hoff").engine.nodes) == ["c000", "c001"]


def test_a_snapshot_is_taken_and_restored_there(lab: Typing) -> None:
    told = lab.json("snapshot", "c003", "before")
    assert told["changed"] == ["hinton: took snapshot before of c003"]
    assert verbs(lab) == ["find", "nodes"]
    told = lab.json("restore", "c003", "before")
    assert "hinton: restored c003 to before" in told["changed"]
    assert world(lab, "hoff").slurm.drains == {}
    lab.type("restore", "c003", "other", expect=2)
    assert "c003 has no snapshot other" in lab.errors


def test_a_host_that_is_away_is_said(lab: Typing) -> None:
    lab.hosts.away = {"hinton"}
    lab.type("rm", "c003", expect=AWAY)
    assert "no host that answers has node c003" in lab.errors
    told = lab.json("rm", "c001", expect=AWAY)
    assert "hoff: removed c001" in told["changed"]
    lab.hosts.away = set()
    lab.type("cluster", "up", "-n", "4", "--no-verify")
    conf_of_all(lab)


def test_without_the_host_of_the_controller_jobs_are_looked_for_on_the_nodes(lab: Typing) -> None:
    lab.hosts.away = {"hoff"}
    slurm = world(lab, "hinton").slurm
    slurm.queue = [FakeJob(id="9", nodes="c003")]
    lab.type("stop", "c003", expect=2)
    assert "job 9" in lab.errors
    assert lab.json("stop", "c002")["changed"] == ["hinton: stopped c002"]
    assert "c002 cannot be drained: hoff" in lab.errors


def test_a_name_that_no_host_has(lab: Typing) -> None:
    lab.type("stop", "c003", "c009", expect=2)
    assert "there is no node c009" in lab.errors
    assert world(lab, "hinton").engine.nodes["c003"].status == "running"
    assert lab.json("rm", "c009")["unchanged"]


@pytest.mark.parametrize(
    "argv", [("stop", "c009"), ("rm", "c009"), ("show", "c009"), ("exec", "c009", "true"), ("clone", "c009", "web")]
)
def test_a_name_that_no_host_has_may_be_on_an_engine_here_that_is_silent(lab: Typing, argv: tuple[str, ...]) -> None:
    lab.hosts.controller.engines = (door_without("lxd", installed=True),)
    lab.type(*argv, expect=EngineError.exit_code)
    assert "error: lxd does not answer: there is no node c009 on the engines and hosts that respond" in lab.errors
    assert "lxd: lxd is not running on this machine" in lab.errors


def test_a_node_on_two_hosts_is_not_guessed(lab: Typing) -> None:
    world(lab, "hinton").engine.nodes["c001"] = world(lab, "hoff").engine.nodes["c001"]
    for typed in (("rm", "c001"), ("exec", "c001", "--", "true")):
        lab.type(*typed, expect=2)
        assert "more than one host has a node c001" in lab.errors
        assert "host: ssh hoff.example gpuprov show c001, or ssh hinton.example gpuprov show c001" in lab.errors


def test_nodes_of_this_machine_are_changed_as_before(lab: Typing) -> None:
    lab.hosts.controller.engines = world(lab, "hoff").host.engines
    lab.type("stop", "c001", "c003", expect=2)
    assert "c001 and c003 are not on the same machine" in lab.errors
    lab.hosts.asked.clear()
    assert lab.json("stop", "c001")["changed"] == ["stopped c001"]
    assert lab.hosts.asked == []
