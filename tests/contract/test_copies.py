from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from gpuprov.core.errors import EngineError
from gpuprov.core.units import MIB
from gpuprov.drivers.base import LABEL_FINGERPRINT, File
from gpuprov.shapes.node import CharDevice, Exposure, Mount
from tests.contract.engines import Bench, refused

if TYPE_CHECKING:
    from pathlib import Path

DEVICE = CharDevice(path="/dev/gpt0", major=120, minor=0)


def test_a_clone_has_the_files_and_nothing_else_of_its_source(bench: Bench, tmp_path: Path) -> None:
    mount = Mount(source=str(tmp_path), target="/mnt/data")
    source = bench.create(devices=(DEVICE,), mounts=(mount,), files=(File(path="/opt/work", content=b"kept"),))
    bench.driver.set_labels(source, {"gpuprov.gpus": "GPU-1"})
    bench.driver.expose(source, Exposure(host_port=47111, node_port=80))
    request = bench.request(files=(File(path="/opt/own", content=b"new"),))
    bench.driver.clone_node(source, request)
    state = bench.driver.find_node(request.name)
    assert state
    assert state.status == "stopped"
    assert state.devices == ()
    assert state.mounts == ()
    assert state.exposed == ()
    assert state.snapshots == ()
    assert dict(state.labels) == dict(request.labels)
    assert dict(state.addresses) == {nic.interface: nic.address for nic in request.attachments}
    assert bench.driver.pull(request.name, "/opt/work") == b"kept"
    assert bench.driver.pull(request.name, "/opt/own") == b"new"
    bench.driver.push(request.name, [File(path="/opt/work", content=b"changed")])
    assert bench.driver.pull(source, "/opt/work") == b"kept"
    bench.driver.start_node(request.name)
    bench.driver.delete_node(source)
    assert bench.status(request.name) == "running"


def test_a_clone_may_have_devices_of_its_own(bench: Bench) -> None:
    source = bench.create()
    request = bench.request(devices=(DEVICE,))
    bench.driver.clone_node(source, request)
    state = bench.driver.find_node(request.name)
    assert state
    assert state.devices == (DEVICE,)


def test_a_clone_of_nothing(bench: Bench) -> None:
    request = bench.request()
    with refused(EngineError):
        bench.driver.clone_node("gpt-absent", request)
    assert bench.status(request.name) == "absent"


def test_a_clone_s_name_is_taken(bench: Bench, node: str) -> None:
    source = bench.create()
    with refused(EngineError):
        bench.driver.clone_node(source, bench.request(name=node))
    assert bench.status(node) == "running"


def test_a_clone_without_fingerprint_is_unfinished(bench: Bench) -> None:
    source = bench.create()
    request = bench.request()
    labels = {key: value for key, value in request.labels.items() if key != LABEL_FINGERPRINT}
    request = bench.request(labels=labels)
    bench.driver.clone_node(source, request)
    state = bench.driver.find_node(request.name)
    assert state
    assert not state.complete


@pytest.mark.sampled(2)
@pytest.mark.parametrize("start", [True, False])
def test_a_snapshot_brings_files_back(bench: Bench, start: bool) -> None:
    bench.need("snapshot")
    name = bench.create(start=start)
    bench.driver.push(name, [File(path="/opt/work", content=b"first")])
    bench.driver.snapshot_node(name, "before")
    bench.driver.push(name, [File(path="/opt/work", content=b"second"), File(path="/opt/more", content=b"x")])
    bench.driver.snapshot_node(name, "after")
    state = bench.driver.find_node(name)
    assert state
    assert set(state.snapshots) == {"before", "after"}
    bench.driver.restore_node(name, "before")
    assert bench.driver.pull(name, "/opt/work") == b"first"
    with refused(EngineError):
        bench.driver.pull(name, "/opt/more")
    assert bench.status(name) == ("running" if start else "stopped")
    bench.driver.restore_node(name, "after")
    assert bench.driver.pull(name, "/opt/work") == b"second"


def test_what_a_node_has_written_is_its_use_of_the_storage(bench: Bench) -> None:
    before, after = bench.create(), bench.create(files=(File(path="/opt/much", content=os.urandom(20 * MIB)),))
    sizes = {one.name: one.size_bytes for one in bench.driver.usage() if one.kind == "node"}
    assert (sizes[before] or 0) < 10 * MIB < (sizes[after] or 0) < 40 * MIB


def test_snapshots_that_cannot_be(bench: Bench) -> None:
    bench.need("snapshot")
    name = bench.create()
    bench.driver.snapshot_node(name, "one")
    with refused(EngineError):
        bench.driver.snapshot_node(name, "one")
    with refused(EngineError):
        bench.driver.restore_node(name, "two")
    for bad in ("a/b", "", "../x"):
        with refused(EngineError):
            bench.driver.snapshot_node(name, bad)
    state = bench.driver.find_node(name)
    assert state
    assert state.snapshots == ("one",)


def test_a_node_with_snapshots_can_be_deleted(bench: Bench) -> None:
    bench.need("snapshot")
    name = bench.create()
    bench.driver.snapshot_node(name, "one")
    bench.driver.delete_node(name)
    assert bench.status(name) == "absent"
