"""A host whose answers cannot be read, or are not true, takes nothing from the others."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.cli.test_spanning import AWAY, lab

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.cli.test_spanning import Typing

pytestmark = pytest.mark.slow

__all__ = ["lab"]

BADLY = "hinton gave an unexpected answer"


def nothing(_told: dict[str, Any]) -> dict[str, Any]:
    return {}


def damaged(key: str, value: object) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda told: {**told, key: value}


@pytest.fixture
def up(lab: Typing) -> Typing:
    lab.type("cluster", "up", "-f", lab.file, "--no-verify")
    return lab


def spoil(lab: Typing, *verbs: str, by: Callable[[dict[str, Any]], Any] = nothing) -> None:
    lab.hosts.spoiled = {("hinton", verb): by for verb in verbs}


@pytest.mark.parametrize(
    "by",
    [nothing, damaged("whole", "{"), damaged("spec", "[]"), damaged("nodes", 5), damaged("address", "-h")],
    ids=["nothing", "whole", "spec", "nodes", "address"],
)
def test_status_shows_what_the_others_have(up: Typing, by: Callable[[dict[str, Any]], Any]) -> None:
    spoil(up, "part", by=by)
    told = up.json("cluster", "status", expect=AWAY)
    assert [node["status"] for node in told["nodes"]] == ["running", "running", "unreachable", "unreachable"]
    assert [host["status"] for host in told["hosts"]] == ["ready", "error"]


def test_list_gpus_and_hardware_show_what_the_others_have(up: Typing) -> None:
    spoil(up, "list", "gpus", "hardware")
    assert {node["host"] for node in up.json("list", expect=AWAY)["nodes"]} == {"hoff"}
    told = up.json("gpus", expect=AWAY)
    assert {gpu["host"] for gpu in told["gpus"]} == {"hoff"}
    assert BADLY in told["error"]["evidence"]
    assert [host["hardware"] is None for host in up.json("hardware", expect=AWAY)["hosts"]] == [False, True]


def test_a_node_of_another_host_is_found(up: Typing) -> None:
    spoil(up, "list", "find")
    up.type("exec", "c000", "--", "true", expect=5)
    assert up.hosts.attached[-1][0] == "hoff"
    up.type("exec", "c003", "--", "true", expect=AWAY)
    assert BADLY in up.errors
    up.type("stop", "c001")
    up.type("stop", "c003", expect=AWAY)
    assert BADLY in up.errors


def test_no_host_that_can_be_read_is_none_that_responds(up: Typing) -> None:
    up.hosts.spoiled = {(host, "part"): nothing for host in ("hoff", "hinton")}
    up.type("cluster", "status", expect=3)
    assert "none of 2 hosts responds" in up.errors


def test_up_goes_on_without_it_and_down_removes_the_others_part(up: Typing) -> None:
    spoil(up, "part")
    told = up.json("cluster", "up", "-n", "5", "--no-verify", expect=AWAY)
    assert {node["name"]: node["host"] for node in told["nodes"]}["c004"] == "hoff"
    spoil(up, "down")
    told = up.json("cluster", "down", "--yes", expect=AWAY)
    assert BADLY in told["error"]["evidence"]
    assert not up.hosts.worlds["hoff"].engine.nodes


def test_of_a_host_that_does_not_say_what_goes_down_names_the_nodes(up: Typing) -> None:
    for node in ("c001", "c003"):
        up.type("snapshot", node, "good")
    spoil(up, "losses")
    up.type("cluster", "down", expect=2)
    assert "hoff: 1 snapshot: good of c001\n" in up.errors
    assert "hinton: 2 nodes with all data on their disks: c[002-003]\n" in up.errors
    assert "good of c003" not in up.errors
    assert up.errors.count("the GPU hours of jobs of srun and sbatch") == 1


def test_a_new_node_is_made_although_the_other_host_cannot_be_told(up: Typing) -> None:
    spoil(up, "tell")
    told = up.json("create-node", "c009", "--host", "hoff", expect=AWAY)
    assert any("created node c009" in line for line in told["changed"])
    assert BADLY in told["error"]["evidence"]
    spoil(up, "seek")
    up.type("create-node", "c010", "--host", "hoff", expect=AWAY)
    assert "c010" in up.hosts.worlds["hoff"].engine.nodes


def test_what_was_done_is_told_although_nobody_says_whether_nodes_are_ready(lab: Typing) -> None:
    lab.hosts.spoiled = {("hoff", "ready"): nothing}
    told = lab.json("cluster", "up", "-f", lab.file, "--no-verify", expect=AWAY)
    assert len(told["nodes"]) == 4
    assert "hoff gave an unexpected answer" in told["error"]["evidence"]


def test_a_host_that_plans_nodes_of_another_one_is_refused(up: Typing) -> None:
    plans: list[dict[str, Any]] = []

    def keep(told: dict[str, Any]) -> dict[str, Any]:
        plans.append(told)
        return told

    up.hosts.spoiled = {("hoff", "plan"): keep}
    up.type("cluster", "plan", "-f", up.file, "-n", "5")
    spoil(up, "plan", by=damaged("whole", json.loads(json.dumps(plans[0]["whole"]).replace('"hoff"', '"hinton"'))))
    before = {name: set(world.engine.nodes) for name, world in up.hosts.worlds.items()}
    up.type("cluster", "up", "-f", up.file, "-n", "5", "--no-verify", expect=3)
    assert "which is on hoff" in up.errors
    assert {name: set(world.engine.nodes) for name, world in up.hosts.worlds.items()} == before
