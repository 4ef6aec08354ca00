"""`cluster up` and `cluster plan` without a file: hosts say what they have, and then what they offer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuprov.core.errors import HostNotReady
from tests.unit.cli.test_nodes_there import lab, verbs, world
from tests.unit.cli.test_spanning import AWAY

if TYPE_CHECKING:
    from gpuprov.gpu.models import HostGpus
    from gpuprov.shapes.choices import GpuMode
    from tests.unit.cli.test_spanning import Typing

pytestmark = pytest.mark.slow

__all__ = ["lab"]
UP = ("cluster", "up", "--no-verify")


def rounds_of(lab: Typing, *typed: str, expect: int = 0) -> list[str]:
    """What hoff is asked."""
    lab.hosts.asked.clear()
    lab.type(*typed, expect=expect)
    return [verb for host, verb in lab.hosts.asked if host == "hoff"]


def homes(lab: Typing) -> dict[str, str]:
    return {node["name"]: node["host"] for node in lab.json("cluster", "status")["nodes"]}


def test_hosts_are_asked_what_they_have_and_then_what_they_offer(lab: Typing) -> None:
    assert rounds_of(lab, *UP) == ["part", "part", "plan"]
    assert rounds_of(lab, *UP, "-n", "6") == ["part", "part", "plan", "up", "ready"]
    assert sorted(homes(lab).values()) == ["hinton"] * 3 + ["hoff"] * 3
    assert rounds_of(lab, "cluster", "plan", "-n", "2") == ["part", "part", "plan", "plan"]
    assert rounds_of(lab, *UP, "-n", "4") == ["part", "part", "plan", "out-of-service", "up", "ready"]
    assert rounds_of(lab, *UP) == ["part", "part", "plan"]
    assert rounds_of(lab, *UP, "-f", lab.file) == ["part", "plan"], "a file says what the cluster is to be"


def test_what_is_offered_is_for_the_nodes_that_are_asked_for(lab: Typing) -> None:
    lab.type("cluster", "plan", "-n", "5", "--gpus-per-node", "9", expect=2)
    assert "it has 4 GPUs, 9 are requested for each node" in lab.errors


def test_a_host_that_cannot_offer_anything_says_why(lab: Typing) -> None:
    def fail(_mode: GpuMode) -> HostGpus:
        raise HostNotReady("the GPUs cannot be listed", evidence="NVML: unknown error", fix="nvidia-smi")

    world(lab, "hinton").host.observe = fail
    lab.hosts.asked.clear()
    lab.type(*UP, "-n", "6", expect=AWAY)
    assert "the GPUs cannot be listed" in lab.errors
    assert verbs(lab)[:2] == ["part", "plan"]
    assert lab.json("cluster", "status")["nodes"], "it still says what it has"
