"""`cluster up` and `cluster plan` without a file: hosts say at once what they have and offer, and are asked once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuprov.cli import spanning
from gpuprov.core.errors import EngineError, HostNotReady, UsageError
from gpuprov.core.reporter import Silent
from gpuprov.serving.member import serve_request
from gpuprov.spanning.parts.desk_there import reach_desk
from gpuprov.spanning.parts.over_hosts import find_spanning
from tests.unit.cli.test_nodes_there import lab, verbs, world
from tests.unit.cli.test_spanning import AWAY

if TYPE_CHECKING:
    from gpuprov.gpu.models import HostGpus
    from gpuprov.spec.models import GpuMode
    from tests.unit.cli.test_spanning import Typing

__all__ = ["lab"]
UP = ("cluster", "up", "--no-verify")


def rounds_of(lab: Typing, *typed: str, expect: int = 0) -> list[str]:
    """What hoff is asked."""
    lab.hosts.asked.clear()
    lab.type(*typed, expect=expect)
    return [verb for host, verb in lab.hosts.asked if host == "hoff"]


def homes(lab: Typing) -> dict[str, str]:
    return {node["name"]: node["host"] for node in lab.json("cluster", "status")["nodes"]}


def test_hosts_are_asked_once_what_they_have_and_offer(lab: Typing) -> None:
    assert rounds_of(lab, *UP) == ["part", "plan"]
    assert rounds_of(lab, *UP, "-n", "6") == ["part", "plan", "up", "ready"]
    assert sorted(homes(lab).values()) == ["hinton"] * 3 + ["hoff"] * 3
    assert rounds_of(lab, "cluster", "plan", "-n", "2") == ["part", "plan", "plan"]
    assert rounds_of(lab, *UP, "-n", "4") == ["part", "plan", "hold", "up", "ready"]
    assert rounds_of(lab, *UP) == ["part", "plan"]


def test_what_is_offered_to_other_nodes_is_asked_for(lab: Typing) -> None:
    assert rounds_of(lab, "cluster", "plan", "-n", "5", "--gpus-per-node", "2")[:3] == ["part", "part", "plan"]
    lab.type("cluster", "plan", "-n", "5", "--gpus-per-node", "9", expect=2)
    assert "it has 4 GPUs, 9 are requested for each node" in lab.errors


def test_a_host_that_has_an_older_spec_is_asked_what_it_offers_now(lab: Typing) -> None:
    lab.hosts.away = {"hinton"}
    lab.type(*UP, "--sharing", "exclusive", "-n", "2", expect=AWAY)
    lab.hosts.away = set()
    lab.hosts.asked.clear()
    lab.type("cluster", "plan", "-n", "5")
    assert [host for host, verb in lab.hosts.asked if verb == "part"] == ["hoff", "hinton", "hinton"]


def test_a_host_that_is_now_reached_another_way_is_asked_that_way(lab: Typing, monkeypatch: pytest.MonkeyPatch) -> None:
    file, machines = Path(lab.file), lab.hosts.machines
    file.write_text(file.read_text().replace("hinton,", f"hinton, address: {machines['hinton'].address},"))
    lab.type(*UP, "-f", lab.file)
    known = {**machines, "hinton": replace(machines["hinton"], port=2222)}
    monkeypatch.setattr(spanning, "remembered_hosts", lambda: known)
    lab.hosts.asked.clear()
    lab.type("cluster", "plan")
    assert [host for host, verb in lab.hosts.asked if verb == "part"] == ["hoff", "hinton", "hinton"]


def test_a_host_that_cannot_offer_anything_says_why(lab: Typing) -> None:
    def fail(_mode: GpuMode) -> HostGpus:
        raise HostNotReady("the GPUs cannot be listed", evidence="NVML: unknown error", fix="nvidia-smi")

    world(lab, "hinton").host.observe = fail
    lab.hosts.asked.clear()
    lab.type(*UP, "-n", "6", expect=AWAY)
    assert "the GPUs cannot be listed" in lab.errors
    assert verbs(lab)[:2] == ["part", "plan"]
    assert lab.json("cluster", "status")["nodes"], "it still says what it has"


def test_a_host_that_cannot_tell_its_nodes_besides_still_tells_its_part(
    lab: Typing, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> dict[str, object]:
        raise EngineError("lxd is busy", evidence="503", fix="try again")

    monkeypatch.setattr("gpuprov.serving.member_clusters.tell_nodes", fail)
    lab.hosts.asked.clear()
    seen = find_spanning("lab", lab.hosts.machines, lab.hosts, "nodes")
    assert seen is not None
    assert (seen.failed, set(seen.parts)) == ({}, {"hoff", "hinton"})
    assert [node.name for node in reach_desk(seen, lab.hosts).list_nodes()] == ["c000", "c001"]
    assert verbs(lab) == ["part", "cluster-nodes"]


def test_a_host_is_asked_nothing_else_that_it_does_not_know(lab: Typing) -> None:
    here = world(lab, "hoff").host
    with pytest.raises(UsageError, match="the request `part` cannot be served") as told:
        serve_request("part", {"cluster": "lab", "also": "all"}, here, reporter=Silent())
    assert told.value.evidence == "also: 'all' (allowed: offer, nodes)"
