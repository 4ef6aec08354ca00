"""Failures that are provoked on a real engine: its own words about the cause are in what the user reads.

tests/unit/test_provoked_failures.py has the table of those that an engine or a tool cannot be made to have here.
"""

from __future__ import annotations

import logging
import socket
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.core.errors import EngineError, GpuprovError
from gpuprov.core.waiting import Wait
from gpuprov.drivers.base import LABEL_VERSION, File
from gpuprov.drivers.networks import NetworkRequest
from gpuprov.shapes.base import changed
from gpuprov.shapes.node import Exposure, Mount
from tests.contract.engines import NAT, NAT_ROUTER, NETWORKS, Bench, bridge, ipv4, make_network, rootfs_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

INIT = "/usr/local/sbin/gpuprov-init"
DIES = b"#!/bin/sh\necho begun\necho the disk is on fire >&2\nexit 3\n"
FULL = "gptfull"
LOG = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Failure:
    """One row.

    Attributes:
        provoke: Makes it happen.
        words: What the message must have, by engine; an engine that is not named cannot have this failure.
    """

    provoke: Callable[[Bench, Path], object]
    words: dict[str, tuple[str, ...]] = field(default_factory=dict)


def start_without_init(bench: Bench, folder: Path) -> None:
    tar = folder / "rootfs.tar"
    tar.write_bytes(rootfs_of(b"no init"))
    image = bench.driver.import_rootfs("gpt-noinit", str(tar), {LABEL_VERSION: "test"})
    run_when_dead(bench, bench.create(start=True, image=image))  # Docker starts it: its own init is there


def run_in_a_dead_node(bench: Bench, _folder: Path) -> None:
    if bench.driver.name == "docker":
        name = bench.create(files=(File(path=INIT, content=DIES, mode=0o755),))
    else:
        name = bench.create()
        change(bench, name, config={"raw.lxc": "lxc.init.cmd = /bin/false"})
    bench.driver.start_node(name)
    run_when_dead(bench, name)


def run_when_dead(bench: Bench, name: str) -> None:
    """Run a command until that fails: Docker starts a dead node again, and again, and it is alive for moments."""
    Wait(what="it to die", timeout_s=20, fix="").until(lambda: bench.driver.run(name, ["true"]), lambda _: False)


def start_with_a_bad_mount(bench: Bench, _folder: Path) -> None:
    name = bench.create()
    change(bench, name, config={"raw.lxc": "lxc.mount.entry = /nonexistent mnt none bind 0 0"})
    bench.driver.start_node(name)


def start_on_a_lost_bridge(bench: Bench, _folder: Path) -> None:
    request = bench.request()
    first = changed(request.attachments[0], network="gptgone")
    bench.driver.create_node(replace(request, attachments=(first,)))
    bench.driver.start_node(request.name)


def start_with_an_address_in_use(bench: Bench, _folder: Path) -> None:
    one, two = bench.request(), bench.request()
    first = one.attachments[0]
    second = two.attachments[0]
    same = changed(second, address=first.address) if bench.driver.name == "docker" else changed(second, mac=first.mac)
    for request, attachment in ((one, first), (two, same)):
        bench.driver.create_node(replace(request, attachments=(attachment,)))
        bench.driver.start_node(request.name)


def mount_what_is_not_there(bench: Bench, _folder: Path) -> None:
    bench.create(start=True, mounts=(Mount(source="/nonexistent/gpt", target="/gpt"),))


def start_without_its_device(bench: Bench, _folder: Path) -> None:
    name = bench.create()
    change(bench, name, devices={"gpt": {"type": "unix-char", "source": "/dev/gpt-none", "path": "/dev/gpt-none"}})
    bench.driver.start_node(name)


def expose_a_port_in_use(bench: Bench, _folder: Path) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        name = bench.create(start=bench.driver.name != "docker")
        port = holder.getsockname()[1]
        bench.driver.expose(name, Exposure(host_port=port, node_port=22, listen="127.0.0.1"))


def create_a_network_twice(bench: Bench, _folder: Path) -> None:
    make_network(bench.driver, NetworkRequest(name=NAT, labels=bench.labels, address=f"{ipv4(9, 1)}/24"))


def create_a_network_on_a_taken_subnet(bench: Bench, _folder: Path) -> None:
    make_network(bench.driver, NetworkRequest(name=bridge(8), labels=bench.labels, address=f"{NAT_ROUTER}/24"))


def create_a_network_with_a_long_name(bench: Bench, _folder: Path) -> None:
    name = f"{NETWORKS}-longer-than-linux-allows"
    make_network(bench.driver, NetworkRequest(name=name, labels=bench.labels, address=f"{ipv4(8, 1)}/24"))


def import_garbage(bench: Bench, folder: Path) -> None:
    tar = folder / "garbage.tar"
    tar.write_bytes(b"garbage" * 1000)
    image = bench.driver.import_rootfs("gpt-garbage", str(tar), {LABEL_VERSION: "test"})
    bench.create(image=image)


def create_in_a_full_pool(bench: Bench, _folder: Path) -> None:
    api: Any = bench.driver._api  # type: ignore[attr-defined]
    api.send("post", "storage-pools", body={"name": FULL, "driver": "btrfs", "config": {"size": "256MiB"}})
    before, api.pool = api.pool, FULL
    try:
        bench.driver.create_node(replace(bench.request(), image=bench.base))
    finally:
        api.pool = before
        api.delete("storage-pools", FULL)


def restore_what_was_never_kept(bench: Bench, _folder: Path) -> None:
    bench.driver.restore_node(bench.create(), "nonesuch")


def change(bench: Bench, name: str, **body: Any) -> None:
    """Break an instance of LXD as only its own client can."""
    api: Any = bench.driver._api  # type: ignore[attr-defined]
    api.send("patch", "instances", name, body=body)


FAILURES = {
    "an image without init": Failure(
        provoke=start_without_init,
        words={"lxd": ("could not start", 'Failed to exec "/sbin/init"'), "docker": ("/bin/sh", "is not running")},
    ),
    "a node that died": Failure(
        provoke=run_in_a_dead_node,
        words={"lxd": ("is not running",), "docker": ("is not running", "the disk is on fire")},
    ),
    "a mount that LXC refuses": Failure(
        provoke=start_with_a_bad_mount, words={"lxd": ('lxc.log: No such file or directory - Failed to mount "/nonex',)}
    ),
    "a bridge that is not there": Failure(
        provoke=start_on_a_lost_bridge, words={"lxd": ("gptgone",), "docker": ("network gptgone not found",)}
    ),
    "an address in use": Failure(
        provoke=start_with_an_address_in_use, words={"lxd": ("MAC address",), "docker": ("Address already in use",)}
    ),
    "a mount's source that is not there": Failure(
        provoke=mount_what_is_not_there, words={"lxd": ("/nonexistent/gpt",), "docker": ("/nonexistent/gpt",)}
    ),
    "a device that is not there": Failure(
        provoke=start_without_its_device, words={"lxd": ("could not start", "device path doesn't exist")}
    ),
    "a port in use": Failure(
        provoke=expose_a_port_in_use,
        words={"lxd": ("address already in use",), "docker": ("Address already in use",)},
    ),
    "a network that exists": Failure(
        provoke=create_a_network_twice, words={"lxd": ("already exists",), "docker": ("already",)}
    ),
    "a subnet in use": Failure(
        provoke=create_a_network_on_a_taken_subnet,
        words={"lxd": ("Address already in use",), "docker": ("Pool overlaps",)},
    ),
    "a bridge's name that is too long": Failure(
        provoke=create_a_network_with_a_long_name, words={"lxd": ("too long",)}
    ),
    "a root file system that is none": Failure(
        provoke=import_garbage, words={"lxd": ("Unsupported compression",), "docker": ("tar header",)}
    ),
    "a full pool": Failure(
        provoke=create_in_a_full_pool, words={"lxd": ("No space left on device", f"storage info {FULL}")}
    ),
    "a snapshot that is not there": Failure(
        provoke=restore_what_was_never_kept, words={"lxd": ("nonesuch",), "docker": ("nonesuch",)}
    ),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_the_cause_is_in_the_message(bench: Bench, tmp_path: Path, failure: str) -> None:
    row = FAILURES[failure]
    words = row.words.get("lxd" if bench.driver.name == "incus" else bench.driver.name)
    if words is None:
        pytest.skip(f"{bench.driver.name} cannot be made to fail like this")
    with pytest.raises(GpuprovError) as caught:
        row.provoke(bench, tmp_path)
    said = str(caught.value)
    LOG.info("%s: %s\n%s", bench.driver.name, failure, said)  # --log-file=FILE --log-file-level=INFO has all of them
    assert [text for text in words if text not in said] == [], said
    assert len(caught.value.evidence.splitlines()) <= 20
    assert caught.value.fix
    with suppress(EngineError):
        bench.driver.delete_network(bridge(8))
