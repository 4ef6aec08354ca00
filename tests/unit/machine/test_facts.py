from __future__ import annotations

import json
from ipaddress import IPv4Interface, IPv4Network
from typing import TYPE_CHECKING, NoReturn

import pytest

from gpuprov.core.disk import Usage
from gpuprov.core.errors import EngineError, HostNotReady
from gpuprov.core.units import GIB
from gpuprov.machine.facts import gather_facts, parse_cgroup
from gpuprov.machine.links import Link, parse_links, parse_loose_pairs
from gpuprov.machine.local import COUNT_VARIABLE, LocalHost
from tests.fakes.world import make_world

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Recording

V2 = "31 24 0:27 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
V1 = (
    "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"
    "36 31 0:33 / /sys/fs/cgroup/devices rw,relatime - cgroup cgroup rw,devices\n"
)
UNIFIED = "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n"


@pytest.mark.parametrize(
    ("mountinfo", "version"),
    [(V2, "v2"), (V1, "v1"), (V1 + UNIFIED, "hybrid"), ("22 1 0:20 / /proc rw - proc proc rw\n", "none"), ("", "none")],
)
def test_cgroup_version(mountinfo: str, version: str) -> None:
    assert parse_cgroup(mountinfo) == version


def test_links_are_addresses_and_routes_without_the_default_one() -> None:
    addresses = [
        {"ifname": "lo", "addr_info": [{"family": "inet", "local": "127.0.0.1", "prefixlen": 8}]},
        {"ifname": "lxcbr0", "addr_info": [{"family": "inet", "local": "10.0.3.1", "prefixlen": 24}]},
        {"ifname": "ifb0", "addr_info": []},
        {"ifname": "eth0", "addr_info": [{"family": "inet6", "local": "fd00::2", "prefixlen": 64}]},
    ]
    routes = [
        {"dst": "default", "gateway": "192.0.2.1", "dev": "eth0"},
        {"dst": "10.8.0.0/16", "dev": "tun0"},
        {"dst": "192.0.2.7", "dev": "eth0"},
        {"type": "blackhole", "dst": "10.244.0.0/24"},
    ]
    assert parse_links(json.dumps(addresses), json.dumps(routes)) == (
        Link(interface="lo", network=IPv4Network("127.0.0.0/8"), address=IPv4Interface("127.0.0.1/8")),
        Link(interface="lxcbr0", network=IPv4Network("10.0.3.0/24"), address=IPv4Interface("10.0.3.1/24")),
        Link(interface="tun0", network=IPv4Network("10.8.0.0/16")),
        Link(interface="eth0", network=IPv4Network("192.0.2.7/32")),
        Link(interface="no interface", network=IPv4Network("10.244.0.0/24")),
    )


def test_no_links() -> None:
    assert parse_links("", "") == ()


def end(name: str, other: str | None, *flags: str, master: str | None = None) -> dict[str, object]:
    """An end of a pair, as `ip -j -d link show type veth` shows it; other is None where that is in a node."""
    more = {"link": other} if other else {"link_index": 12, "link_netnsid": 3}
    return {"ifname": name, "flags": ["BROADCAST", *flags], **more, **({"master": master} if master else {})}


@pytest.mark.parametrize(
    ("links", "loose"),
    [
        ([end("veth0000000a", "veth0000000b"), end("veth0000000b", "veth0000000a")], True),
        ([end("veth0000000a", "veth0000000b", "UP"), end("veth0000000b", "veth0000000a")], True),
        ([end("veth0000000a", "veth0000000b", "UP"), end("veth0000000b", "veth0000000a", "UP")], False),
        ([end("veth0000000a", "veth0000000b", master="br0"), end("veth0000000b", "veth0000000a")], False),
        ([end("veth0000000a", None)], False),
        ([end("vethmine", "vethyours"), end("vethyours", "vethmine")], False),
        ([end("veth000000a", "veth000000b"), end("veth000000b", "veth000000a")], False),  # Docker's have seven digits
        ([end("veth0000000a", "vethmine"), end("vethmine", "veth0000000a")], False),
        ([], False),
    ],
    ids=["down", "half up", "up", "a port", "of a node", "a user's", "Docker's", "half a user's", "none"],
)
def test_which_pairs_of_links_are_a_killed_engine_s(links: list[dict[str, object]], *, loose: bool) -> None:
    assert parse_loose_pairs(json.dumps(links)) == ({("veth0000000a", "veth0000000b")} if loose else set())


class WithoutEngines(LocalHost):
    """A machine in a folder, on which no engine runs."""

    def open(self, engine: str) -> NoReturn:
        raise HostNotReady(f"{engine} is not running", evidence="no socket", fix="sudo gpuprov host prepare")


def test_an_empty_host_and_no_engine_are_facts_too(tmp_path: Path) -> None:
    (tmp_path / "var").mkdir()
    facts = gather_facts(WithoutEngines(root=tmp_path), "lxd", gpu_mode="auto")
    assert facts.cgroup == "none"
    assert facts.engine.facts is None
    assert facts.engine.error is not None
    assert set(facts.limits.values()) == {None}
    assert facts.subuid is None
    assert facts.gpus is not None
    assert facts.gpus.simulated
    many = WithoutEngines(root=tmp_path, environment={COUNT_VARIABLE: "7"})
    seven = gather_facts(many, "lxd", gpu_mode="auto").gpus
    assert seven is not None
    assert len(seven.gpus) == 7, "as every other verb counts them"
    assert facts.gpu_nodes == {}
    assert facts.disk_free_bytes > 0


def test_a_gpu_that_is_asked_for_and_missing_is_a_fact(tmp_path: Path) -> None:
    (tmp_path / "var").mkdir()
    facts = gather_facts(WithoutEngines(root=tmp_path), "lxd", gpu_mode="real")
    assert facts.gpus is None
    assert facts.gpu_error is not None


def test_who_uses_the_storage_is_counted_only_where_it_is_scarce(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recording: Recording
) -> None:
    world = make_world(tmp_path, monkeypatch, recording)
    world.begin_with(2)
    monkeypatch.setattr(WithoutEngines, "open", lambda *_: world.driver)
    host = WithoutEngines(root=tmp_path)
    (tmp_path / "var").mkdir(exist_ok=True)
    world.engine.faults.passed.clear()
    assert gather_facts(host, "lxd", gpu_mode="auto").engine.usage == Usage()
    assert "usage" not in [step for step, _ in world.engine.faults.passed]
    world.engine.free_bytes = 8 * GIB  # of 100
    words = gather_facts(host, "lxd", gpu_mode="auto").engine.usage.words
    assert words.startswith("2 nodes 0.0 GiB, node c0")
    error = EngineError("it did not answer", evidence="e", fix="f")
    world.engine.faults.raise_at(error, "usage", subject="", lasting=True)
    assert gather_facts(host, "lxd", gpu_mode="auto").engine.usage.words == ""
