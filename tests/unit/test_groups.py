"""Groups of the end-to-end tests that run side by side share nothing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.e2e.groups import (
    ALONE,
    FIRST,
    MODULES_OF_ONE_CLUSTER,
    OF_ONE_CLUSTER,
    SAMPLES,
    group_of,
    is_sampled,
    module_of,
    others_of,
    turn_of,
)
from tests.e2e.places import PLACES

E2E = Path(__file__).parents[1] / "e2e"
MODULES = sorted(path.stem.removeprefix("test_") for path in E2E.glob("test_*.py"))
ENGINES_ARE_STOPPED = re.compile(r"\b(kill_engine|hung_engine|restart_engine)\(")


def text_of(module: str) -> str:
    return (E2E / f"test_{module}.py").read_text()


def test_every_module_that_is_named_exists() -> None:
    named = {*MODULES_OF_ONE_CLUSTER, *ALONE, *(module for module, _ in SAMPLES), *FIRST} - {OF_ONE_CLUSTER}
    assert named <= set(MODULES)


def test_two_groups_have_no_place_in_common() -> None:
    for module in MODULES:
        for other in MODULES:
            if module in PLACES and PLACES.get(other) is PLACES[module]:
                assert group_of(other) == group_of(module)
    assert group_of("anneal") == group_of("grid")


@pytest.mark.parametrize("module", MODULES)
def test_what_needs_the_cluster_of_all_modules_is_in_one_process(module: str) -> None:
    text = text_of(module)
    uses = re.search(r"\bcluster: (Finished|object)\b|usefixtures\(\"cluster\"", text) is not None
    has_its_own = re.search(r"^def cluster\(", text, re.MULTILINE) is not None
    assert (module in MODULES_OF_ONE_CLUSTER) >= (uses and not has_its_own and module not in ALONE)


@pytest.mark.parametrize("module", MODULES)
def test_an_engine_is_stopped_only_where_nobody_else_needs_it(module: str) -> None:
    for part in text_of(module).split("\n\n\n"):
        if module not in ALONE and re.search(r"^def test_", part, re.MULTILINE) and ENGINES_ARE_STOPPED.search(part):
            assert "mark.alone" in part or "mark.long" in part


def test_the_order_and_what_is_whose() -> None:
    assert module_of("tests/e2e/test_work.py::test_it[lxd-slurm]") == "work"
    assert group_of("bundle") == OF_ONE_CLUSTER
    assert sorted(["web", "docker", "work", "races"], key=turn_of) == ["work", "web", "docker", "races"]
    others = others_of(OF_ONE_CLUSTER)
    assert PLACES["work"] in others
    assert PLACES["endings"] not in others
    assert PLACES["privilege"] not in others


def test_a_sample_names_tests_that_exist() -> None:
    for (module, _), names in SAMPLES.items():
        assert set(names) <= set(re.findall(r"^def (test_\w+)", text_of(module), re.MULTILINE))
    assert is_sampled("work", "test_cancel_ends_all_that_a_job_has_started", "docker-worker")
    assert not is_sampled("work", "test_work_without_a_gpu_finds_none", "docker-worker")
    assert is_sampled("work", "test_work_without_a_gpu_finds_none", "lxd-worker")
