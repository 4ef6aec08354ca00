from __future__ import annotations

import json

import pytest

from gpuprov.shapes.cluster_spec import ClusterSpec, GpuSpec, ImageSpec, JobsSpec, MountSpec, NodesSpec
from gpuprov.spec.serialize import dump_spec, load_spec_json
from gpuprov.spec.spec_error import SpecError

FULL = ClusterSpec(
    name="mine",
    nodes=NodesSpec(count=6, mounts=(MountSpec(source="/gone", target="/data \u00e9\n", read_only=True),), cpus=2),
    gpus=GpuSpec(per_node=0, mode="simulated"),
    image=ImageSpec(packages=("vim",), python=("torch==2.*",), roles=("/srv/motd",)),
)


@pytest.mark.parametrize("spec", [ClusterSpec(), FULL])
def test_what_was_recorded_is_read_back(spec: ClusterSpec) -> None:
    assert load_spec_json(dump_spec(spec), cluster=spec.name) == spec


def test_the_record_is_one_line_with_every_key_and_the_same_each_time() -> None:
    text = dump_spec(FULL)
    assert "\n" not in text
    assert text == dump_spec(load_spec_json(text, cluster="mine"))
    keys = ("version", "name", "engine", "nodes", "gpus", "network", "image", "slurm", "worker", "share")
    assert set(json.loads(text)) == set(keys)


def test_limits_of_jobs_are_recorded_only_where_there_are_any() -> None:
    """Else a cluster of an earlier version would differ from its spec."""
    limited = ClusterSpec(jobs=JobsSpec(time="12h"))
    assert json.loads(dump_spec(limited))["jobs"] == {"time": "12h", "memory": None}
    assert load_spec_json(dump_spec(limited), cluster="lab") == limited
    assert "jobs" not in json.loads(dump_spec(ClusterSpec()))


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", "{}", '{"version":"gpuprov/v2"}', '{"version":"gpuprov/v1","x":1}',
     '{"version":"gpuprov/v1","nodes":{"count":true}}', "[" * 100_000, dump_spec(FULL),
     '{"version":"gpuprov/v1","\\ud800\\u001b[31m":1}', json.dumps({f"key{n}": n for n in range(10_000)}),
     '{"version":"gpuprov/v1","nodes":{"count":' + "9" * 5_000 + "}}"],
)  # fmt: skip
def test_another_text_is_refused_in_a_few_printable_lines(text: str) -> None:
    with pytest.raises(SpecError) as caught:
        load_spec_json(text, cluster="lab")
    assert 1 <= len(caught.value.problems) <= 6
    assert all(line.isascii() and line.isprintable() for line in str(caught.value).splitlines())
    assert len(str(caught.value)) < 3_000


def test_what_may_be_meant_is_told_of_the_first_problems_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of thousands of keys, and of a key without end, it would take seconds."""
    looked_up: list[str] = []

    def look_up(key: str, *_: object, **__: object) -> list[str]:
        looked_up.append(key)
        return ["nodes"]

    monkeypatch.setattr("difflib.get_close_matches", look_up)
    keys = {"x" * 100_000: 1, **{f"node{number}": 1 for number in range(10_000)}}
    with pytest.raises(SpecError, match="did you mean nodes"):
        load_spec_json(json.dumps({"version": "gpuprov/v1", **keys}), cluster="lab")
    assert 5 <= len(looked_up) <= 20
    assert len(max(looked_up, key=len)) < 100
