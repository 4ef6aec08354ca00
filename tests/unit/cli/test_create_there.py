"""`create-node` in a cluster over hosts and on other hosts, as it is typed on a machine without an engine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.cli import session
from gpuprov.cluster.state import observe_cluster
from gpuprov.core.errors import Unreachable, UsageError
from gpuprov.core.reporter import Silent
from gpuprov.drivers.base import LABEL_ORDER
from gpuprov.fleet.hosted_order import HostedOrder
from gpuprov.fleet.node_there import create_over_hosts
from gpuprov.lifecycle.remove_nodes import remove_nodes
from gpuprov.link.several import HostAnswer
from gpuprov.shapes.node_order import NodeOrder
from tests.unit.cli.test_nodes_there import conf_of_all, lab, states, verbs, world
from tests.unit.cli.test_spanning import AWAY

if TYPE_CHECKING:
    from gpuprov.drivers.base import File
    from tests.unit.cli.test_spanning import Typing

pytestmark = pytest.mark.slow

__all__ = ["lab"]


def homes(lab: Typing) -> dict[str, str]:
    return {node["name"]: node["host"] for node in lab.json("cluster", "status")["nodes"]}


def munge_key(lab: Typing) -> File:
    """That of Slurm's controller."""
    return world(lab, "hoff").engine.nodes["c000"].files["/etc/munge/munge.key"]


def test_a_clone_of_the_only_node_of_a_host_has_the_key_of_the_others(lab: Typing) -> None:
    lab.type("rm", "c002")
    lab.type("stop", "c003")
    lab.type("clone", "c003", "c009")
    assert world(lab, "hinton").engine.nodes["c009"].files["/etc/munge/munge.key"] == munge_key(lab)


def test_a_clone_of_a_node_of_a_cluster_on_another_host_alone(lab: Typing) -> None:
    lab.type("create-node", "x000", "--host", "hinton", "--cluster", "other", "--role", "plain")
    world(lab, "hinton").driver.stop_node("x000")
    lab.hosts.asked.clear()
    lab.type("clone", "x000", "x001")
    assert verbs(lab) == ["find", "create"]
    state = observe_cluster(world(lab, "hinton").driver, "other")
    assert [node.name for node in state.nodes] == ["x000", "x001"]
    lab.type("clone", "x009", "x010", expect=2)
    assert "there is no node x009" in lab.errors


def test_a_node_on_a_host_is_one_of_the_whole_cluster(lab: Typing) -> None:
    told = lab.json("create-node", "c009", "--host", "hinton", "--gpus", "1")
    assert any(line.startswith("hinton: created node c009") for line in told["changed"])
    assert verbs(lab) == ["seek", "create", "tell", "ready"]
    assert homes(lab)["c009"] == "hinton"
    assert "NodeName=c009 NodeAddr=10.0.5.10" in conf_of_all(lab)
    assert set(states(lab).values()) == {"idle"}
    keys = {
        node.files["/etc/munge/munge.key"].content
        for one in lab.hosts.worlds.values()
        for node in one.engine.nodes.values()
    }
    assert len(keys) == 1
    node = world(lab, "hinton").engine.nodes["c009"]
    assert "secret" not in node.labels[LABEL_ORDER]
    assert node.environment["NCCL_SOCKET_IFNAME"] == "eth1"
    assert lab.json("create-node", "c009", "--host", "hinton", "--gpus", "1")["unchanged"]
    assert lab.json("cluster", "up", "--no-verify")["unchanged"]
    assert "hinton: removed c009" in lab.json("rm", "c009")["changed"]


def test_a_node_is_not_waited_for_where_the_host_of_the_controller_does_not_answer(lab: Typing) -> None:
    lab.hosts.away = {"hoff"}
    told = lab.json("create-node", "c009", "--host", "hinton", "--gpus", "0", expect=AWAY)
    assert any(line.startswith("hinton: created node c009") for line in told["changed"])
    assert "hoff with c000 does not answer: no new jobs start on c009 until it does" in lab.errors
    assert ("hoff", "ready") not in lab.hosts.asked


def test_two_at_once_get_different_addresses_and_the_next_run_tells_all_hosts(
    lab: Typing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one begins when the first one has made its node, and no other host knows of it."""
    honest = lab.hosts.work

    def overtaken(requests: Any) -> Any:
        made = honest(requests)
        monkeypatch.setattr(lab.hosts, "work", honest)
        lab.type("create-node", "left", "--host", "hoff", "--gpus", "1")
        return made

    monkeypatch.setattr(lab.hosts, "work", overtaken)
    lab.type("create-node", "right", "--host", "hinton", "--gpus", "1", expect=2)
    assert "cluster lab has been changed from another machine" in lab.errors
    assert "fix: run the same command again" in lab.errors
    lab.type("create-node", "right", "--host", "hinton", "--gpus", "1")
    conf = conf_of_all(lab)
    addresses = [line.split()[1] for line in conf.splitlines() if line.startswith(("NodeName=left", "NodeName=right"))]
    assert len(set(addresses)) == 2
    assert lab.json("cluster", "up", "--no-verify")["unchanged"]


def test_a_name_that_went_to_another_host_meanwhile_is_refused(lab: Typing, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both have been told that nobody has it."""
    honest = lab.hosts.work

    def overtaken(requests: Any) -> Any:
        monkeypatch.setattr(lab.hosts, "work", honest)
        lab.type("create-node", "same", "--host", "hoff")
        return honest(requests)

    monkeypatch.setattr(lab.hosts, "work", overtaken)
    lab.type("create-node", "same", "--host", "hinton", expect=2)
    assert "the name same is taken by a node on hoff" in lab.errors
    assert homes(lab)["same"] == "hoff"
    assert lab.json("cluster", "up", "--no-verify")["unchanged"]


@pytest.mark.parametrize("where", [("--host", "hoff"), ("--host", "hinton"), ()])
def test_a_name_that_two_controllers_gave_at_the_same_moment_is_told(
    lab: Typing, monkeypatch: pytest.MonkeyPatch, where: tuple[str, ...]
) -> None:
    """Both have been told that nobody has it, and the first one's other hosts hear of it too late."""
    honest = lab.hosts.work

    def late(requests: Any) -> Any:
        (verb,) = {request.verb for request in requests.values()}
        if verb == "create":
            return honest(requests)
        error = Unreachable("the connection was lost", evidence="ssh printed nothing", fix="run it again")
        return [HostAnswer(machine=machine, error=error) for machine in requests]

    def overtaken(requests: Any) -> Any:
        monkeypatch.setattr(lab.hosts, "work", late)
        lab.type("create-node", "same", "--host", "hoff", expect=3)
        monkeypatch.setattr(lab.hosts, "work", honest)
        return honest(requests)

    monkeypatch.setattr(lab.hosts, "work", overtaken)
    lab.type("create-node", "same", "--host", "hinton")
    lab.type("create-node", "same", *where, expect=2)
    assert "the node same exists on 2 hosts" in lab.errors
    assert "ssh hoff.example gpuprov rm same, or ssh hinton.example gpuprov rm same" in lab.errors
    for typed in (("cluster", "up", "--no-verify"), ("create-node", "c012")):
        lab.type(*typed, expect=2)
        assert "the node same exists on 2 hosts" in lab.errors
        assert "ssh hoff.example gpuprov rm same, or ssh hinton.example gpuprov rm same" in lab.errors
    hoff = world(lab, "hoff")
    remove_nodes(hoff.driver, ["same"], hoff.host, reporter=Silent())
    lab.type("cluster", "up", "--no-verify")
    assert homes(lab)["same"] == "hinton"


def test_without_host_it_goes_where_its_gpus_are(lab: Typing) -> None:
    for name in ("c010", "c011"):
        lab.type("create-node", name, "--host", "hoff", "--gpus", "1", "--exclusive")
    told = lab.json("create-node", "c012", "--gpus", "2", "--exclusive")
    assert any(line.startswith("hinton: created node c012") for line in told["changed"])
    lab.type("create-node", "c013", "--gpus", "1", "--exclusive", expect=2)
    assert "its hosts have room for 0" in lab.errors
    assert not any("c013" in one.engine.nodes for one in lab.hosts.worlds.values())


@pytest.mark.parametrize("elsewhere", [True, False])
def test_gpus_that_went_to_another_node_meanwhile_are_looked_for_on_other_hosts(
    lab: Typing, monkeypatch: pytest.MonkeyPatch, *, elsewhere: bool
) -> None:
    """The second one takes them when the first one has chosen its host."""
    if not elsewhere:
        lab.type("create-node", "c010", "--host", "hoff", "--gpus", "1", "--exclusive")
    honest = lab.hosts.work

    def overtaken(requests: Any) -> Any:
        (machine,) = requests
        monkeypatch.setattr(lab.hosts, "work", honest)
        lab.type("create-node", "left", "--host", machine.name, "--gpus", "2", "--exclusive")
        return honest(requests)

    monkeypatch.setattr(lab.hosts, "work", overtaken)
    words = ("create-node", "right", "--gpus", "2", "--exclusive")
    lab.type(*words, expect=2)
    assert "not enough GPUs for right" in lab.errors
    assert ("fix: run the same command again" in lab.errors) is elsewhere
    assert ("ask whose GPU it is now: gpuprov show" in lab.errors) is not elsewhere
    lab.type(*words, expect=0 if elsewhere else 2)


def test_a_node_that_its_host_has_lost_is_not_looked_for_on_other_hosts(lab: Typing) -> None:
    """Every run chooses the host that is recorded for it."""
    lab.type("create-node", "c009", "--host", "hinton", "--gpus", "2", "--exclusive")
    del world(lab, "hinton").engine.nodes["c009"]
    lab.type("create-node", "left", "--host", "hinton", "--cluster", "other", "--gpus", "2", "--exclusive")
    lab.type("create-node", "c009", "--gpus", "2", "--exclusive", expect=2)
    assert "not enough GPUs for c009" in lab.errors
    assert "had free GPUs a moment ago" not in lab.errors
    assert "run the same command again" not in lab.errors


def test_a_refusal_of_a_host_is_raised_as_it_is(lab: Typing, monkeypatch: pytest.MonkeyPatch) -> None:
    refusal = UsageError("no", evidence="because", fix="yes")

    def refuse(requests: Any) -> Any:
        return [HostAnswer(machine=machine, error=refusal) for machine in requests]

    monkeypatch.setattr(lab.hosts, "work", refuse)
    order, hosts = HostedOrder(node=NodeOrder(name="c009", cluster="lab")), lab.hosts
    with pytest.raises(UsageError) as told:
        create_over_hosts(order, hosts.machines, hosts, reporter=Silent())
    assert (told.value, told.value.__cause__) == (refusal, None)


def test_a_host_without_nodes_gets_the_key_of_the_others(lab: Typing) -> None:
    lab.type("rm", "c002", "c003")
    lab.type("create-node", "c007", "--host", "hinton")
    keys = {
        node.files["/etc/munge/munge.key"].content
        for one in lab.hosts.worlds.values()
        for node in one.engine.nodes.values()
    }
    assert len(keys) == 1
    assert states(lab)["c007"] == "idle"


def test_hosts_that_only_the_spec_names_are_asked_too(lab: Typing, monkeypatch: pytest.MonkeyPatch) -> None:
    machines = lab.hosts.machines
    file = Path(lab.file)
    file.write_text(file.read_text().replace("hinton,", f"hinton, address: {machines['hinton'].address},"))
    lab.type("cluster", "up", "-f", lab.file, "--no-verify")
    monkeypatch.setattr(session, "remembered_hosts", lambda: {"hoff": machines["hoff"]})
    lab.hosts.asked.clear()
    questions, honest = [], lab.hosts.ask

    def ask(requests: Any, *further: Any) -> Any:
        questions.append([request.verb for request in requests.values()])
        return honest(requests, *further)

    monkeypatch.setattr(lab.hosts, "ask", ask)
    told = lab.json("create-node", "c009", "--gpus", "1")
    assert any(line.startswith("hinton: ") for line in told["changed"]), "it has learned of the node"
    assert [host for host, verb in lab.hosts.asked if verb == "seek"] == ["hoff", "hinton"]
    assert questions.count(["seek"]) == 1, "so that silent ones cost one limit together"


def test_a_host_that_cannot_have_it_is_refused(lab: Typing) -> None:
    lab.type("create-node", "c009", "--host", "nobody", expect=2)
    assert "no host nobody was added" in lab.errors
    lab.type("create-node", "c000", "--host", "hinton", expect=2)
    assert "the name c000 is taken by a node on hoff" in lab.errors
    lab.type("create-node", "c000", expect=2)
    assert "the name c000 is taken" in lab.errors
    lab.hosts.away = {"hinton"}
    lab.type("create-node", "c009", "--host", "hinton", expect=3)
    assert "hinton is unreachable" in lab.errors
    told = lab.json("create-node", "c009", expect=AWAY)
    assert any(line.startswith("hoff: created node c009") for line in told["changed"])
    lab.hosts.away = set()
    lab.type("cluster", "up", "--no-verify")
    assert "NodeName=c009" in conf_of_all(lab)


def test_a_node_of_a_cluster_of_its_own_on_another_host(lab: Typing) -> None:
    told = lab.json("create-node", "x000", "--host", "hinton", "--cluster", "other", "--role", "plain")
    assert any(line.startswith("hinton: created node x000") for line in told["changed"])
    state = observe_cluster(world(lab, "hinton").driver, "other")
    assert [node.name for node in state.nodes] == ["x000"]
    assert "x000" not in world(lab, "hoff").engine.nodes


def test_on_the_host_itself_it_is_refused(lab: Typing) -> None:
    from gpuprov.core.errors import UsageError

    with pytest.raises(UsageError, match="no single node can be added") as caught:
        world(lab, "hinton").create("c009")
    assert "create-node NAME --host HOST" in str(caught.value)


def test_a_clone_is_made_on_the_host_of_its_source(lab: Typing) -> None:
    lab.type("stop", "c003")
    lab.hosts.asked.clear()
    told = lab.json("clone", "c003", "c009")
    assert any(line.startswith("hinton: created node c009") for line in told["changed"])
    assert verbs(lab) == ["find", "create", "tell", "ready"]
    assert homes(lab)["c009"] == "hinton"
    assert world(lab, "hinton").engine.nodes["c009"].files["/etc/munge/munge.key"] == munge_key(lab)
    assert lab.json("clone", "c003", "c009")["unchanged"]
    lab.type("start", "c003")
    assert "NodeName=c009 NodeAddr=" in conf_of_all(lab)
    assert lab.json("cluster", "up", "--no-verify")["unchanged"]
    lab.type("clone", "c000", "c010", expect=2)
    assert "c000" in lab.errors
    lab.hosts.away = {"hinton"}
    lab.type("clone", "c003", "c011", expect=AWAY)
    assert "no host that answers has node c003" in lab.errors


def test_a_host_that_is_away_does_not_learn_of_a_clone_and_that_is_said(lab: Typing) -> None:
    lab.type("stop", "c003")
    lab.hosts.away = {"hoff"}
    told = lab.json("clone", "c003", "c009", expect=AWAY)
    assert any(line.startswith("hinton: created node c009") for line in told["changed"])
    assert told["error"]["what"] == "the new node is not recorded on all hosts: hoff (1 of 2 hosts)"
