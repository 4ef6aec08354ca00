from __future__ import annotations

import json

import pytest

from gpuprov.core.errors import SpecError
from gpuprov.spec.models import ClusterSpec, GpuSpec, ImageSpec, MountSpec, NodesSpec
from gpuprov.spec.serialize import dump_spec, load_spec_json

FULL = ClusterSpec(
    name="mine",
    nodes=NodesSpec(count=6, mounts=(MountSpec(source="/gone", target="/data \u00e9\n", read_only=True),), cpus=2),
    gpus=GpuSpec(per_node=0, mode="simulated"),
    image=ImageSpec(packages=("vim",)),
)


@pytest.mark.parametrize("spec", [ClusterSpec(), FULL])
def test_what_was_recorded_is_read_back(spec: ClusterSpec) -> None:
    assert load_spec_json(dump_spec(spec)) == spec


def test_the_record_is_one_line_with_every_key_and_the_same_each_time() -> None:
    text = dump_spec(FULL)
    assert "\n" not in text
    assert text == dump_spec(load_spec_json(text))
    assert set(json.loads(text)) == {"version", "name", "engine", "nodes", "gpus", "network", "image", "slurm"}


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", "{}", '{"version":"gpuprov/v2"}', '{"version":"gpuprov/v1","x":1}',
     '{"version":"gpuprov/v1","nodes":{"count":true}}', "[" * 100_000],
)  # fmt: skip
def test_another_text_is_refused(text: str) -> None:
    with pytest.raises(SpecError) as caught:
        load_spec_json(text)
    assert caught.value.problems
