"""Partitions of Slurm: what a spec may say, and what follows from it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpuprov.cluster.ordered_node import with_order
from gpuprov.roles.registry import check_spec, load_draft, role_of
from gpuprov.roles.slurm.partitions import describe_partitions, partitions_with
from gpuprov.shapes.base import changed
from gpuprov.shapes.cluster_spec import ClusterSpec, NodesSpec, PartitionSpec, SlurmSpec
from gpuprov.spec.partitions import partitions_of
from gpuprov.spec.serialize import dump_spec, load_spec_json
from gpuprov.spec.spec_error import SpecError, in_spec

SLURM = role_of("slurm")
CASES = json.loads((Path(__file__).parent / "data" / "bad_partitions.json").read_text())


def spec(*partitions: PartitionSpec, **nodes: Any) -> ClusterSpec:
    return ClusterSpec(nodes=NodesSpec(**{"count": 3, **nodes}), slurm=SlurmSpec(partitions=partitions))


SHORT = PartitionSpec(name="short", max_time="61s", nodes=("c000",))
LONG = PartitionSpec(name="long", default=True)
BOTH = spec(SHORT, LONG)


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_what_cannot_be_is_refused_with_its_path_and_line(case: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "lab.yaml"
    path.write_text("version: gpuprov/v1\nnodes: {prefix: c}\n" + case["text"])
    with pytest.raises(SpecError) as caught:
        load_draft(path)
    assert [in_spec(problem) for problem in caught.value.problems] == case["problems"]
    assert caught.value.fix


def test_a_file_may_say_no_and_yes(tmp_path: Path) -> None:
    path = tmp_path / "lab.yaml"
    text = "version: gpuprov/v1\nslurm: {partitions: [{name: short, max_time: 1h, oversubscribe: no, default: yes}]}\n"
    path.write_text(text)
    (found,) = load_draft(path).spec.slurm.partitions
    assert found == PartitionSpec(name="short", max_time="1h", default=True)


def test_other_nodes_have_no_partitions() -> None:
    with pytest.raises(SpecError, match=r"slurm\.partitions: nodes with the role worker have no partitions"):
        check_spec(spec(LONG, role="worker"))


def test_without_partitions_there_is_one_with_all_nodes_and_the_record_is_as_before() -> None:
    plain = ClusterSpec(slurm=SlurmSpec(partition="all"))
    assert partitions_of(plain) == (PartitionSpec(name="all", default=True),)
    assert "partitions" not in dump_spec(plain)
    assert load_spec_json(dump_spec(plain), cluster="lab") == plain
    assert load_spec_json(dump_spec(BOTH), cluster="lab") == BOTH


def test_the_first_is_the_default_unless_another_one_is() -> None:
    assert [one.name for one in partitions_of(BOTH)] == ["long", "short"]
    assert [one.name for one in partitions_of(spec(SHORT, changed(LONG, default=False)))] == ["short", "long"]


def test_slurm_gets_minutes_and_only_nodes_that_are_there() -> None:
    long, short = describe_partitions(BOTH, ["c001", "web"])
    assert (short["nodes"], short["minutes"], short["default"]) == ([], 2, False)
    assert (long["nodes"], long["minutes"], long["default"]) == (["c001", "web"], 0, True)


def test_a_node_that_the_spec_does_not_name_is_in_the_default_one() -> None:
    named = spec(SHORT, changed(LONG, nodes=("c001", "c002")))
    assert partitions_with(named, "web") == ("long",)
    assert partitions_with(named, "c000") == ("short",)
    assert partitions_with(BOTH, "c000") == ("long", "short")


def test_jobs_are_looked_for_where_a_partition_goes() -> None:
    assert SLURM.forgets(BOTH, spec(LONG))
    assert SLURM.forgets(BOTH, spec())
    assert not SLURM.forgets(spec(LONG), BOTH)
    assert not SLURM.forgets(BOTH, spec(changed(SHORT, max_time="9h", nodes=None), LONG))


def test_a_node_of_another_role_has_none() -> None:
    check_spec(with_order(BOTH, "plain", None))
    assert with_order(BOTH, "slurm", None) == BOTH
