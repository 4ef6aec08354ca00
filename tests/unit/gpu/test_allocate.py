from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuprov.core.errors import HostNotReady, NotAllowed, UsageError
from gpuprov.gpu.allocate import Claims, GpusTaken, Lease, LeaseRequest, allocate, count_supply
from gpuprov.gpu.models import MigInstance
from gpuprov.gpu.observe import observe
from gpuprov.shapes.nodes import describe_shared

if TYPE_CHECKING:
    from gpuprov.gpu.models import HostGpus


@pytest.fixture
def two(tmp_path: Path) -> HostGpus:
    return observe(root=tmp_path, mode="simulated", simulated_count=2)


def chosen(host: HostGpus, leases: list[Lease], requests: list[LeaseRequest]) -> dict[str, list[int]]:
    return {
        node: [gpu.index for gpu in gpus] for node, gpus in allocate(host, leases, requests, claims=Claims()).items()
    }


def lease(host: HostGpus, node: str, index: int, sharing: str = "shared") -> Lease:
    return Lease(
        node=node,
        gpus=(host.units[index].uuid,),
        sharing="exclusive" if sharing == "exclusive" else "shared",
        engine="lxd",
        status="running",
    )


def shared(node: str, count: int = 1) -> LeaseRequest:
    return LeaseRequest(node=node, sharing="shared", count=count)


def exclusive(node: str, count: int = 1) -> LeaseRequest:
    return LeaseRequest(node=node, sharing="exclusive", count=count)


def test_shared_spreads_over_the_least_loaded_then_the_lowest_index(two: HostGpus) -> None:
    assert chosen(two, [], [shared(f"c00{n}") for n in range(5)]) == {
        "c000": [0], "c001": [1], "c002": [0], "c003": [1], "c004": [0]
    }  # fmt: skip
    assert chosen(two, [lease(two, "old", 0)], [shared("c000")]) == {"c000": [1]}


def test_shared_leaves_alone_what_another_holds_exclusively(two: HostGpus) -> None:
    leases = [lease(two, "greedy", 0, "exclusive"), lease(two, "a", 1), lease(two, "b", 1)]
    assert chosen(two, leases, [shared("c000")]) == {"c000": [1]}


def test_exclusive_takes_only_what_nobody_holds(two: HostGpus) -> None:
    assert chosen(two, [lease(two, "a", 0)], [exclusive("c000")]) == {"c000": [1]}
    with pytest.raises(UsageError) as caught:
        allocate(two, [lease(two, "a", 0)], [exclusive("c000"), exclusive("c001")], claims=Claims())
    assert "not enough GPUs for c001: 1 GPU requested (exclusive), 0 available" in caught.value.what
    assert "a (shared, lxd)" in caught.value.evidence
    assert "c000 (exclusive)" in caught.value.evidence
    assert "gpuprov show a --engine lxd" in caught.value.fix


def test_what_cannot_be_for_one_is_given_to_none(two: HostGpus) -> None:
    with pytest.raises(UsageError, match="3 GPUs"):
        allocate(two, [], [shared("c000"), shared("c001", 3)], claims=Claims())


def test_an_exclusive_request_is_served_before_a_shared_one_takes_the_last_free_gpu(two: HostGpus) -> None:
    leases = [lease(two, "a", 1)]
    assert chosen(two, leases, [shared("c000"), exclusive("c001")]) == {"c000": [1], "c001": [0]}


def test_a_node_keeps_what_it_holds(two: HostGpus) -> None:
    leases = [lease(two, "c000", 1), lease(two, "c001", 1)]
    assert chosen(two, leases, [shared("c000"), shared("c001"), shared("c002")]) == {
        "c000": [1], "c001": [1], "c002": [0]
    }  # fmt: skip


def test_a_node_that_asks_for_more_keeps_its_own_among_them() -> None:
    four = observe(root=Path("/nonexistent"), mode="simulated", simulated_count=4)
    assert chosen(four, [lease(four, "c000", 2)], [shared("c000", 2)]) == {"c000": [0, 2]}


def test_nodes_that_turn_exclusive_together_do_not_block_each_other(two: HostGpus) -> None:
    leases = [lease(two, "c000", 0), lease(two, "c001", 0)]
    assert chosen(two, leases, [exclusive("c000"), exclusive("c001")]) == {"c000": [0], "c001": [1]}


def test_a_named_gpu_is_the_one_that_is_given(two: HostGpus) -> None:
    request = LeaseRequest(node="c000", sharing="shared", wanted=(two.units[1].uuid,))
    assert chosen(two, [lease(two, "c000", 0)], [request]) == {"c000": [1]}
    with pytest.raises(UsageError, match=r"not enough GPUs for c000: GPU .*000001"):
        allocate(two, [lease(two, "other", 1, "exclusive")], [request], claims=Claims())


def test_no_gpu_asked_is_none_given(two: HostGpus) -> None:
    assert chosen(two, [], [shared("c000", 0)]) == {"c000": []}


def test_a_lease_on_a_gpu_that_is_gone_is_an_error(two: HostGpus) -> None:
    one = replace(two, gpus=two.gpus[:1])
    with pytest.raises(HostNotReady) as caught:
        allocate(one, [lease(two, "c000", 1)], [shared("c000")], claims=Claims())
    assert two.units[1].uuid in caught.value.evidence
    assert allocate(one, [lease(two, "c000", 1)], [shared("c001")], claims=Claims())["c001"] == one.units


def test_the_same_node_twice_is_an_error(two: HostGpus) -> None:
    with pytest.raises(UsageError, match="twice"):
        allocate(two, [], [shared("c000"), shared("c000")], claims=Claims())


def test_mig_instances_are_leased_one_by_one(two: HostGpus) -> None:
    parts = tuple(
        MigInstance(index=n, uuid=f"MIG-{n}", gpu_instance=n + 1, compute_instance=0, memory_bytes=5) for n in range(2)
    )
    host = replace(two, gpus=(replace(two.gpus[0], mig_enabled=True, mig=parts), two.gpus[1]))
    assert [unit.label for unit in host.units] == ["0:0", "0:1", "1"]
    given = allocate(host, [], [exclusive(f"c00{n}") for n in range(3)], claims=Claims())
    assert [[unit.uuid for unit in units] for units in given.values()] == [["MIG-0"], ["MIG-1"], [two.gpus[1].uuid]]


def waiting(*requests: LeaseRequest) -> Claims:
    return Claims(waiting=requests)


def given(host: HostGpus, leases: list[Lease], request: LeaseRequest, claims: Claims) -> list[int]:
    return [gpu.index for gpu in allocate(host, leases, [request], claims=claims)[request.node]]


def test_nodes_of_other_engines_hold_their_gpus_whatever_their_name(two: HostGpus) -> None:
    twin = replace(lease(two, "c000", 0, "exclusive"), engine="docker", status="stopped")
    claims = Claims(engine="lxd", leases=(twin,))
    assert given(two, [], exclusive("c000"), claims) == [1]
    with pytest.raises(GpusTaken) as caught:
        allocate(two, [lease(two, "a", 1)], [exclusive("c001")], claims=claims)
    assert "c000 (exclusive, docker, stopped)" in caught.value.evidence
    assert "gpuprov show c000 --engine docker" in caught.value.fix


def test_whoever_waits_comes_first(two: HostGpus) -> None:
    assert given(two, [], exclusive("late"), waiting(exclusive("early"))) == [1]
    with pytest.raises(GpusTaken) as caught:
        given(two, [], exclusive("late"), waiting(exclusive("early"), exclusive("next")))
    assert (
        "GPU 0 GPU-51515151-5151-4151-8151-000000000000: free, reserved for early, which is waiting"
        in caught.value.evidence
    )
    assert "--wait" in caught.value.fix


def test_who_waits_for_more_than_is_free_is_not_starved(two: HostGpus) -> None:
    with pytest.raises(GpusTaken):
        given(two, [lease(two, "a", 0)], exclusive("late"), waiting(exclusive("early", 2)))


def test_who_waits_for_one_gpu_keeps_nobody_from_another(two: HostGpus) -> None:
    early = LeaseRequest(node="early", sharing="exclusive", wanted=(two.units[0].uuid,))
    assert given(two, [lease(two, "a", 0)], exclusive("late"), waiting(early)) == [1]
    among = LeaseRequest(node="early", sharing="exclusive", among=(two.units[0].uuid,))
    assert given(two, [lease(two, "a", 0)], exclusive("late"), waiting(among)) == [1]


def test_no_gpu_is_given_past_an_engine_that_does_not_answer(two: HostGpus) -> None:
    silent = {"docker": HostNotReady("docker is down", evidence="no socket", fix="start it")}
    claims = Claims(silent=silent)
    for request in (exclusive("c000"), shared("c000"), LeaseRequest(node="c000", sharing="shared", wanted=("x",))):
        with pytest.raises(HostNotReady) as caught:
            allocate(two, [], [request], claims=claims)
        assert "docker" in caught.value.what
        assert "no socket" in caught.value.evidence
        assert caught.value.fix == "start it"
    assert given(two, [], exclusive("c000", 0), claims) == []
    assert given(two, [lease(two, "c000", 1)], shared("c000"), claims) == [1]


def test_an_engine_that_this_user_may_not_query_keeps_nobody_from_shared_gpus(two: HostGpus) -> None:
    fix = "sudo usermod -aG docker $USER, then log in again"
    claims = Claims(
        closed={"docker": NotAllowed("this user has no access to docker", evidence="group docker", fix=fix)}
    )
    assert given(two, [], shared("c000"), claims) == [0]
    with pytest.raises(HostNotReady) as caught:
        given(two, [], exclusive("c000"), claims)
    assert caught.value.what == "cannot tell which GPUs are free: this user may not query docker"
    assert caught.value.fix == f"--sharing shared; or {fix}"


def test_what_time_cannot_cure_is_no_reason_to_wait(two: HostGpus) -> None:
    with pytest.raises(UsageError) as caught:
        given(two, [], exclusive("c000", 3), Claims())
    assert not isinstance(caught.value, GpusTaken)
    with pytest.raises(GpusTaken) as taken:
        given(two, [lease(two, "a", 0)], exclusive("c000", 2), Claims())
    assert taken.value.request == exclusive("c000", 2)


def of(cluster: str, host: HostGpus, node: str, *indexes: int) -> Lease:
    gpus = tuple(host.units[index].uuid for index in indexes)
    return Lease(node=node, gpus=gpus, sharing="shared", engine="lxd", status="running", cluster=cluster)


@pytest.fixture
def four(tmp_path: Path) -> HostGpus:
    return observe(root=tmp_path, mode="simulated", simulated_count=4)


@pytest.mark.parametrize(
    ("cluster", "leases", "index"),
    [
        ("lab", (("lab", 0), ("other", 1), ("other", 2), ("other", 3)), 1),  # not a second one on its own GPU
        ("lab", (("lab", 0), ("other", 1), ("other", 1), ("other", 2), ("other", 3)), 2),
        ("lab", (("lab", 0), ("other", 1), ("other", 1), ("other", 2), ("other", 2), ("lab", 3)), 1),
        ("lab", (("lab", 0), ("lab", 1), ("lab", 2), ("lab", 3)), 0),
        ("lab", (("lab", 0), ("lab", 1), ("lab", 2), ("lab", 3), ("other", 0)), 1),
        ("other", (("lab", 0), ("lab", 0), ("lab", 1), ("other", 2), ("other", 3)), 1),
        ("", (("", 0), ("other", 1), ("other", 1), ("other", 2), ("other", 3)), 0),  # a job is part of no cluster
    ],
)
def test_a_cluster_is_spread_over_different_gpus_first(
    four: HostGpus, cluster: str, leases: tuple[tuple[str, int], ...], index: int
) -> None:
    held = [of(name, four, f"n{number}", gpu) for number, (name, gpu) in enumerate(leases)]
    found = allocate(four, held, [shared("new")], claims=Claims(), cluster=cluster)
    assert [gpu.index for gpu in found["new"]] == [index]


def test_nodes_with_several_gpus_are_spread_too_and_leases_stay(four: HostGpus) -> None:
    held = [
        of("lab", four, "c000", 0),
        of("lab", four, "c001", 0),
        *(of("x", four, f"x{n}", 1, 2, 3) for n in range(3)),
    ]
    requests = [shared("c000"), shared("c001"), shared("c002", 2), shared("c003", 2)]
    found = allocate(four, held, requests, claims=Claims(), cluster="lab")
    indexes = {node: [gpu.index for gpu in gpus] for node, gpus in found.items()}
    assert indexes == {"c000": [0], "c001": [0], "c002": [1, 2], "c003": [1, 3]}


def test_what_a_host_can_give_is_counted_for_the_cluster_too(four: HostGpus) -> None:
    held = [of("lab", four, "c000", 0), of("x", four, "x0", 1), of("x", four, "x1", 1)]
    supply = count_supply(four, held, shared("c001"), claims=Claims(), most=9, cluster="lab")
    assert (supply.unshared, supply.free) == (3, 1)


@pytest.mark.parametrize(
    ("held", "said"),
    [
        ([("h", ["a"]), ("h", ["b"]), ("h", [])], ""),
        ([("h", ["a"]), ("i", ["a"])], ""),
        ([("h", ["a"]), ("h", ["a"])], "2 nodes share 1 GPU"),
        ([("h", [gpu]) for gpu in "abcdab"], "6 nodes share 4 GPUs"),
        ([("h", ["a", "b"]), ("h", ["b", "c"]), ("h", [])], "2 nodes share 3 GPUs"),
    ],
)
def test_that_nodes_share_gpus_is_said_in_words(held: list[tuple[str, list[str]]], said: str) -> None:
    assert describe_shared(held) == said
