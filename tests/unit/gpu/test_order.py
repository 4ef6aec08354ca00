from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.core.errors import UsageError
from gpuprov.core.units import GIB
from gpuprov.gpu.models import MigInstance
from gpuprov.gpu.observe import observe
from gpuprov.gpu.order import GpuDefault, describe_unfit, inner_environment, resolve_order
from gpuprov.shapes.gpu_order import GpuOrder
from gpuprov.spec.gpu_order import CRITERIA, parse_memory
from tests.fakes.orders import nested

if TYPE_CHECKING:
    from pathlib import Path

    from gpuprov.gpu.allocate import LeaseRequest
    from gpuprov.gpu.models import HostGpus

VISIBLE, ENABLED, REQUESTED, REQUEST = (
    "NVIDIA_VISIBLE_DEVICES",
    "HOUDINI_GPU_ENABLED",
    "HOUDINI_GPU_REQUESTED",
    "HOUDINI_GPU_REQUEST",
)


@pytest.fixture
def two(tmp_path: Path) -> HostGpus:
    return observe(root=tmp_path, mode="simulated", simulated_count=2)


def ask(host: HostGpus, default: GpuDefault | None = None, **order: Any) -> LeaseRequest:
    environment = order.pop("environment", {})
    return resolve_order(nested(**order)["gpus"], environment, host, default or GpuDefault(), node="c000")


def labels(host: HostGpus, asked: LeaseRequest) -> list[str]:
    return [unit.label for unit in host.units if unit.uuid in asked.wanted]


@pytest.mark.parametrize(
    ("environment", "count", "named", "sharing"),
    [
        ({}, 1, [], "shared"),
        ({"OTHER": "a=b"}, 1, [], "shared"),
        ({VISIBLE: "all"}, 2, ["0", "1"], "shared"),
        ({VISIBLE: "none"}, 0, [], "shared"),
        ({VISIBLE: "void"}, 0, [], "shared"),
        ({VISIBLE: ""}, 0, [], "shared"),
        ({VISIBLE: "1"}, 1, ["1"], "shared"),
        ({VISIBLE: "GPU-51515151-5151-4151-8151-000000000001,0"}, 2, ["0", "1"], "shared"),
        ({VISIBLE: "1", ENABLED: "true"}, 1, ["1"], "shared"),
        ({VISIBLE: "none", ENABLED: "TRUE"}, 0, [], "shared"),
        ({ENABLED: "false"}, 0, [], "shared"),
        ({REQUESTED: "1"}, 1, [], "exclusive"),
        ({REQUEST: "2"}, 2, [], "exclusive"),
        ({REQUESTED: "2", REQUEST: "2"}, 2, [], "exclusive"),
        ({REQUESTED: "1", VISIBLE: "1"}, 1, ["1"], "exclusive"),
        ({REQUESTED: "1", ENABLED: "true"}, 1, [], "exclusive"),
        ({REQUESTED: "0"}, 0, [], "shared"),
    ],
)
def test_variables_are_names_for_the_same_things(
    two: HostGpus, environment: dict[str, str], count: int, named: list[str], sharing: str
) -> None:
    asked = ask(two, environment=environment)
    assert (asked.count, labels(two, asked), asked.sharing) == (count, named, sharing)


@pytest.mark.parametrize(
    "order",
    [
        {"environment": {VISIBLE: "all"}, "sharing": "exclusive"},
        {"environment": {VISIBLE: "all", REQUESTED: "2"}},
        {"environment": {VISIBLE: "all", REQUEST: "1"}},
        {"environment": {VISIBLE: "none", REQUESTED: "1"}},
        {"environment": {VISIBLE: "0,1", REQUESTED: "1"}},
        {"environment": {REQUESTED: "1", REQUEST: "2"}},
        {"environment": {ENABLED: "false", VISIBLE: "0"}},
        {"environment": {ENABLED: "false", REQUESTED: "1"}},
        {"environment": {REQUESTED: "1"}, "sharing": "shared"},
        {"environment": {VISIBLE: "0"}, "gpus": "gpu1"},
        {"environment": {VISIBLE: "all"}, "gpus": "1"},
        {"environment": {REQUESTED: "1"}, "gpus": "2"},
        {"environment": {VISIBLE: "void"}, "gpus": "1"},
    ],
)
def test_contradictions_are_refused(two: HostGpus, order: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="contradicts") as caught:
        ask(two, **order)
    assert caught.value.evidence.count(" requests ") == 2
    assert caught.value.fix


@pytest.mark.parametrize(
    "order",
    [
        *({"environment": {name: text}} for name in (REQUESTED, REQUEST) for text in ("-1", "x", "", "0x", "3", "1.5")),
        *({"environment": {VISIBLE: text}} for text in ("-1", "0x", "0,0", "7", "all,0")),
        *({"environment": {ENABLED: text}} for text in ("true", "maybe", "")),
        *({"gpus": text} for text in ("-1", "0x", "0,0", "7", "")),
        {"memory_gib": 81},
        {"memory_gib": 1, "gpus": "3"},
        {"model": "A100"},
        {"model": "A100", "gpus": "gpu0"},
        {"model": "A100", "gpus": "all"},
    ],
)
def test_nonsense_is_refused_in_three_parts(two: HostGpus, order: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as caught:
        ask(two, **order)
    assert caught.value.what
    assert caught.value.evidence
    assert caught.value.fix


def test_memory_and_model_choose_among_the_gpus(two: HostGpus) -> None:
    small = replace(two.gpus[0], memory_bytes=16 * GIB, model="NVIDIA L4")
    host = replace(two, gpus=(small, two.gpus[1]))
    big = two.gpus[1].uuid
    assert ask(host, memory_gib=20).among == (big,)
    assert ask(host, model="h100").among == (big,)
    assert ask(host, model="l4", gpus="all").wanted == (small.uuid,)
    assert ask(host, memory_gib=10, gpus="2").among == (small.uuid, big)
    with pytest.raises(UsageError, match="GPU 0 does not have at least 20 GiB of memory"):
        ask(host, memory_gib=20, gpus="0,1")
    unknown = replace(host, gpus=(replace(small, memory_bytes=None),))
    with pytest.raises(UsageError, match="no GPU with at least 1 GiB of memory") as caught:
        ask(unknown, memory_gib=1)
    assert "memory unknown" in caught.value.evidence


def test_every_criterion_means_something_to_gpus(two: HostGpus) -> None:
    values: dict[str, Any] = {"memory_gib": 10_000, "model": "none"}
    assert values.keys() == CRITERIA.keys()
    for name, value in values.items():
        with pytest.raises(UsageError, match="there is no GPU with"):
            ask(two, **{name: value})
        assert describe_unfit(GpuOrder(**{name: value}), two.gpus)[0].startswith("GPU 0 does not have ")


def test_what_a_spec_says_on_purpose_is_not_contradicted(two: HostGpus) -> None:
    deliberate = GpuDefault(count=2, sharing="exclusive", said="gpus: {per_node: 2}")
    assert ask(two, deliberate, environment={REQUESTED: "2"}).count == 2
    with pytest.raises(UsageError, match="per_node: 2"):
        ask(two, deliberate, environment={REQUESTED: "1"})
    assert ask(two, GpuDefault(count=2), environment={REQUESTED: "1"}).count == 1


def test_mig_instances_by_variable(two: HostGpus) -> None:
    parts = tuple(MigInstance(index=n, uuid=f"MIG-{n}", gpu_instance=n, compute_instance=0) for n in range(2))
    host = replace(two, gpus=(replace(two.gpus[0], mig_enabled=True, mig=parts), two.gpus[1]))
    assert labels(host, ask(host, environment={VISIBLE: "MIG-1,1"})) == ["0:1", "1"]
    assert labels(host, ask(host, gpus="0:0")) == ["0:0"]


@pytest.mark.parametrize(
    ("text", "size"),
    [("20GiB", 20 * GIB), ("20 gib", 20 * GIB), ("1.5GiB", 3 * GIB // 2), ("20GB", 20 * 10**9), ("512MiB", GIB // 2)],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_memory(text, "--gpu-memory") == size


@pytest.mark.parametrize("text", ["", "20", "GiB", "-1GiB", "0GiB", "1e3GiB", "20 GiB extra", "٣GiB"])
def test_no_sizes(text: str) -> None:
    with pytest.raises(UsageError):
        parse_memory(text, "--gpu-memory")


def test_the_container_sees_every_variable_but_the_one_that_the_runtime_obeys() -> None:
    given = {"A": "b=c", ENABLED: "true", VISIBLE: "0"}
    assert inner_environment(given) == {**given, VISIBLE: "void"}
    assert inner_environment({"A": "b=c"}) == {"A": "b=c"}
