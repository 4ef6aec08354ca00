"""Ansible's way to the nodes of other hosts: what they are, and into them."""

from __future__ import annotations

import base64
from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.cluster.transport import DriverTransport
from gpuprov.core.errors import EngineError, HostNotReady, UsageError
from gpuprov.core.reporter import Silent
from gpuprov.documents.inventory import Inventory, join_inventories
from gpuprov.fleet import remote_transport
from gpuprov.fleet.questions.inventory import INVENTORY
from gpuprov.fleet.remote_transport import RemoteTransport
from gpuprov.host.remote.answers import read_answer
from gpuprov.shapes.base import write
from gpuprov.shapes.inventory import HostInventory
from gpuprov.shapes.orders import InventoryOrder
from gpuprov.stories.inventory import read_inventory
from tests.fakes.hosts_in_worlds import HostsInWorlds
from tests.schemas import validate

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Recording

NAMES = ("hoff", "hinton")


@pytest.fixture
def hosts(tmp_path: Path, recording: Recording) -> HostsInWorlds:
    made = HostsInWorlds(tmp_path, recording, NAMES)
    for world in made.worlds.values():
        world.begin_with(2)
    return made


def told_by(hosts: HostsInWorlds) -> dict[str, Any]:
    return write(INVENTORY.here(InventoryOrder(), hosts.worlds["hoff"].host, Silent()))


def read_told(told: dict[str, Any]) -> Inventory:
    return join_inventories({"hoff": read_answer(HostInventory, told, "hoff")}, "here")


def test_the_nodes_of_all_hosts_are_in_the_inventory_with_the_way_to_them(hosts: HostsInWorlds) -> None:
    hosts.away.add("hinton")
    found = read_inventory(hosts.fleet())
    assert list(found.hosts) == ["c000", "c001"]
    assert {host.gpuprov_through for host in found.hosts.values()} == {"hoff"}
    assert found.hosts["c000"].ansible_connection == "gpuprov.cluster.gpuprov"
    assert found.groups["cluster_lab"] == ("c000", "c001")
    assert any(group.startswith("gpu_simulated") for group in found.groups)
    (warning,) = found.warnings
    assert "without the nodes of a host: hinton is unreachable since" in warning
    document = {
        "schema": "gpuprov.inventory/v1",
        "version": 1,
        "host": {**write(found.hosts["c000"]), "gpuprov_engine": "lxd"},
    }
    assert validate(document)


def test_where_nothing_answers_it_fails(hosts: HostsInWorlds) -> None:
    hosts.away |= set(NAMES)
    with pytest.raises(HostNotReady):
        read_inventory(hosts.fleet())


def test_a_name_on_two_machines_is_left_out_with_a_warning(hosts: HostsInWorlds) -> None:
    found = read_inventory(hosts.fleet())
    assert found.hosts == {}
    assert found.warnings[0].startswith("the inventory omits c000: nodes of several machines")


def test_this_machine_as_one_of_its_hosts_is_not_another(hosts: HostsInWorlds) -> None:
    hosts.away.add("hinton")
    joined = read_inventory(hosts.fleet(hosts.worlds["hoff"].host))
    assert list(joined.hosts) == ["c000", "c001"]
    assert {node.gpuprov_through for node in joined.hosts.values()} == {""}
    assert not any("omits" in warning for warning in joined.warnings)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("gpuprov_image",), "{{ lookup('pipe', 'id') }}"),
        (("gpuprov_status",), "{% raw %}"),
        (("ansible_connection",), "local"),
        (("gpuprov_through",), "other"),
        (("gpuprov_address",), "$(id)"),
        (("gpuprov_engine",), "podman"),
        (("gpuprov_cluster",), "../../etc"),
        (("gpuprov_gpus", 0, "model"), "{{ x }}"),
        (("gpuprov_gpus", 0, "mig"), {"enabled": "{{ x }}"}),
        (("gpuprov_gpus", 0, "more"), 1),
    ],
)
def test_what_a_host_says_cannot_steer_ansible(hosts: HostsInWorlds, path: tuple[Any, ...], value: object) -> None:
    told = deepcopy(told_by(hosts))
    assert validate(told)
    assert read_told(told).hosts
    *way, last = path
    place = told["nodes"]["c000"]
    for key in way:
        place = place[key]
    place[last] = value
    with pytest.raises(HostNotReady, match="hoff gave an unexpected answer"):
        read_told(told)


@pytest.mark.parametrize("name", ["-x", "a b", "{{ x }}", "", "all/../x"])
def test_impossible_names_of_nodes_are_refused(name: str) -> None:
    told = {"schema": "gpuprov.host-inventory/v1", "version": 1, "nodes": {name: {}}, "warnings": []}
    with pytest.raises(HostNotReady):
        read_told(told)
    assert read_told({**told, "nodes": {}}) == Inventory(hosts={})


class Node:
    """Answers `run` as a node with files does."""

    def __init__(self, hosts: HostsInWorlds, monkeypatch: pytest.MonkeyPatch) -> None:
        self.files: dict[str, bytes] = {}
        self.asked: list[tuple[str, list[str], dict[str, str], bytes]] = []
        monkeypatch.setattr(DriverTransport, "run", lambda _, *asked: self.run(*asked))
        self.transport = RemoteTransport(machine=hosts.machines["hoff"], engine="lxd", hosts=hosts)

    def run(self, name: str, argv: list[str], environment: dict[str, str], stdin: bytes) -> tuple[int, bytes, bytes]:
        self.asked.append((name, argv, environment, stdin))
        match argv:
            case ["sh", "-c", script, "sh", path] if script.startswith("umask"):
                self.files[path] = b""
            case ["sh", "-c", 'cat >> "$1"', "sh", path]:
                self.files[path] += stdin
            case ["mv", "-f", "--", part, path]:
                self.files[path] = self.files.pop(part)
            case ["sh", "-c", _, "sh", path, start, size]:
                if path not in self.files:
                    return 1, b"", b"no such file"
                at = int(start) - 1
                piece = self.files[path][at : at + int(size)]
                return 0, base64.b64encode(piece), b""
            case _:
                return 3, b"out", b"err"
        return 0, b"", b""


@pytest.fixture
def node(hosts: HostsInWorlds, monkeypatch: pytest.MonkeyPatch) -> Node:
    return Node(hosts, monkeypatch)


def test_a_command_has_its_streams_and_status(node: Node) -> None:
    assert node.transport.run("c000", ["/bin/sh", "-c", "x"], {"A": "b=c"}, b"in\0") == (3, b"out", b"err")
    assert node.asked == [("c000", ["/bin/sh", "-c", "x"], {"A": "b=c"}, b"in\0")]


@pytest.mark.parametrize("size", [0, 10, 2_000_000, 2_000_001, 4_500_000])
def test_files_of_any_size_go_in_pieces_and_come_back(node: Node, size: int) -> None:
    content = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    node.transport.put("c000", "/root/file", content)
    assert node.files == {"/root/file": content}
    assert max(len(stdin) for *_, stdin in node.asked) <= 2_000_000
    assert node.transport.get("c000", "/root/file") == content


def test_a_file_that_is_missing_or_too_large_is_refused(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EngineError, match="cannot move the file /no of c000 on hoff"):
        node.transport.get("c000", "/no")
    node.files["/large"] = b"x" * 4_100_000
    monkeypatch.setattr(remote_transport, "MOST_FETCHED_BYTES", 1_000_000)
    with pytest.raises(EngineError, match="too large"):
        node.transport.get("c000", "/large")


def test_a_host_that_is_away_is_said_to_be(hosts: HostsInWorlds, node: Node) -> None:
    hosts.away.add("hoff")
    with pytest.raises(HostNotReady, match="hoff is unreachable since"):
        node.transport.run("c000", ["true"], {}, b"")


def test_the_nodes_of_one_cluster_are_those_of_this_machine_alone_if_it_is_here(hosts: HostsInWorlds) -> None:
    hosts.asked.clear()
    found = read_inventory(hosts.fleet(hosts.worlds["hoff"].host), "lab")
    assert list(found.hosts) == ["c000", "c001"], "and not left out because hinton has a cluster lab too"
    assert (found.warnings, hosts.asked) == ((), [])
    assert set(found.groups) >= {"cluster_lab", "role_slurm"}


def test_of_other_hosts_only_the_nodes_of_that_cluster_are_taken(hosts: HostsInWorlds) -> None:
    hosts.away.add("hinton")
    for cluster, nodes in (("lab", ["c000", "c001"]), ("two", [])):
        found = read_inventory(hosts.fleet(), cluster)
        assert list(found.hosts) == nodes
        assert all(name in ("c000", "c001") for names in found.groups.values() for name in names)
    assert found.warnings[-1].startswith("no cluster two with nodes is found")
    assert "--all-clusters" in found.warnings[-1]


def test_a_cluster_on_two_engines_is_not_guessed(hosts: HostsInWorlds) -> None:
    doors = [
        replace(hosts.worlds[name].host.engines[0], name=engine)
        for name, engine in zip(NAMES, ("lxd", "docker"), strict=True)
    ]
    hosts.controller.engines = tuple(doors)
    with pytest.raises(UsageError) as refused:
        read_inventory(replace(hosts.fleet(), others={}), "lab")
    assert refused.value.what == "lxd and docker each have a cluster lab"
    assert "--all-clusters --limit 'cluster_lab:&engine_lxd'" in refused.value.fix
