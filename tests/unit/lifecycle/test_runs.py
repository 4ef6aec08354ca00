"""Containers of `gpuprov run` that go on by themselves: names, leases, logs, ends, on a fake engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.cluster import leases
from gpuprov.core.errors import EngineError, UsageError
from gpuprov.core.names import check_node_name, node_of_run
from gpuprov.drivers.base import LABEL_CLUSTER, LABEL_PROCESS, LABEL_ROLE
from gpuprov.drivers.capabilities import NotCapable
from gpuprov.gpu.allocate import GpusTaken
from gpuprov.gpu.waiting_for_gpus import Patience
from gpuprov.lifecycle.remove_nodes import remove_nodes
from gpuprov.lifecycle.run_job import begin_job, run_job
from gpuprov.lifecycle.runs import end_runs, look_at_runs, show_run_log
from gpuprov.shapes.node import Exposure
from gpuprov.shapes.run_order import EndRunsOrder, RunOrder
from tests.fakes.doors import door_of
from tests.fakes.driver import FakeDriver
from tests.fakes.engine import FakeNode
from tests.fakes.faults import Killed
from tests.fakes.orders import nested

if TYPE_CHECKING:
    from gpuprov.shapes.runs import RunRow
    from tests.fakes.world import World

GONE = "here boot pid:[1] 1 1"
PORT = Exposure(host_port=8080, node_port=80)


class Bay:
    """A host with four GPUs."""

    def __init__(self, world: World) -> None:
        self.world, self.host = world, world.host
        self.host.engines = (door_of(FakeDriver(world.engine)),)

    def begin(self, name: str = "train", **order: Any) -> str:
        made = RunOrder(
            argv=("python3", "train.py"),
            name=name,
            detach=True,
            **{**nested(gpus=order.pop("gpus", "1"), image="gpuprov-image-plain"), **order},
        )
        driver = FakeDriver(self.world.engine)
        return begin_job(driver, made, self.host, patience=Patience(), reporter=self.world.reporter)

    def end(self, act: Any, *names: str, force: bool = False) -> tuple[str, ...]:
        order = EndRunsOrder(act=act, names=names, force=force)
        return end_runs(order, self.host, reporter=self.world.reporter).changed

    def log(self, name: str, *, follow: bool = False, tail: int | None = None, write: Any = None) -> None:
        show_run_log(self.host, name, follow=follow, tail=tail, write=write, reporter=self.world.reporter)

    @property
    def rows(self) -> tuple[RunRow, ...]:
        return look_at_runs(self.host, reporter=self.world.reporter).rows(host="here")

    def leases(self) -> list[str]:
        return [lease.node for lease in leases.read_leases(self.world.driver.list_nodes(), engine="fake")]


@pytest.fixture
def bay(world: World, monkeypatch: pytest.MonkeyPatch) -> Bay:
    monkeypatch.setattr(leases, "is_gone", lambda owner: owner == GONE)
    return Bay(world)


def test_it_goes_on_with_its_gpu_when_who_started_it_is_gone(bay: Bay) -> None:
    assert bay.begin(published=(PORT,), user="1000", restart="always") == "train"
    node = bay.world.engine.nodes["train.run"]
    node.labels[LABEL_PROCESS] = GONE
    assert bay.leases() == ["train.run"]
    assert (node.terms.user, node.terms.restart, node.terms.published) == ("1000", "always", (PORT,))
    (row,) = bay.rows
    assert (row.name, row.node, row.state, row.detached, row.ports) == ("train", "train.run", "running", True, (PORT,))
    assert len(row.gpus) == 1
    bay.begin("other")
    assert {row.name for row in bay.rows} == {"other", "train"}, "the next run has removed nothing"


def test_one_that_ended_keeps_its_gpu_until_it_is_removed(bay: Bay) -> None:
    bay.begin(gpus="all")
    assert bay.end("stop", "train") == ("stopped train",)
    assert bay.end("stop", "train") == ()
    with pytest.raises(GpusTaken) as taken:
        bay.begin("other")
    assert "train.run (exclusive, fake, stopped)" in taken.value.evidence
    assert "gpuprov run ps" in taken.value.fix
    assert bay.end("rm", "train") == ("removed train",)
    assert bay.begin("other") == "other"


def test_one_that_runs_is_removed_by_force_alone(bay: Bay) -> None:
    bay.begin()
    bay.begin("eval")
    with pytest.raises(UsageError, match="2 things are wrong with the command; nothing was removed"):
        bay.end("rm", "train", "eval")
    with pytest.raises(UsageError, match="train has not ended") as refused:
        bay.end("rm", "train")
    assert "gpuprov run stop train; gpuprov run rm train" in refused.value.fix
    assert len(bay.rows) == 2
    assert bay.end("rm", "train.run", "eval", force=True) == ("removed train", "removed eval")
    assert bay.leases() == []


def test_names_are_apart_from_those_of_nodes(bay: Bay) -> None:
    engine = bay.world.engine
    engine.nodes["train"] = FakeNode(name="train", labels={LABEL_CLUSTER: "lab"})
    assert bay.begin() == "train"
    bay.end("rm", "train", force=True)
    assert list(engine.nodes) == ["train"], "the node is another one"
    del engine.nodes["train"]
    bay.begin()
    assert remove_nodes(bay.world.driver, ["train"], bay.host, reporter=bay.world.reporter).changed == ()
    assert "train.run" in engine.nodes
    assert "note there is no node train; for the container of `gpuprov run`: gpuprov run rm train" in (
        bay.world.reporter.lines
    )
    with pytest.raises(UsageError, match=r"train\.run is no node") as refused:
        check_node_name(node_of_run("train"))
    assert "gpuprov run ps" in refused.value.fix


def test_a_name_and_ports_that_are_taken_are_told_at_once_and_nothing_changes(bay: Bay) -> None:
    bay.begin(published=(PORT,))
    bay.host.listening[9090] = "nginx (process 7) listens on port 9090 of 0.0.0.0"
    before = bay.world.engine.dump()
    with pytest.raises(UsageError, match="3 things are wrong") as refused:
        bay.begin(published=(PORT, Exposure(host_port=9090, node_port=1)))
    assert "the name train is taken by another container of `gpuprov run`" in refused.value.evidence
    assert "fake forwards it to train.run, which is running" in refused.value.evidence
    assert "nginx (process 7)" in refused.value.evidence
    assert bay.world.engine.dump() == before


def test_a_foreign_container_of_that_name_is_left_alone(bay: Bay) -> None:
    bay.world.engine.nodes["train.run"] = FakeNode(name="train.run")
    with pytest.raises(UsageError, match="the name train is taken") as refused:
        bay.begin()
    assert "gpuprov did not make" in refused.value.evidence
    assert bay.rows == ()


def test_without_a_name_one_is_made_up(bay: Bay) -> None:
    name = bay.begin("")
    assert name.startswith("job-")
    assert f"{name}.run" in bay.world.engine.nodes
    assert bay.end("rm", name, force=True) == (f"removed {name}",)


@pytest.mark.parametrize("step", ["begin_job", "create_node:made"])
def test_one_that_was_cut_off_before_its_start_is_removed_by_the_next(bay: Bay, step: str) -> None:
    bay.world.engine.faults.raise_at(Killed(), step)
    with pytest.raises(Killed):
        bay.begin()
    bay.world.engine.faults.clear()
    bay.world.engine.nodes["train.run"].labels[LABEL_PROCESS] = GONE
    assert bay.leases() == []
    bay.begin("other", gpus="all")
    assert [row.name for row in bay.rows] == ["other"]


def test_its_log_is_handed_on_with_both_streams(bay: Bay) -> None:
    bay.begin()
    said: list[tuple[str, bytes]] = []
    bay.log("train", follow=True, tail=7, write=lambda stream, piece: said.append((stream, piece)))
    assert said == [("stdout", b"python3 train.py follow=True tail=7\n"), ("stderr", b"said on stderr\n")]


def test_a_name_that_none_has_is_answered_with_those_there_are(bay: Bay) -> None:
    bay.begin()
    for act in (
        lambda: bay.end("stop", "trian", "train"),
        lambda: bay.log("trian"),
    ):
        with pytest.raises(UsageError, match="did you mean train") as refused:
            act()
        assert "containers: train" in refused.value.evidence
    assert bay.leases() == ["train.run"]


def test_one_that_is_removed_already_is_no_error_and_is_said(bay: Bay) -> None:
    bay.begin()
    assert bay.end("rm", "trian", "train", force=True) == ("removed train",)
    assert "note `gpuprov run` has no container trian" in bay.world.reporter.lines
    assert bay.end("rm", "train") == ()


def test_an_engine_that_is_silent_may_have_it(bay: Bay) -> None:
    def fail() -> FakeDriver:
        raise EngineError("docker does not respond", evidence="timed out", fix="gpuprov doctor")

    silent = door_of(FakeDriver(bay.world.engine))
    bay.host.engines = (*bay.host.engines, type(silent)(name="docker", open=fail, installed=lambda: True))
    with pytest.raises(EngineError) as refused:
        bay.end("rm", "eval")
    assert "docker: docker does not respond: timed out" in refused.value.evidence


def test_foreground_jobs_are_listed_too_and_go_by_their_end(bay: Bay) -> None:
    seen: list[tuple[str, bool, str]] = []

    def answer(_command: Any) -> Any:
        seen.extend((row.name, row.detached, bay.world.engine.nodes[row.node].labels[LABEL_ROLE]) for row in bay.rows)
        raise KeyboardInterrupt

    bay.world.engine.answer = answer
    order = RunOrder(argv=("true",), name="front", image="gpuprov-image-plain")
    with pytest.raises(KeyboardInterrupt):
        run_job(
            FakeDriver(bay.world.engine),
            order,
            bay.host,
            patience=Patience(),
            write=lambda *_: None,
            reporter=bay.world.reporter,
        )
    assert seen == [("front", False, "job")]
    assert bay.rows == ()


def test_an_engine_without_jobs_starts_none(bay: Bay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeDriver, "capabilities", frozenset())
    with pytest.raises(NotCapable):
        bay.begin()
