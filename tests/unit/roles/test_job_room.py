"""What no node of a cluster has is refused, with the most that one has."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuprov.core.errors import UsageError
from gpuprov.core.units import GIB, MIB
from gpuprov.roles.work.job_room import JobRoom, NodeRoom
from gpuprov.shapes.job_order import JobOrder

ROOM = JobRoom(
    cluster="lab", nodes=(NodeRoom(gpus=1, memory_bytes=30 * GIB + 5), NodeRoom(gpus=2, memory_bytes=8 * GIB))
)
WORKERS = JobRoom(cluster="lab", nodes=(NodeRoom(gpus=1), NodeRoom(gpus=1)), unit="worker", has_memory=False)
NONE = JobRoom(cluster="lab", nodes=(NodeRoom(gpus=0, memory_bytes=972 * MIB),))


PARTS = JobRoom(
    cluster="lab",
    nodes=(NodeRoom(gpus=1, partitions=("short",)), NodeRoom(gpus=4, partitions=("short", "long"))),
    partitions=("long", "short"),
)


def test_a_job_goes_to_the_nodes_of_its_partition() -> None:
    small = replace(PARTS, nodes=PARTS.nodes[:1])
    PARTS.require(JobOrder(command=("true",), gpus=4))
    small.require(JobOrder(command=("true",), partition="short"))
    with pytest.raises(UsageError, match=r"no node of lab has 4 GPUs \(most: 1\)"):
        small.require(JobOrder(command=("true",), gpus=4, partition="short"))
    PARTS.require_side_by_side(4)
    with pytest.raises(UsageError, match=r"most: 4"):
        PARTS.require_side_by_side(5)


def test_shards_of_a_job_are_those_of_one_gpu() -> None:
    room = JobRoom(cluster="lab", nodes=(NodeRoom(gpus=2, shards=4), NodeRoom(gpus=0)))
    room.require(JobOrder(command=("true",), gpus=0, shards=4))
    with pytest.raises(UsageError, match=r"no node of lab has 5 shards of a GPU \(most: 4\)") as refused:
        room.require(JobOrder(command=("true",), gpus=0, shards=5))
    assert refused.value.fix == "ask for less: --shards 4"
    with pytest.raises(UsageError, match=r"no node of lab has 1 shards of a GPU \(most: 0\)"):
        ROOM.require(JobOrder(command=("true",), gpus=0, shards=1))


@pytest.mark.parametrize(
    ("room", "evidence", "fix"),
    [
        (PARTS, "its partitions: long, short", "--partition long, or omit it"),
        (WORKERS, "its jobs run on workers, which have none", "omit --partition"),
    ],
)
def test_a_partition_that_is_not_there_is_refused(room: JobRoom, evidence: str, fix: str) -> None:
    with pytest.raises(UsageError, match="lab has no partition fast; nothing was submitted") as refused:
        room.require(JobOrder(command=("true",), partition="fast"))
    assert (refused.value.evidence, refused.value.fix) == (evidence, fix)


@pytest.mark.parametrize(
    ("room", "gpus", "memory", "words"),
    [
        (ROOM, 3, None, "no node of lab has 3 GPUs (most: 2)"),
        (ROOM, 1, 900 * GIB, "no node of lab has 900 GiB of memory (most: 30 GiB)"),
        (ROOM, 2, 9 * GIB, "no node of lab has 9 GiB of memory and 2 GPUs (most: 8 GiB with 2 GPUs)"),
        (NONE, 1, None, "no node of lab has a GPU (most: 0)"),
        (NONE, 0, GIB, "no node of lab has 1 GiB of memory (most: 972 MiB)"),
        (WORKERS, 2, None, "no worker of lab has 2 GPUs (most: 1)"),
        (WORKERS, 1, GIB, "jobs of lab cannot ask for memory; nothing was submitted"),
    ],
)
def test_what_no_node_has_is_refused(room: JobRoom, gpus: int, memory: int | None, words: str) -> None:
    with pytest.raises(UsageError) as refused:
        room.require(JobOrder(command=("true",), gpus=gpus, memory_bytes=memory))
    assert refused.value.what == words


def test_all_that_no_node_has_is_told_at_once() -> None:
    with pytest.raises(UsageError, match="2 things are wrong with the command; nothing was submitted") as refused:
        WORKERS.require(JobOrder(command=("true",), gpus=3, memory_bytes=GIB))
    assert "jobs of lab cannot ask for memory" in refused.value.evidence
    assert "no worker of lab has 3 GPUs (most: 1)" in refused.value.evidence


@pytest.mark.parametrize(("room", "gpus", "memory"), [(ROOM, 2, 8 * GIB), (ROOM, 0, 30 * GIB), (WORKERS, 1, None)])
def test_what_a_node_has_is_accepted(room: JobRoom, gpus: int, memory: int | None) -> None:
    room.require(JobOrder(command=("true",), gpus=gpus, memory_bytes=memory))


def test_workers_of_a_program_that_would_wait_for_each_other_are_refused() -> None:
    ROOM.require_side_by_side(3)
    with pytest.raises(UsageError, match=r"lab cannot have 4 workers of a program at once \(most: 3\)"):
        ROOM.require_side_by_side(4)


@pytest.mark.parametrize(
    ("room", "evidence"), [(PARTS, "its spec has no slurm.qos"), (WORKERS, "its jobs run on workers")]
)
def test_a_qos_has_to_be_in_the_spec(room: JobRoom, evidence: str) -> None:
    order = JobOrder(command=("true",), qos="long")
    with pytest.raises(UsageError, match="lab has no QOS long; nothing was submitted") as refused:
        room.require(order)
    assert refused.value.evidence.startswith(evidence)
    replace(room, has_qos=True).require(order)


def test_a_partition_with_a_letter_amiss_is_guessed() -> None:
    with pytest.raises(UsageError, match="no partition shrot") as refused:
        PARTS.require(JobOrder(command=("true",), partition="shrot"))
    assert refused.value.evidence == "its partitions: long, short; did you mean short?"
    assert refused.value.fix == "--partition short, or omit it"


TYPES = JobRoom(
    cluster="lab",
    nodes=(
        NodeRoom(gpus=3, types=("h100", "h100", "a100"), memory_bytes=GIB, partitions=("short",)),
        NodeRoom(gpus=2, types=("a100", "a100"), memory_bytes=8 * GIB, partitions=("short", "long")),
    ),
    partitions=("short", "long"),
)


@pytest.mark.parametrize(
    ("more", "what", "evidence", "fix"),
    [
        (
            {"gpu_type": "H200", "gpus": 2},
            "lab has no GPUs of type H200; nothing was submitted",
            "its types: h100, a100",
            "--gpus h100:2, or any: --gpus 2",
        ),
        (
            {"gpu_type": "h100", "gpus": 3},
            "no node of lab has 3 GPUs of type h100 (most: 2)",
            "all 2 nodes were looked at; nothing was submitted",
            "ask for less: --gpus h100:2; or give the nodes more: gpuprov cluster up --gpus-per-node 3",
        ),
        (
            {"gpu_type": "h100", "partition": "long"},
            "no node of lab has a GPU of type h100 (most: 0)",
            "all 2 nodes were looked at; nothing was submitted",
            "--partition short, or GPUs of any type: --gpus 1",
        ),
        (
            {"gpu_type": "h100", "memory_bytes": 2 * GIB},
            "no node of lab has 2 GiB of memory and 1 GPU (most: 1 GiB with 1 GPU)",
            "all 2 nodes were looked at; nothing was submitted",
            "ask for less, with --memory or --gpus",
        ),
    ],
)
def test_gpus_of_a_type_are_those_of_one_node(more: dict[str, object], what: str, evidence: str, fix: str) -> None:
    TYPES.require(JobOrder(command=("true",), gpus=2, gpu_type="h100"))
    TYPES.require(JobOrder(command=("true",), gpus=2, gpu_type="a100", partition="long"))
    with pytest.raises(UsageError) as refused:
        TYPES.require(JobOrder(command=("true",), **more))  # type: ignore[arg-type]
    assert (refused.value.what, refused.value.evidence) == (what, evidence)
    assert refused.value.fix.startswith(fix)


@pytest.mark.parametrize(
    ("room", "evidence"),
    [(WORKERS, "its jobs run on workers, which have no types"), (ROOM, "the types of its GPUs are unknown")],
)
def test_a_type_where_there_are_none_is_refused_in_words(room: JobRoom, evidence: str) -> None:
    with pytest.raises(UsageError, match="lab has no GPUs of type h100; nothing was submitted") as refused:
        room.require(JobOrder(command=("true",), gpu_type="h100"))
    assert (refused.value.evidence, refused.value.fix) == (evidence, "--gpus 1")
