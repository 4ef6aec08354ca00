from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, cast

import pytest

from gpuprov.core.errors import EngineError, NotOurs
from gpuprov.drivers.base import LABEL_CLUSTER, LABEL_FINGERPRINT, LABEL_ROLE, File
from gpuprov.drivers.registry import glance_at_nodes
from tests.contract.engines import CLUSTER, Bench, refused

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuprov.drivers.base import Driver
    from gpuprov.shapes.choices import Engine

BAD_NAMES = ["../x", "a/b", "", "x" * 64, "-a", "a b", "a\nb", "a_b", "ä"]


def test_facts_are_the_machine_s(driver: Driver) -> None:
    facts = driver.facts()
    assert facts.name == driver.name
    assert facts.version
    assert facts.cpus >= 1
    assert facts.memory_bytes > 1 << 28
    assert facts.free_bytes is None or facts.free_bytes > 0


def test_a_node_s_life(bench: Bench) -> None:
    name = bench.create()
    assert bench.status(name) == "stopped"
    bench.driver.start_node(name)
    assert bench.status(name) == "running"
    bench.driver.stop_node(name, timeout_s=0)
    assert bench.status(name) == "stopped"
    bench.driver.delete_node(name)
    assert bench.status(name) == "absent"


@pytest.mark.usefixtures("real", "node", "foreign")
def test_a_glance_shows_the_names_of_the_same_nodes(bench: Bench) -> None:
    """As a shell asks for them, without the SDK."""
    ours = [node.name for node in bench.driver.list_nodes() if node.ours]
    assert sorted(glance_at_nodes(cast("Engine", bench.driver.name))) == sorted(ours)


def test_doing_it_again_changes_nothing(bench: Bench, node: str) -> None:
    bench.driver.start_node(node)
    assert bench.status(node) == "running"
    stopped = bench.create()
    bench.driver.stop_node(stopped)
    assert bench.status(stopped) == "stopped"
    bench.driver.delete_node("gpt-absent")


def test_stop_is_clean_within_its_time(bench: Bench) -> None:
    name = bench.create(start=True)
    bench.await_boot(name)
    bench.driver.stop_node(name, timeout_s=20)
    assert bench.status(name) == "stopped"


def test_a_frozen_node_is_seen_and_goes_on_when_started(bench: Bench) -> None:
    name = bench.create(start=True)
    bench.site.freeze(name)
    assert bench.status(name) == "frozen"
    bench.driver.start_node(name)
    assert bench.status(name) == "running"
    bench.site.freeze(name)
    bench.driver.delete_node(name)
    assert bench.status(name) == "absent"


def test_a_running_node_can_be_deleted(bench: Bench) -> None:
    name = bench.create(start=True)
    bench.driver.delete_node(name)
    assert bench.status(name) == "absent"


def test_labels_come_back_as_they_were_given(bench: Bench) -> None:
    odd = {"gpuprov.note": 'ünï "quoted" \\ \' $HOME {x}\nsecond line', "gpuprov.spec": "x" * 5000}
    request = bench.request()
    labels = {**request.labels, **odd}
    name = bench.create(labels=labels)
    state = bench.driver.find_node(name)
    assert state
    assert dict(state.labels) == labels
    assert state.ours
    assert state.complete
    listed = next(node for node in bench.driver.list_nodes() if node.name == name)
    assert dict(listed.labels) == labels
    bench.driver.set_labels(name, {"gpuprov.note": "new", "gpuprov.more": "1"})
    changed = bench.driver.find_node(name)
    assert changed
    assert dict(changed.labels) == {**labels, "gpuprov.note": "new", "gpuprov.more": "1"}


def test_a_request_without_fingerprint_makes_an_unfinished_node(bench: Bench) -> None:
    labels = {key: value for key, value in bench.request().labels.items() if key != LABEL_FINGERPRINT}
    name = bench.create(labels=labels)
    state = bench.driver.find_node(name)
    assert state
    assert state.ours
    assert not state.complete


def test_a_failing_request_leaves_nothing(bench: Bench) -> None:
    request = bench.request(files=(File(path="not/absolute", content=b""),))
    before = bench.names()
    with refused(EngineError):
        bench.driver.create_node(request)
    assert bench.names() == before


def test_an_unknown_image_is_refused(bench: Bench) -> None:
    for image in ("instance:gpuprov-image-absent", "image:" + "0" * 64):
        request = bench.request(image=image)
        with refused(EngineError):
            bench.driver.create_node(request)
        assert bench.status(request.name) == "absent"


def test_a_name_of_ours_is_taken(bench: Bench) -> None:
    name = bench.create()
    bench.driver.set_labels(name, {"gpuprov.note": "first"})
    with refused(EngineError):
        bench.driver.create_node(bench.request(name=name))
    state = bench.driver.find_node(name)
    assert state
    assert state.labels["gpuprov.note"] == "first"


def test_of_two_at_once_with_one_name_one_is_made(bench: Bench) -> None:
    one, other = bench.request(), bench.request()
    other = bench.request(name=one.name)

    def make(request: object) -> BaseException | None:
        try:
            bench.driver.create_node(request)  # type: ignore[arg-type]
        except EngineError as error:
            return error
        return None

    with ThreadPoolExecutor(2) as pool:
        errors = [error for error in pool.map(make, (one, other)) if error]
    assert len(errors) == 1
    state = bench.driver.find_node(one.name)
    assert state
    assert state.complete


def test_nodes_are_made_side_by_side(bench: Bench) -> None:
    requests = [bench.request() for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(bench.driver.create_node, requests))
    states = {node.name: node for node in bench.driver.list_nodes()}
    assert all(states[request.name].complete for request in requests)


@pytest.mark.parametrize("name", BAD_NAMES)
def test_names_that_no_engine_takes(bench: Bench, name: str) -> None:
    before = bench.names()
    with refused(EngineError):
        bench.driver.create_node(bench.request(name=name))
    assert bench.names() == before


@pytest.mark.parametrize("name", ["gpt-UPPER", "gpt-" + "x" * 59])
def test_names_that_an_engine_takes(bench: Bench, name: str) -> None:
    bench.create(name=name)
    assert bench.status(name) == "stopped"


@pytest.mark.parametrize("name", ["gpt-absent", *BAD_NAMES])
def test_what_is_not_there_is_none(bench: Bench, name: str) -> None:
    assert bench.driver.find_node(name) is None


ACTS_ON_A_NODE: dict[str, Callable[[Driver, str], object]] = {
    "start": lambda driver, name: driver.start_node(name),
    "stop": lambda driver, name: driver.stop_node(name),
    "labels": lambda driver, name: driver.set_labels(name, {LABEL_CLUSTER: CLUSTER}),
    "devices": lambda driver, name: driver.set_devices(name, [], []),
    "push": lambda driver, name: driver.push(name, [File(path="/etc/x", content=b"x")]),
    "run": lambda driver, name: driver.run(name, ["true"]),
    "snapshot": lambda driver, name: driver.snapshot_node(name, "s"),
    "restore": lambda driver, name: driver.restore_node(name, "s"),
    "unexpose": lambda driver, name: driver.unexpose(name, 7000),
    "logs": lambda driver, name: driver.logs(name),
    "pull": lambda driver, name: driver.pull(name, "/etc/hostname"),
}
CHANGES_A_NODE: dict[str, Callable[[Driver, str], object]] = {
    "delete": lambda driver, name: driver.delete_node(name),
    **{act: call for act, call in ACTS_ON_A_NODE.items() if act not in ("logs", "pull")},
}


@pytest.mark.parametrize("act", ACTS_ON_A_NODE)
def test_an_absent_node_is_an_error(driver: Driver, act: str) -> None:
    with refused(EngineError):
        ACTS_ON_A_NODE[act](driver, "gpt-absent")


@pytest.mark.parametrize("act", CHANGES_A_NODE)
def test_a_foreign_instance_is_left_alone(driver: Driver, foreign: str, act: str) -> None:
    with refused(NotOurs):
        CHANGES_A_NODE[act](driver, foreign)


def test_a_foreign_name_is_taken(bench: Bench, foreign: str) -> None:
    with refused(NotOurs):
        bench.driver.create_node(bench.request(name=foreign))
    with refused(NotOurs):
        bench.driver.clone_node(foreign, bench.request())


def test_a_foreign_instance_is_seen(bench: Bench, foreign: str) -> None:
    state = bench.driver.find_node(foreign)
    assert state
    assert not state.ours
    assert dict(state.labels) == {}
    assert foreign in [node.name for node in bench.driver.list_nodes()]


def test_a_builder_is_no_node(bench: Bench) -> None:
    builder = bench.builder()
    try:
        assert builder not in bench.names()
    finally:
        bench.driver.delete_node(builder)
    state = bench.driver.find_node(builder)
    assert state is None
    assert LABEL_ROLE in bench.request().labels
