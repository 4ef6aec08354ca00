"""Ansible's modules tell nodes, GPUs and reports as the command line does."""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from tests.schemas import validate

if TYPE_CHECKING:
    from tests.unit.cli.conftest import Typed

MODULES = "ansible_collections.gpuprov.cluster.plugins.modules"


@pytest.fixture(autouse=True)
def host(typed: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    """The modules run on the fake engine's host."""
    monkeypatch.setattr("gpuprov.host.local.LocalHost", lambda: typed.world.host)


def act(module_name: str, **given: Any) -> dict[str, Any]:
    """The results of a module that was given these parameters, its defaults for the others."""
    module = importlib.import_module(f"{MODULES}.{module_name}")
    defaults = {key: about.get("default") for key, about in module.ARGUMENTS.items()}
    stand_in = SimpleNamespace(params={**defaults, **given}, check_mode=False, _diff=False, warn=lambda _text: None)
    results: dict[str, Any] = module.act(stand_in)
    return results


def as_list(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Rows as `gpuprov list` would print them."""
    return {"version": 1, "schema": "gpuprov.nodes/v1", "host": "here", "nodes": rows}


def test_nodes_are_those_of_list(typed: Typed) -> None:
    typed.world.up(2)
    assert validate(as_list(act("cluster", gpu_mode="simulated")["nodes"])) == "gpuprov.nodes/v1"
    node = act("node", name="c000")["node"]
    assert validate(as_list([node])) == "gpuprov.nodes/v1"
    assert (node["name"], node["host"]) == ("c000", "here")


def test_a_report_is_that_of_verify(typed: Typed) -> None:
    typed.world.up(1)
    assert validate(act("verify")["report"]) == "gpuprov.verify/v1"


@pytest.mark.usefixtures("typed")
def test_a_gpu_has_the_keys_of_every_gpu_and_who_holds_it() -> None:
    from gpuprov.gpu.document import gpu_document

    results = act("gpus")
    assert results["host"] == "here"
    assert len(results["gpus"]) == 4
    for gpu in results["gpus"]:
        assert set(gpu) == {*gpu_document("", None), "nodes", "exclusive"}
        assert gpu["model"].startswith("SIMULATED")
