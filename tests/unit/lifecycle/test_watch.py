from __future__ import annotations

import gc
import tracemalloc
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

import pytest

from gpuprov.core.errors import EngineError, UsageError
from gpuprov.drivers.base import NodeState
from gpuprov.lifecycle.verify import watch
from gpuprov.shapes.verify import Check, NodeReport, Report
from gpuprov.verify.changes import Seen, compare

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpuprov.drivers.base import Driver
    from gpuprov.shapes.choices import AccessName
    from gpuprov.shapes.watch import Change

OURS = {"gpuprov.cluster": "lab"}


def report(name: str, *, access: AccessName = "raw", evidence: str = "x", **statuses: str) -> NodeReport:
    checks = tuple(
        Check(id=check, layer="node", status=cast("Any", status), severity="critical", evidence=evidence, fix="do it")
        for check, status in {"first": "pass", **statuses}.items()
    )
    return NodeReport(node=name, access=access, gpus=(), checks=checks, duration_s=1.0)


@dataclass
class World:
    """An engine whose nodes, and what is wrong with them, change from round to round."""

    nodes: dict[str, NodeReport]
    host: NodeReport | None = None
    broken: Exception | None = None
    asked: list[Sequence[str] | None] = field(default_factory=list)
    verified: int = 0
    connected: int = 0

    def connect(self) -> Driver:
        self.connected += 1
        if self.broken:
            raise self.broken
        return cast("Driver", self)

    def list_nodes(self) -> list[NodeState]:
        if self.broken:
            raise self.broken
        return [NodeState(name=name, status="running", labels=OURS) for name in self.nodes]

    def list_networks(self) -> list[Any]:
        return []

    def verify(self, driver: Driver, nodes: Sequence[str] | None) -> Report:
        if self.broken:
            raise self.broken
        assert driver is cast("Driver", self)
        self.asked.append(nodes)
        chosen = [node for name, node in self.nodes.items() if nodes is None or name in nodes]
        if nodes is not None and len(chosen) < len(nodes):
            raise UsageError("there is no such node")
        return Report(cluster="lab", nodes=tuple(chosen), duration_s=1.0, host=self.host)


def follow(
    world: World, *happenings: Callable[[], object], nodes: Sequence[str] | None = None
) -> list[tuple[int, Change]]:
    """One round, then one after each happening; what was told, with the number of the round."""
    told: list[tuple[int, Change]] = []
    number = 0

    def rounds() -> Any:
        nonlocal number
        yield
        for happening in happenings:
            happening()
            number += 1
            yield

    watch(
        world.verify,
        world.connect,
        cluster="lab",
        nodes=nodes,
        rounds=rounds(),
        tell=lambda changes: told.extend((number, change) for change in changes),
    )
    return told


def nothing() -> None:
    """All stays as it is."""


def two() -> World:
    return World({"c000": report("c000"), "c001": report("c001")})


def test_the_first_round_tells_every_node_and_then_only_changes_are_told() -> None:
    told = follow(two(), nothing, nothing)
    assert [(number, change.node, change.before, change.after) for number, change in told] == [
        (0, "c000", "absent", "pass"),
        (0, "c001", "absent", "pass"),
    ]


def test_a_change_of_the_host_is_told_before_those_of_nodes() -> None:
    world = two()
    world.host = report("host")
    told = follow(
        world,
        nothing,
        lambda: setattr(world, "host", report("host", second="fail")),
        world.nodes.clear,
        lambda: world.nodes.update(c000=report("c000")),
        lambda: setattr(world, "host", report("host")),
    )
    assert [(n, c.node, c.before, c.after) for n, c in told if c.node == "host"] == [
        (0, "host", "absent", "pass"),
        (2, "host", "pass", "fail"),
        (5, "host", "fail", "pass"),
    ]
    assert told[0][1].node == "host"


def test_other_evidence_is_no_change() -> None:
    world = two()
    told = follow(world, lambda: world.nodes.update(c000=report("c000", evidence="ran in 2 s")))
    assert [number for number, _ in told] == [0, 0]


def test_a_check_that_fails_and_is_well_again_is_told_twice() -> None:
    world = two()
    told = follow(
        world,
        lambda: world.nodes.update(c001=report("c001", second="fail", third="skip")),
        nothing,
        lambda: world.nodes.update(c001=report("c001", second="pass", third="pass")),
    )[2:]
    assert [(number, change.before, change.after) for number, change in told] == [
        (1, "pass", "fail"),
        (3, "fail", "pass"),
    ]
    assert [check.id for check in told[0][1].problems] == ["second"]
    assert told[1][1].well == ("second",)


def test_another_problem_of_a_node_that_fails_already_is_told() -> None:
    before = Seen(nodes={"c000": report("c000", a="fail", b="pass")})
    (change,) = compare(before, Seen(nodes={"c000": report("c000", a="skip", b="fail")}))
    assert (change.before, change.after) == ("fail", "fail")
    assert ([check.id for check in change.problems], change.well) == (["b"], ())


def test_simulated_is_told() -> None:
    (change,) = compare(Seen(), Seen(nodes={"c000": report("c000", access="simulated")}))
    assert change.simulated
    (change,) = compare(Seen(nodes={"c000": report("c000", access="simulated")}), Seen())
    assert change.simulated


@pytest.mark.parametrize("nodes", [None, ["c000", "c001"]])
def test_a_node_that_goes_away_is_told_and_the_others_go_on(nodes: list[str] | None) -> None:
    world = two()
    gone = world.nodes["c001"]
    told = follow(
        world,
        lambda: world.nodes.pop("c001"),
        nothing,
        lambda: world.nodes.update(c000=report("c000", second="fail")),
        lambda: world.nodes.update(c001=gone),
        nodes=nodes,
    )[2:]
    assert [(number, change.node, change.after) for number, change in told] == [
        (1, "c001", "absent"),
        (3, "c000", "fail"),
        (4, "c001", "pass"),
    ]
    assert world.asked[1:] == [["c000"], ["c000"], ["c000"], ["c000", "c001"]]


def test_every_node_may_go_away() -> None:
    world = two()
    told = follow(world, world.nodes.clear, nothing)[2:]
    assert [(change.node, change.after) for _, change in told] == [("c000", "absent"), ("c001", "absent")]


def test_only_the_named_nodes_are_watched() -> None:
    world = two()
    told = follow(world, lambda: world.nodes.update(c001=report("c001", second="fail")), nodes=["c000"])
    assert {change.node for _, change in told} == {"c000"}
    assert world.asked == [["c000"], ["c000"]]


@pytest.mark.parametrize(
    "error", [EngineError("LXD is unreachable", evidence="refused"), RuntimeError("nobody foresaw this")]
)
def test_an_engine_that_goes_away_is_told_once_and_once_when_it_is_back(error: Exception) -> None:
    world = two()

    def break_() -> None:
        world.broken = error

    def mend() -> None:
        world.broken = None
        world.nodes["c001"] = report("c001", second="fail")

    told = follow(world, break_, nothing, nothing, mend, nothing)[2:]
    assert [(number, change.node, change.before, change.after) for number, change in told] == [
        (1, None, "ok", "error"),
        (4, None, "error", "ok"),
        (4, "c001", "pass", "fail"),
    ]
    assert str(error).split("\n")[0] in (told[0][1].error or "")
    assert world.connected == 4  # at first, and after each round that failed


def test_a_first_round_that_cannot_be_done_ends_with_its_error() -> None:
    with pytest.raises(UsageError):
        follow(two(), nodes=["c009"])
    with pytest.raises(EngineError):
        follow(replace(two(), broken=EngineError("LXD is unreachable")))


def test_an_interruption_ends_it_at_once() -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    world = two()
    with pytest.raises(KeyboardInterrupt):
        follow(world, interrupt)
    world.broken = cast("Exception", KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        follow(world)


@pytest.mark.slow
def test_rounds_leave_nothing_behind() -> None:
    sizes: list[int] = []

    def verify(_driver: Driver, _nodes: Sequence[str] | None) -> Report:
        world.verified += 1
        number = world.verified
        fresh = report("c000", evidence=f"{number} " * 2000, second="fail" if number % 2 else "pass")
        return Report(cluster="lab", nodes=(fresh,), duration_s=1.0)

    def rounds() -> Any:
        for count in (100, 300):
            yield from [None] * count
            gc.collect()
            sizes.append(tracemalloc.get_traced_memory()[0])

    world = two()
    tracemalloc.start()
    try:
        watch(verify, world.connect, cluster="lab", nodes=None, rounds=rounds(), tell=lambda _: None)
    finally:
        tracemalloc.stop()
    assert sizes[1] - sizes[0] < 20_000  # what 300 rounds say is 2.4 MB
