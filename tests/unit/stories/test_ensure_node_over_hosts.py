"""Ansible's module `node` in a cluster over hosts: changed where needed, never twice, never in check mode."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.core.errors import PartDone, Unreachable, UsageError
from tests.fakes.slurm import FakeJob
from tests.unit.cli import module_stage
from tests.unit.cli.module_stage import act
from tests.unit.cli.test_nodes_there import conf_of_all, lab, world

if TYPE_CHECKING:
    from tests.unit.cli.test_spanning import Typing

pytestmark = pytest.mark.slow

__all__ = ["lab"]


@pytest.fixture(autouse=True)
def controller(lab: Typing, monkeypatch: pytest.MonkeyPatch) -> None:
    """The module runs where the verbs are typed."""
    hosts = lab.hosts
    monkeypatch.setattr("gpuprov.machine.local.LocalHost", lambda: hosts.controller)
    monkeypatch.setattr("gpuprov.link.hosts_file.read_machines", lambda _inventory: hosts.machines)
    monkeypatch.setattr("gpuprov.link.hosts.HostsBySsh", lambda **_: hosts)


def nodes(lab: Typing) -> dict[str, str]:
    return {name: host for host, one in lab.hosts.worlds.items() for name in one.engine.nodes}


def twice(name: str, **given: Any) -> dict[str, Any]:
    """The results of the first run; check mode says the same before, and nothing after."""
    planned = act("node", check=True, name=name, **given)
    done = act("node", name=name, **given)
    assert (planned["changed"], done["changed"]) == (True, True)
    for check in (True, False):
        again = act("node", check=check, name=name, **given)
        assert (again["changed"], again["node"]) == (False, done["node"])
    return done


def test_a_node_is_made_stopped_started_and_removed_on_its_host(lab: Typing) -> None:
    before = nodes(lab)
    planned = act("node", check=True, name="c009", gpus="1")
    assert planned["changes"] == ["hoff: created node c009"]
    assert nodes(lab) == before
    made = twice("c009", gpus="1")
    assert any(line.startswith("hoff: created node c009 ") for line in made["changes"])
    assert (made["node"]["host"], made["node"]["status"], made["node"]["cluster"]) == ("hoff", "running", "lab")
    assert "NodeName=c009" in conf_of_all(lab)
    stopped = twice("c003", state="stopped")
    assert stopped["changes"] == ["hinton: stopped c003"]
    assert stopped["node"]["status"] == "stopped"
    assert twice("c003")["node"]["status"] == "running"
    gone = twice("c003", state="absent")
    assert "hinton: removed c003" in gone["changes"]
    assert gone["node"] is None
    assert "NodeName=c003" not in conf_of_all(lab)
    assert act("node", name="c010", state="stopped")["node"]["status"] == "stopped"


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"role": "plain"}, "role is slurm, not plain"),
        ({"sharing": "exclusive"}, "sharing is shared, not exclusive"),
        ({"addr": "10.0.3.77"}, "address is 10.0.3.4, not 10.0.3.77"),
        ({"gpus": "2"}, "the node holds 1 GPU"),
    ],
)
def test_a_node_that_differs_is_never_replaced(lab: Typing, given: dict[str, Any], why: str) -> None:
    before = nodes(lab)
    with pytest.raises(UsageError, match="the node c002 exists, but differs from the request") as refused:
        act("node", name="c002", **given)
    assert why in refused.value.evidence
    assert nodes(lab) == before
    assert not act("node", name="c002", gpus="1", role="slurm", sharing="shared", addr="10.0.3.4")["changed"]


def test_what_cannot_be_compared_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(module_stage, "warn", told.append)
    assert not act("node", name="c002", privileged=True)["changed"]
    assert not act("node", name="c002", mounts=["/data:/data"])["changed"]
    assert told == ["c002 is on hinton: its mounts and privileges are not compared with the request"] * 2


@pytest.mark.parametrize("state", ["stopped", "absent"])
def test_a_node_with_a_job_is_kept_without_force(lab: Typing, state: str) -> None:
    world(lab, "hoff").slurm.queue.append(FakeJob(id="17", nodes="c003"))
    with pytest.raises(UsageError, match="there are jobs on c003"):
        act("node", name="c003", state=state)
    assert world(lab, "hinton").engine.nodes["c003"].status == "running"
    assert act("node", name="c003", state=state, force=True)["changed"]


def test_a_host_that_is_away_fails_what_is_to_be_done_there(lab: Typing) -> None:
    lab.hosts.away = {"hinton"}
    for state in ("present", "stopped", "absent"):
        with pytest.raises(Unreachable, match="hinton is unreachable"):
            act("node", name="c003", state=state)
    assert not act("node", name="c001")["changed"]
    with pytest.raises(PartDone, match="the new node is not recorded on all hosts: hinton"):
        act("node", name="c009")
    assert nodes(lab)["c009"] == "hoff"


def test_a_node_that_its_host_has_lost_is_made_again_there(lab: Typing) -> None:
    del world(lab, "hinton").engine.nodes["c003"]
    with pytest.raises(UsageError, match="hinton has no node c003") as refused:
        act("node", name="c003", state="absent")
    assert refused.value.fix == "gpuprov cluster up"


def test_who_names_an_engine_means_that_of_this_machine(lab: Typing) -> None:
    lab.hosts.controller.engines = world(lab, "hoff").host.engines
    assert act("node", name="c001", engine="lxd")["node"]["host"] == "here"
    assert lab.hosts.asked == []
    assert act("node", name="c001")["node"]["host"] == "hoff"
    assert lab.hosts.asked != []
