from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from gpuprov.core.errors import EngineError
from gpuprov.drivers.base import File
from gpuprov.shapes.node import CharDevice, Mount
from tests.contract.engines import FIND_PROCESS, Bench, refused

if TYPE_CHECKING:
    from pathlib import Path

    from gpuprov.drivers.base import Driver

# Major 120 is for local use: no driver is behind it, so open() gives ENXIO where it is allowed and EPERM where not.
MAJOR = 120
LEASED = CharDevice(path="/dev/gpt0", major=MAJOR, minor=0)
OTHER = CharDevice(path="/dev/gpt1", major=MAJOR, minor=1)
THIRD = CharDevice(path="/dev/gpt2", major=MAJOR, minor=2)
TRY_OPEN = "import os\ntry:\n os.open('{0}', os.O_RDWR)\nexcept OSError as e:\n print(e.errno)"
TRY_MKNOD = (
    "import os, stat\ntry:\n os.mknod('{0}', stat.S_IFCHR | 0o666, os.makedev(120, {1}))\n print('made')\n"
    "except OSError as e:\n print(e.errno)"
)
ENXIO, EPERM, ENOENT = "6", "1", "2"


@pytest.mark.parametrize("content", [b"", b"text\n", bytes(range(256)) * 4000])
def test_what_was_pushed_can_be_pulled(driver: Driver, node: str, content: bytes) -> None:
    driver.push(node, [File(path="/opt/gpt/file", content=content)])
    assert driver.pull(node, "/opt/gpt/file") == content


@pytest.mark.parametrize("name", ["with space", "ünï", "a'b\"c", "per%20cent", "q?a=b&c#d", "new\nline", "-n"])
def test_names_of_files_may_be_unusual(driver: Driver, node: str, name: str) -> None:
    driver.push(node, [File(path=f"/opt/odd/{name}/{name}", content=name.encode())])
    assert driver.pull(node, f"/opt/odd/{name}/{name}") == name.encode()


LIBRARY = "/usr/lib/x86_64-linux-gnu/libnvidia-ptxjitcompiler.so.580.105.08"  # the longest target of the driver's own


def test_the_later_content_counts(driver: Driver, node: str) -> None:
    for content in (b"a long first one", b"short"):
        driver.push(node, [File(path="/opt/twice", content=content)])
    assert driver.pull(node, "/opt/twice") == b"short"


def test_a_stopped_node_takes_and_gives_files(bench: Bench) -> None:
    name = bench.create(files=(File(path="/opt/seed/a", content=b"seed"),))
    bench.driver.push(name, [File(path="/srv/new/folder/b", content=b"later")])
    assert bench.driver.pull(name, "/opt/seed/a") == b"seed"
    assert bench.driver.pull(name, "/srv/new/folder/b") == b"later"


def test_a_file_that_is_not_there(driver: Driver, node: str) -> None:
    with refused(EngineError):
        driver.pull(node, "/no/such/file")


@pytest.mark.usefixtures("real")
@pytest.mark.parametrize("start", [True, False])
def test_owner_and_mode_are_as_asked(bench: Bench, start: bool) -> None:
    name = bench.create(start=start)
    bench.driver.push(name, [File(path="/opt/made/for/key", content=b"k", mode=0o400, uid=64, gid=65)])
    if not start:
        bench.driver.start_node(name)
    assert bench.sh(name, "stat -c '%u %g %a' /opt/made/for/key") == "64 65 400"
    assert bench.sh(name, "stat -c '%u %g %a' /opt/made /opt/made/for /opt").splitlines() == ["0 0 755"] * 3


def test_devices_and_mounts_are_seen(bench: Bench, tmp_path: Path) -> None:
    mounts = (
        Mount(source=str(tmp_path), target="/mnt/read only", read_only=True),
        Mount(source=str(tmp_path), target="/mnt/read-only", read_only=True),
        Mount(source=str(tmp_path), target=LIBRARY, read_only=True),
        Mount(source=str(tmp_path), target="/mnt/other", read_only=True),
    )
    name = bench.create(devices=(LEASED, OTHER), mounts=mounts)
    state = bench.driver.find_node(name)
    assert state
    assert set(state.devices) == {LEASED, OTHER}
    assert set(state.mounts) == set(mounts)
    bench.driver.set_devices(name, [OTHER], mounts[1:])
    changed = bench.driver.find_node(name)
    assert changed
    assert changed.devices == (OTHER,)
    assert set(changed.mounts) == set(mounts[1:])
    assert changed.addresses == state.addresses
    assert dict(changed.labels) == dict(state.labels)


@pytest.mark.usefixtures("real")
def test_a_mount_shows_the_host_s_files(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "hello").write_text("from the host")
    tmp_path.chmod(0o755)
    name = bench.create(start=True, mounts=(Mount(source=str(tmp_path), target="/mnt/data"),))
    assert bench.sh(name, "cat /mnt/data/hello") == "from the host"
    assert bench.driver.run(name, ["touch", "/mnt/data/mine"]).exit_code != 0
    assert [path.name for path in tmp_path.iterdir()] == ["hello"]


@pytest.mark.usefixtures("real")
def test_a_mount_that_is_not_there_is_refused(bench: Bench, tmp_path: Path) -> None:
    request = bench.request(mounts=(Mount(source=str(tmp_path / "absent"), target="/mnt/data"),))
    with refused(EngineError):
        bench.driver.create_node(request)
        bench.driver.start_node(request.name)


@pytest.mark.parametrize("start", [True, False])
def test_mounts_whose_sources_are_gone_are_replaced(bench: Bench, tmp_path: Path, start: bool) -> None:
    """As after an upgrade of the host's driver: its old libraries are gone, and a process may still have one open."""
    old, new = tmp_path / "lib.so.1.0", tmp_path / "lib.so.2.0"
    old.write_text("old")
    mounts = [
        tuple(Mount(source=str(path), target=f"/opt/lib/{name}") for name in ("lib.so.1", path.name))
        for path in (old, new)
    ]
    request = bench.request(mounts=mounts[0])
    bench.driver.create_node(request)
    if start:
        bench.driver.start_node(request.name)
    if start and bench.real:
        bench.sh(request.name, "nohup sleep 4713.5 >/dev/null 2>&1 </opt/lib/lib.so.1 &")
    kept = File(path="/opt/gpt/kept", content=b"kept\0\xff")
    bench.driver.push(request.name, [kept])
    old.rename(new)
    new.write_text("new")
    assert bench.driver.pull(request.name, kept.path) == kept.content
    with refused(EngineError):
        bench.driver.pull(request.name, "/opt/gpt/none")
    wanted = replace(request, memory_bytes=1 << 30, mounts=mounts[1])
    bench.driver.set_settings(request.name, wanted)
    bench.driver.set_devices(request.name, (), mounts[1])
    state = bench.driver.find_node(request.name)
    assert state
    assert set(state.mounts) == set(mounts[1])
    assert state.settings == bench.driver.settings(wanted)
    assert state.status == ("running" if start else "stopped")
    bench.driver.start_node(request.name)
    if bench.real:
        shown = bench.sh(request.name, "cd /opt/lib; cat lib.so.1 lib.so.2.0; test ! -s lib.so.1.0 && echo ' none'")
        assert shown == "newnew none"


@pytest.mark.usefixtures("real")
def test_only_the_leased_device_opens(bench: Bench) -> None:
    name = bench.create(start=True, devices=(LEASED,))
    assert bench.python(name, TRY_OPEN.format("/dev/gpt0")) == ENXIO
    assert bench.python(name, TRY_OPEN.format("/dev/gpt1")) == ENOENT
    assert bench.python(name, TRY_MKNOD.format("/dev/gpt1", 1)) == EPERM
    assert bench.python(name, TRY_MKNOD.format("/root/gpt0", 0)) == EPERM


@pytest.mark.usefixtures("real")
def test_a_privileged_node_cannot_open_what_it_was_not_given(bench: Bench) -> None:
    bench.need("privileged")
    name = bench.create(start=True, devices=(LEASED,), privileged=True)
    state = bench.driver.find_node(name)
    assert state
    assert state.privileged
    assert bench.python(name, TRY_OPEN.format("/dev/gpt0")) == ENXIO
    if bench.python(name, TRY_MKNOD.format("/root/gpt1", 1)) == "made":
        assert bench.python(name, TRY_OPEN.format("/root/gpt1")) == EPERM


@pytest.mark.usefixtures("real")
def test_a_running_node_gets_and_loses_devices(bench: Bench) -> None:
    name = bench.create(start=True, devices=(LEASED, THIRD))
    bench.sh(name, "nohup sleep 4712.5 >/dev/null 2>&1 </dev/null &")
    bench.driver.set_devices(name, [THIRD, LEASED], [])
    assert bench.python(name, FIND_PROCESS.format(seconds="4712.5")) == "1", "another order is no change"
    bench.driver.set_devices(name, [OTHER], [])
    if "devices-live" in bench.driver.capabilities:
        assert bench.python(name, FIND_PROCESS.format(seconds="4712.5")) == "1"
    assert bench.python(name, TRY_OPEN.format("/dev/gpt0")) == ENOENT
    assert bench.python(name, TRY_OPEN.format("/dev/gpt1")) == ENXIO
    assert bench.status(name) == "running"
