"""What people copy or rename with the engine's own client has our labels and is foreign."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuprov.core.errors import NotOurs
from gpuprov.drivers.base import LABEL_FINGERPRINT, File
from tests.contract.engines import refused
from tests.contract.test_nodes import CHANGES_A_NODE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.contract.engines import Bench


@pytest.fixture(scope="module")
def copied(whole_bench: Bench) -> Iterator[tuple[str, str]]:
    """A node, and a copy of it; whatever a test tries, the copy is the same afterwards."""
    node = whole_bench.create()
    copy = f"{node}-copy"
    whole_bench.site.copy(node, copy)
    before = whole_bench.site.foreign(copy)
    yield node, copy
    assert whole_bench.site.foreign(copy) == before
    whole_bench.driver.delete_node(node)


@pytest.mark.parametrize("act", CHANGES_A_NODE)
def test_a_copy_is_left_alone(bench: Bench, copied: tuple[str, str], act: str) -> None:
    with refused(NotOurs):
        CHANGES_A_NODE[act](bench.driver, copied[1])


def test_a_copy_says_what_it_is(bench: Bench, copied: tuple[str, str]) -> None:
    node, copy = copied
    listed = {state.name: state for state in bench.driver.list_nodes()}
    for state in (listed[copy], bench.driver.find_node(copy)):
        assert state
        assert not state.ours
        assert dict(state.labels) == {}
        assert str(state.copy_of) == f"a copy of {node}"
    for state in (listed[node], bench.driver.find_node(node)):
        assert state
        assert state.ours
        assert state.copy_of is None
    with refused(NotOurs):
        bench.driver.create_node(bench.request(name=copy))
    with refused(NotOurs):
        bench.driver.clone_node(copy, bench.request())


def test_a_renamed_node_is_foreign_until_it_has_its_name_again(bench: Bench) -> None:
    node = bench.create()
    other = f"{node}-renamed"
    bench.site.rename(node, other)
    state = bench.driver.find_node(other)
    assert state
    assert str(state.copy_of) == f"a copy of {node}"
    assert bench.driver.find_node(node) is None
    bench.driver.delete_node(node)
    with refused(NotOurs):
        bench.driver.delete_node(other)
    bench.site.rename(other, node)
    state = bench.driver.find_node(node)
    assert state
    assert state.ours
    assert state.complete
    bench.driver.start_node(node)
    assert bench.status(node) == "running"


def test_nodes_that_gpuprov_copies_are_themselves(bench: Bench) -> None:
    """Clones, nodes of an image that was a node, and nodes that went back to a snapshot."""
    node = bench.create(files=(File(path="/opt/work", content=b"first"),))
    bench.driver.snapshot_node(node, "s")
    clone = bench.request()
    bench.driver.clone_node(node, clone)
    bench.driver.set_labels(node, {"gpuprov.gpus": "GPU-1"})
    bench.driver.push(node, [File(path="/opt/work", content=b"second")])
    bench.driver.restore_node(node, "s")
    for name in (node, clone.name):
        state = bench.driver.find_node(name)
        assert state
        assert state.ours
        assert state.complete
    kept = bench.driver.find_node(node)
    assert kept
    assert kept.labels["gpuprov.gpus"] == "GPU-1", "a lease is not given back by going back"
    assert bench.driver.pull(node, "/opt/work") == b"first"
    assert kept.snapshots == ("s",)


def test_a_running_node_that_goes_back_keeps_its_labels_and_runs(bench: Bench) -> None:
    node = bench.create(start=True)
    bench.driver.snapshot_node(node, "s")
    bench.driver.set_labels(node, {"gpuprov.gpus": "GPU-1"})
    bench.driver.restore_node(node, "s")
    state = bench.driver.find_node(node)
    assert state
    assert (state.status, state.labels["gpuprov.gpus"]) == ("running", "GPU-1")
    assert bench.driver.run(node, ["true"]).exit_code == 0


def test_a_copy_of_an_image_is_no_image(bench: Bench) -> None:
    builder = bench.builder()
    labels = {LABEL_FINGERPRINT: "test gpt-copied"}
    image = bench.driver.publish_image(builder, "gpt-copied", labels)
    bench.site.copy_image(image.name, "gpt-second")
    known = [found for found in bench.driver.list_images() if found.labels == labels]
    assert [found.name for found in known] == [image.name]
    assert "gpuprov-image-gpt-second" not in [found.name for found in bench.driver.list_images()]
    second = bench.driver.find_node("gpt-second")
    assert second is None or not second.ours
    bench.driver.delete_image(image.id)
    assert image.name not in [found.name for found in bench.driver.list_images()]
