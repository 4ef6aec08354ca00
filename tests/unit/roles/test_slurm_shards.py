"""Shards of GPUs: what a spec may say, what follows from it, and whether Slurm counts them."""

from __future__ import annotations

import pytest

from gpuprov.cluster.ordered_node import with_order
from gpuprov.roles.registry import check_spec, role_of
from gpuprov.roles.slurm.checks import judge_gres
from gpuprov.roles.slurm.files import Machine, render_slurm
from gpuprov.shapes.cluster_spec import ClusterSpec, ImageSpec, NodesSpec, SlurmSpec
from gpuprov.shapes.node import CharDevice
from gpuprov.shapes.whole import Member
from gpuprov.spec.serialize import dump_spec, load_spec_json
from gpuprov.spec.spec_error import SpecError
from gpuprov.verify.models import Expectation, Observation

FOUR = SlurmSpec(shards_per_gpu=4)
GPUS = tuple(CharDevice(path=f"/dev/nvidia{minor}", major=195, minor=minor) for minor in (0, 1))


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (ClusterSpec(slurm=SlurmSpec(shards_per_gpu=0)), "slurm.shards_per_gpu: is 0"),
        (ClusterSpec(slurm=SlurmSpec(shards_per_gpu=65)), "slurm.shards_per_gpu: is 65"),
        (ClusterSpec(slurm=FOUR, nodes=NodesSpec(role="worker")), "nodes with the role worker have no shards"),
        (ClusterSpec(slurm=FOUR, image=ImageSpec(base="jammy")), "the Slurm of jammy has no shards"),
    ],
    ids=["none", "too many", "workers", "an old Slurm"],
)
def test_shards_that_could_not_be_are_refused(wanted: ClusterSpec, words: str) -> None:
    with pytest.raises(SpecError, match=words):
        check_spec(wanted)


def test_a_spec_without_shards_is_recorded_as_before() -> None:
    assert "shards" not in dump_spec(ClusterSpec())
    assert load_spec_json(dump_spec(ClusterSpec(slurm=FOUR)), cluster="lab") == ClusterSpec(slurm=FOUR)


def test_accounting_records_shards_where_there_are_any() -> None:
    members = [Member(name="c000", address="10.0.3.2", private_address="", role="slurm")]
    machine = Machine(cpus=1, memory_bytes=1 << 30)
    for slurm, tres in ((FOUR, "gres/gpu,gres/shard"), (SlurmSpec(), "gres/gpu")):
        conf = render_slurm(ClusterSpec(slurm=slurm), members, machine, accounting=True)[0].content.decode()
        assert f"AccountingStorageTRES={tres}\n" in conf


def test_a_node_of_another_role_has_none() -> None:
    check_spec(with_order(ClusterSpec(slurm=FOUR), "plain", None))


def test_it_is_said_that_nothing_is_fenced() -> None:
    (line,) = role_of("slurm").notes(ClusterSpec(slurm=FOUR))
    assert "fences nothing" in line
    assert role_of("slurm").notes(ClusterSpec()) == ()


@pytest.mark.parametrize(
    ("gres", "shards", "status", "evidence"),
    [
        ("gpu:2,shard:8", 4, "pass", "gpu:2, shard:8"),
        ("gpu:h100:1(S:0),gpu:t4:1,shard:h100:4(S:0),shard:t4:4", 4, "pass", "gpu:2, shard:8"),
        ("gpu:2", 0, "pass", "gpu:2"),
        ("gpu:2", 4, "fail", "Slurm counts 0 shards, but the node has 8"),
        ("gpu:2,shard:8", 0, "fail", "Slurm counts 8 shards, but the node has 0"),
        ("gpu:1,shard:4", 4, "fail", "Slurm counts 1 GPUs, but the node has 2"),
    ],
)
def test_slurm_counts_the_shards_of_the_spec(gres: str, shards: int, status: str, evidence: str) -> None:
    expected = Expectation(node="c000", status="running", role="slurm", devices=GPUS, shards_per_gpu=shards)
    show = {"stdout": f"NodeName=c000 Gres={gres} State=IDLE", "stderr": "", "exit_code": 0, "timed_out": False}
    found = judge_gres(expected, Observation(facts={"slurm": {"show": show}}))
    assert (found.status, found.evidence) == (status, evidence)
