"""Ansible's way to the nodes of other hosts: what they are, and into them."""

from __future__ import annotations

import os
import subprocess
from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.cluster import transport
from gpuprov.cluster.nodes_elsewhere import NodesElsewhere
from gpuprov.cluster.transport import DriverTransport
from gpuprov.core.errors import EngineError, HostNotReady, UsageError
from gpuprov.core.reporter import Silent
from gpuprov.drivers import node_files
from gpuprov.drivers.base import ExecResult, Unreadable
from gpuprov.drivers.calls import Output
from gpuprov.drivers.node_files import PIECE_BYTES
from gpuprov.fleet.questions.inventory import INVENTORY
from gpuprov.lifecycle.inventory import Inventory, join_inventories
from gpuprov.link.answers import read_answer
from gpuprov.shapes.base import write
from gpuprov.shapes.inventory import HostInventory
from gpuprov.shapes.orders import InventoryOrder
from gpuprov.stories.inventory import read_inventory
from tests.fakes.hosts_in_worlds import HostsInWorlds
from tests.schemas import validate

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Recording
    from tests.fakes.engine import Command

    Monkey = pytest.MonkeyPatch

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
    """c000 of hoff as Ansible reaches it: its commands run here, and its files are below a folder."""

    def __init__(self, hosts: HostsInWorlds, folder: Path) -> None:
        self.hosts, self.folder = hosts, folder
        self.engine = hosts.worlds["hoff"].engine
        self.commands: list[Command] = []
        self.engine.answer = self._run
        driver = NodesElsewhere.as_driver(hosts, hosts.machines["hoff"], "", "lxd")
        self.transport = DriverTransport(driver, hosts.close)
        hosts.asked.clear()

    def _run(self, command: Command) -> ExecResult:
        self.commands.append(command)
        ran = subprocess.run(
            command.argv,
            input=command.stdin,
            env={**os.environ, **command.environment},
            capture_output=True,
            check=False,
        )
        return Output(exit_code=ran.returncode, stdout=ran.stdout, stderr=ran.stderr).text()

    @property
    def asked(self) -> list[str]:
        """The round trips since the last look."""
        verbs = [verb for _, verb in self.hosts.asked]
        self.hosts.asked.clear()
        return verbs


@pytest.fixture
def node(hosts: HostsInWorlds, tmp_path: Path) -> Node:
    folder = tmp_path / "node"
    folder.mkdir()
    return Node(hosts, folder)


def test_a_command_has_its_streams_and_status_in_one_round_trip(node: Node) -> None:
    line = 'cat; printf "%s" "$A" >&2; exit 3'
    told = node.transport.run("c000", ["/bin/sh", "-c", line], {"A": "b=c"}, "in\0é\n".encode())
    assert told == (3, "in\0é\n".encode(), b"b=c")
    assert node.transport.run("c000", ["printf", "\\377"], {}, b"")[1] == "\ufffd".encode(), "as on this machine"
    assert [command.timeout_s for command in node.commands] == [None, None], "a play's commands take as long as they do"
    assert node.asked == ["node-run", "node-run"], "and nobody lists the nodes"


@pytest.mark.parametrize("size", [0, 10, PIECE_BYTES, 2 * PIECE_BYTES + 10])
def test_files_come_back_as_they_are(node: Node, size: int) -> None:
    content = bytes(range(256)) * (size // 256) + b"\n" * (size % 256)
    file = node.folder / "file"
    file.write_bytes(content)
    assert node.transport.get("c000", str(file)) == content
    assert node.asked == ["node-run"] * (size // PIECE_BYTES + 1)


@pytest.mark.parametrize("size", [0, 10, PIECE_BYTES])
def test_a_file_is_put_whole_and_private_in_one_round_trip(node: Node, size: int, monkeypatch: Monkey) -> None:
    content, file = os.urandom(size), node.folder / "it's a file"
    file.write_text("before")
    node.transport.put("c000", str(file), content)
    assert (file.read_bytes(), file.stat().st_mode & 0o777) == (content, 0o600)
    assert node.asked == ["node-run"]
    monkeypatch.setattr(node_files, "_WRITE", ("sh", "-c", f"head -c 3 >'{file}.gpuprov'; exit 1".replace("'s", "s")))
    with pytest.raises(EngineError, match="cannot write"):
        node.transport.put("c000", str(file), content + b"more")
    assert file.read_bytes() == content, "and not a part of the other one"
    assert [path.name for path in node.folder.iterdir() if not path.name.endswith(".gpuprov")] == ["it's a file"]


def test_a_large_file_is_put_as_a_tree_which_is_there_once_it_is_whole(node: Node) -> None:
    content = bytes(2 * PIECE_BYTES + 1)
    node.transport.put("c000", "/root/large", content)
    assert node.asked == ["write_tree"]
    put = node.engine.nodes["c000"].files["/root/large"]
    assert (put.content, put.mode) == (content, 0o600)


def test_a_file_that_is_missing_odd_or_too_large_is_refused(node: Node, monkeypatch: Monkey) -> None:
    with pytest.raises(Unreadable, match="c000 has no file /no"):
        node.transport.get("c000", "/no")
    with pytest.raises(Unreadable, match="is not a file"):
        node.transport.get("c000", str(node.folder))
    file = node.folder / "large"
    file.write_bytes(bytes(PIECE_BYTES + 10))
    monkeypatch.setattr(transport, "MOST_FETCHED_BYTES", PIECE_BYTES + 9)
    with pytest.raises(Unreadable, match="too large"):
        node.transport.get("c000", str(file))


def test_a_host_that_is_away_is_said_to_be(hosts: HostsInWorlds, node: Node) -> None:
    hosts.away.add("hoff")
    with pytest.raises(HostNotReady, match="hoff is unreachable since"):
        node.transport.run("c000", ["true"], {}, b"")


def test_what_is_kept_of_the_host_is_let_go_of(hosts: HostsInWorlds, monkeypatch: Monkey) -> None:
    closed: list[bool] = []
    monkeypatch.setattr(HostsInWorlds, "close", lambda _: closed.append(True))
    Node(hosts, hosts.controller.folder).transport.close()
    assert closed == [True]


def test_the_nodes_of_one_cluster_are_those_of_this_machine_alone_if_it_is_here(hosts: HostsInWorlds) -> None:
    hosts.asked.clear()
    found = read_inventory(hosts.fleet(hosts.worlds["hoff"].host), "lab")
    assert list(found.hosts) == ["c000", "c001"], "and not left out because hinton has a cluster lab too"
    assert (found.warnings, hosts.asked) == ((), [])
    assert set(found.groups) >= {"cluster_lab", "role_slurm"}


class Tagged(str):
    """A string as Ansible has it of an option: of a kind of its own."""

    __slots__ = ()


def test_of_other_hosts_only_the_nodes_of_that_cluster_are_taken(hosts: HostsInWorlds) -> None:
    hosts.away.add("hinton")
    for cluster, nodes in ((Tagged("lab"), ["c000", "c001"]), (Tagged("two"), [])):
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
