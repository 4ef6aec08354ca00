"""Orders and specs as gpuprov recorded them before what is asked of GPUs was one value, on clusters of each engine."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.cluster.leases import read_leases
from gpuprov.cluster.nodes import renew_orders
from gpuprov.cluster.order_label import (
    ReadLabel,
    read_label,
    read_order_text,
    renew_text,
    write_order,
)
from gpuprov.cluster.ordered_node import made_by, refuse_taken_name
from gpuprov.cluster.placement import Place
from gpuprov.cluster.plan import Plan, plan_cluster
from gpuprov.cluster.state import ClusterState, with_current_gpus
from gpuprov.core.errors import UsageError
from gpuprov.drivers.base import LABEL_CLUSTER, LABEL_ORDER, LABEL_SPEC, NodeState
from gpuprov.drivers.docker.blueprint import describe_settings, plan_blueprint
from gpuprov.drivers.docker.driver import DockerDriver
from gpuprov.drivers.lxd.driver import LxdDriver
from gpuprov.drivers.lxd.family import KIN
from gpuprov.drivers.lxd.settings import request_settings
from gpuprov.drivers.networks import NetworkState
from gpuprov.gpu.allocate import Claims
from gpuprov.gpu.observe import observe
from gpuprov.shapes.base import changed
from gpuprov.shapes.cluster_spec import MountSpec
from gpuprov.shapes.node import CharDevice, Mount, Setting
from gpuprov.spec.serialize import dump_spec, load_spec_json
from tests.fakes.orders import node_order
from tests.fakes.places import NOWHERE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.drivers.base import NodeRequest
    from gpuprov.drivers.capabilities import Capability
    from gpuprov.drivers.networks import NetworkRequest
    from gpuprov.shapes.node import Settings

RECORDED = json.loads((Path(__file__).parent / "data" / "labels_before_nested_gpus.json").read_text())
ENGINES = sorted(RECORDED)
GPUS = observe(root=NOWHERE, mode="simulated", simulated_count=4)
WORK = MountSpec(source="/srv/data", target="/work")
ALL = {"gpus": "1", "memory_gib": 20, "model": "H100", "sharing": "shared", "environment": ("A=B",), "mounts": (WORK,)}
# By the last letter of the node's name, what `create-node` was typed with.
TYPED: dict[str, dict[str, Any]] = {
    "a": {},
    "b": ALL,
    "c": {"gpus": "0,1", "environment": ("NVIDIA_VISIBLE_DEVICES=0,1",), "network": "nat"},
    "d": {"gpus": "none", "privileged": True, "network": "private", "role": "plain"},
    "f": {"memory_gib": 20, "model": "h100"},
}


@dataclass(frozen=True)
class Engine:
    """What the real drivers say of a request, without their daemons."""

    name: str

    @property
    def capabilities(self) -> frozenset[Capability]:
        return DockerDriver.capabilities if self.name == "docker" else LxdDriver.capabilities

    def settings(self, request: NodeRequest) -> Settings:
        if self.name == "docker":
            return describe_settings(plan_blueprint(request, uid=""))
        return request_settings(request, KIN[self.name])

    def network_settings(self, _request: NetworkRequest) -> Settings:
        return {}


def recorded(engine: str) -> ClusterState:
    networks = tuple(NetworkState(**network) for network in RECORDED[engine]["networks"])
    spec = next(network.labels for network in networks if LABEL_SPEC in network.labels)
    name = spec[LABEL_CLUSTER]
    nodes = tuple(map(node_state, RECORDED[engine]["nodes"]))
    there = load_spec_json(spec[LABEL_SPEC], cluster=name)
    return with_current_gpus(
        ClusterState(name=name, recorded=there, settled=there, nodes=nodes, others=(), networks=networks), GPUS
    )


def node_state(plain: Mapping[str, Any]) -> NodeState:
    parts = {
        "devices": tuple(CharDevice(**device) for device in plain["devices"]),
        "mounts": tuple(Mount(**mount) for mount in plain["mounts"]),
        "settings": {key: Setting(**setting) for key, setting in plain["settings"].items()},
    }
    return NodeState(**{**plain, **parts})


def with_text(state: ClusterState, name: str, text: str) -> ClusterState:
    nodes = (
        changed(node, labels={**node.labels, LABEL_ORDER: text}) if node.name == name else node for node in state.nodes
    )
    return replace(state, nodes=tuple(nodes))


def planned(engine: str, state: ClusterState, *, gives_up: bool = False) -> Plan:
    assert state.spec
    leases = read_leases(state.nodes, engine=engine)
    place = Place(host="here", gpus=GPUS, leases=leases, claims=Claims(engine=engine))
    return plan_cluster(state.spec, state, place, version="1", expect=Engine(engine), gives_up=gives_up)


class Labels:
    """A driver that keeps what labels are set."""

    def __init__(self) -> None:
        self.told: dict[str, str] = {}

    def set_labels(self, name: str, labels: Mapping[str, str]) -> None:
        assert list(labels) == [LABEL_ORDER]
        self.told[name] = labels[LABEL_ORDER]


@pytest.mark.parametrize("engine", ENGINES)
def test_what_was_typed_is_read_and_written_again(engine: str) -> None:
    state = recorded(engine)
    seen = set()
    for node in state.nodes:
        letter = node.name[-1]
        if letter in TYPED:
            mounts = tuple(changed(WORK, read_only=engine == "lxd") for _ in TYPED[letter].get("mounts", ()))
            order = node_order(node.name, cluster=state.name, **{**TYPED[letter], "mounts": mounts})
            assert read_label(node) == ReadLabel(order=order)
            assert renew_text(node.labels[LABEL_ORDER]) == write_order(order) != node.labels[LABEL_ORDER]
            assert made_by(order, state) == node, "the same command knows its own work"
            seen.add(letter)
    assert seen == TYPED.keys() - ({"d"} if engine == "docker" else set())


@pytest.mark.parametrize("engine", ENGINES)
def test_nothing_is_done_for_the_form_of_a_label_and_the_next_change_writes_it(engine: str) -> None:
    state, labels = recorded(engine), Labels()
    ordered = [node.name for node in state.nodes if LABEL_ORDER in node.labels]
    plan = planned(engine, state)
    assert (plan.lines(), plan.restart, list(plan.beside)) == ((), (), ordered)
    renew_orders(labels, state.nodes)  # type: ignore[arg-type]
    assert list(labels.told) == ordered
    for name, text in labels.told.items():
        state = with_text(state, name, text)
    plan = planned(engine, state)
    assert (plan.lines(), plan.restart, list(plan.beside)) == ((), (), ordered)
    labels = Labels()
    renew_orders(labels, state.nodes)  # type: ignore[arg-type]
    assert labels.told == {}


@pytest.mark.parametrize("engine", ENGINES)
def test_what_was_recorded_of_the_cluster_is_written_as_it_was(engine: str) -> None:
    state = recorded(engine)
    texts = [
        text for network in state.networks for key, text in network.labels.items() if key.endswith(("spec", "begun"))
    ]
    assert len(texts) == 3
    for text in texts:
        assert dump_spec(load_spec_json(text, cluster=state.name)) == text


UNKNOWN = {
    "a key": ('"name"', '"racks":2,"name"', "racks"),
    "a key of GPUs": ('"gpus":{', '"gpus":{"min_links":4,', "gpus.min_links"),
    "a key of a mount": ('"target"', '"shift":true,"target"', "mounts[0].shift"),
    "a value": ('"sharing":"shared"', '"sharing":"sliced"', "gpus.sharing"),
    "another form": ('"version":2', '"version":3', "version"),
    "a variable": ('"A=B"', '"A B"', "environment"),
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("what", UNKNOWN)
def test_what_a_later_version_wrote_is_refused_in_words_and_a_file_frees(engine: str, what: str) -> None:
    state = recorded(engine)
    node = next(node for node in state.nodes if node.name.endswith("b"))
    known, later, path = UNKNOWN[what]
    mine = renew_text(node.labels[LABEL_ORDER])
    assert known in mine
    state = with_text(state, node.name, mine.replace(known, later))
    with pytest.raises(UsageError) as caught:
        planned(engine, state)
    assert caught.value.what == f"the options with which {node.name} was created cannot be read"
    assert caught.value.evidence == f"label gpuprov.order of {node.name}: unknown options ({path}); this is gpuprov 1"
    upgrade, instead = caught.value.fix.split("; ")
    assert upgrade == "upgrade gpuprov, for a later version wrote them"
    assert instead == f"to do without them: gpuprov cluster up --name {state.name} -f FILE"
    plan = planned(engine, state, gives_up=True)
    words = f"repair node {node.name}: gives up unknown options ({path})"
    assert [line for line in plan.lines() if line.startswith(words)] == [*plan.lines()][:1]
    renewed = read_order_text(renew_text(mine.replace(known, later)))
    assert renewed.unknown == ()
    if what.startswith(("a key", "another")):
        assert renewed == read_order_text(mine), "what is understood of it stays, mounts too"
        assert plan.restart == ()
    with pytest.raises(UsageError, match="is taken"):
        refuse_taken_name(read_order_text(mine).order or node_order(node.name), state, engine=engine)


def test_a_label_that_was_damaged_by_hand_is_none() -> None:
    for text in ("", "{", "[]", "7", "{}", '{"name":"web"}', '{"name":7,"cluster":"lab"}', "[" * 20_000):
        assert read_order_text(text) == ReadLabel()
        assert renew_text(text) == text


def test_a_label_of_before_with_what_is_no_order_is_not_guessed() -> None:
    before = '{"cluster":"lab","gpus":7,"memory_bytes":"x","model":[],"name":"web","sharing":"sliced"}'
    read = read_order_text(before)
    assert read.order == node_order("web", gpus=7)
    assert set(read.unknown) == {"gpus.memory_gib", "gpus.model", "gpus.sharing"}
