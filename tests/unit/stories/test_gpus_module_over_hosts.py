"""Ansible's module `gpus` where hosts were added: the GPUs of all of them, as `gpuprov gpus` shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuprov.core.errors import Unreachable
from tests.unit.cli import module_stage
from tests.unit.cli.module_stage import act
from tests.unit.cli.test_nodes_there import lab, world
from tests.unit.stories.test_ensure_node_over_hosts import controller

if TYPE_CHECKING:
    from typing import Any

    from tests.unit.cli.test_spanning import Typing

__all__ = ["controller", "lab"]


def by_host(found: dict[str, Any]) -> dict[str, list[list[str]]]:
    return {
        host: [gpu["nodes"] for gpu in found["gpus"] if gpu["host"] == host]
        for host in dict.fromkeys(gpu["host"] for gpu in found["gpus"])
    }


@pytest.mark.usefixtures("lab")
def test_each_gpu_has_its_host_and_the_nodes_there() -> None:
    found = act("gpus")
    assert by_host(found) == {"hoff": [["c000"], ["c001"], [], []], "hinton": [["c002"], ["c003"], [], []]}
    assert (found["host"], found["simulated"], found["silent"]) == ("here", True, [])
    assert "hinton: " in found["reason"]


def test_a_host_that_is_away_is_silent_and_told(lab: Typing, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(module_stage, "warn", told.append)
    lab.hosts.away = {"hinton"}
    found = act("gpus")
    assert (list(by_host(found)), found["silent"]) == (["hoff"], ["hinton"])
    assert any(text.startswith("the GPUs of hinton are left out: hinton is unreachable since") for text in told)
    lab.hosts.away = {"hoff", "hinton"}
    with pytest.raises(Unreachable):
        act("gpus")


def test_the_own_gpus_are_among_them_where_there_is_an_engine(lab: Typing) -> None:
    here = lab.hosts.controller
    here.engines, here.observe = world(lab, "hoff").host.engines, world(lab, "hoff").host.observe
    assert list(by_host(act("gpus"))) == ["here", "hoff", "hinton"]
    assert list(by_host(act("gpus", engine="lxd"))) == ["here"]
    assert list(by_host(act("gpus", gpu_mode="simulated"))) == ["here"]
