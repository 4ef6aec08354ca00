from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from gpuprov.core.errors import EngineError
from gpuprov.drivers.base import LABEL_CLUSTER, LABEL_FINGERPRINT, File, NodeRequest
from tests.fakes.driver import FakeDriver
from tests.fakes.engine import FakeEngine, FakeImage
from tests.fakes.faults import Killed

if TYPE_CHECKING:
    from gpuprov.drivers.base import Driver


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine(images={"base": FakeImage(id="base", name="base")})


def request_for(name: str) -> NodeRequest:
    labels = {LABEL_CLUSTER: "lab", LABEL_FINGERPRINT: "f"}
    return NodeRequest(name=name, image="base", labels=labels, files=(File(path="/a", content=b"a"),))


def test_two_drivers_see_one_engine(engine: FakeEngine) -> None:
    one: Driver = FakeDriver(engine)
    other: Driver = FakeDriver(engine)
    one.create_node(request_for("c000"))
    assert [node.name for node in other.list_nodes()] == ["c000"]


@pytest.mark.parametrize("step", ["create_node", "create_node:made", "create_node:files"])
def test_an_error_while_a_node_is_made_leaves_nothing(engine: FakeEngine, step: str) -> None:
    engine.faults.raise_at(EngineError("broke"), step)
    before = engine.dump()
    with pytest.raises(EngineError, match="broke"):
        FakeDriver(engine).create_node(request_for("c000"))
    assert engine.dump() == before


@pytest.mark.parametrize("step", ["create_node:made", "create_node:files"])
def test_a_kill_while_a_node_is_made_leaves_it_unfinished(engine: FakeEngine, step: str) -> None:
    engine.faults.raise_at(Killed(), step)
    driver = FakeDriver(engine)
    with pytest.raises(Killed):
        driver.create_node(request_for("c000"))
    with pytest.raises(Killed):
        driver.delete_node("c000")
    found = FakeDriver(engine).find_node("c000")
    assert found
    assert found.ours
    assert not found.complete


def test_a_fault_strikes_the_nth_time_only_unless_it_lasts(engine: FakeEngine) -> None:
    driver = FakeDriver(engine)
    engine.faults.raise_at(EngineError("second"), "list_nodes", nth=2)
    driver.list_nodes()
    with pytest.raises(EngineError):
        driver.list_nodes()
    driver.list_nodes()
    engine.faults.raise_at(EngineError("gone"), nth=2, lasting=True)
    driver.list_nodes()
    for _ in range(2):
        with pytest.raises(EngineError, match="gone"):
            driver.list_networks()
    engine.faults.clear()
    assert driver.list_networks() == []


def test_a_fault_may_concern_one_node(engine: FakeEngine) -> None:
    driver = FakeDriver(engine)
    engine.faults.raise_at(EngineError("c001 only"), "start_node", subject="c001")
    for name in ("c000", "c001"):
        driver.create_node(request_for(name))
    driver.start_node("c000")
    with pytest.raises(EngineError):
        driver.start_node("c001")
    assert [node.status for node in driver.list_nodes()] == ["running", "stopped"]


def test_a_kill_in_one_thread_stops_the_others(engine: FakeEngine) -> None:
    driver = FakeDriver(engine)
    held, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        held.set()
        assert go_on.wait(5)

    engine.faults.at("create_node", subject="c000", act=hold)
    engine.faults.raise_at(Killed(), "create_node", subject="c001")
    ended: list[BaseException] = []

    def work() -> None:
        try:
            driver.create_node(request_for("c000"))
        except Killed as killed:
            ended.append(killed)

    thread = threading.Thread(target=work)
    thread.start()
    assert held.wait(5)
    with pytest.raises(Killed):
        driver.create_node(request_for("c001"))
    go_on.set()
    thread.join(5)
    assert len(ended) == 1
    assert engine.nodes == {}
