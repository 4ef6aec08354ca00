"""Nodes of both engines as Ansible's hosts: inventory, connection, modules and `play`."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.ansible_tools import ROOT, ansible, plain, write_inventory
from tests.e2e.places import PLACES, sweep

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.conftest import Finished, Gpuprov
    from tests.e2e.places import Place

PLAYS = Path(__file__).parent / "data" / "ansible"
DYNAMIC = "inventories/gpuprov.yml"
DOCKER = PLACES["ansible_docker"]
HELD = "GPUPROV_PLAY"  # in the environment of every process of a play


@pytest.fixture(scope="module", autouse=True)
def nodes(gpuprov: Gpuprov, place: Place) -> Iterator[list[str]]:
    """Two on LXD and one on Docker."""
    sweep(DOCKER)
    for where, engine, count in ((place, "lxd", 2), (DOCKER, "docker", 1)):
        path = gpuprov.folder / f"{where.cluster}.yaml"
        path.write_text(where.spec(count=count, engine=engine))
        gpuprov("cluster", "up", "-f", str(path), "--no-verify")
    yield [place.node(0), place.node(1), DOCKER.node(0)]
    gpuprov("cluster", "down", DOCKER.cluster, "--yes")
    gpuprov("cluster", "down", place.cluster, "--yes")
    sweep(DOCKER)


@pytest.fixture
def tried(tmp_path: Path, nodes: list[str]) -> str:
    """An inventory file that names our nodes `tried`; this machine may have others."""
    return write_inventory(tmp_path, nodes)


def play(gpuprov: Gpuprov, *argv: str, expect: int = 0) -> Finished:
    finished = gpuprov("--json", "play", *argv, expect=expect)
    assert finished.document["version"] == 1, "one document and nothing of Ansible's"
    return finished


def test_the_inventory_is_the_same_by_plugin_and_by_script(gpuprov: Gpuprov, nodes: list[str]) -> None:
    script = json.loads(gpuprov("inventory", "--list").stdout)
    plugin = json.loads(ansible(gpuprov, "ansible-inventory", "-i", DYNAMIC, "--list"))
    for name in nodes:
        found = script["_meta"]["hostvars"][name]
        assert (
            plain(plugin["_meta"]["hostvars"][name]) == found == json.loads(gpuprov("inventory", "--host", name).stdout)
        )
        (gpu,) = found["gpuprov_gpus"]
        always = {"uuid", "label", "index", "minor", "device", "model", "memory_bytes", "compute_capability"}
        assert always | {"pci", "mig"} == set(gpu)
        assert all(gpu[key] is not None for key in always)
        assert (found["gpuprov_role"], found["gpuprov_sharing"]) == ("slurm", "shared")
        assert found["gpuprov_simulated"] is True
        assert found["gpuprov_driver"]
    lxd, _, docker = (script["_meta"]["hostvars"][name] for name in nodes)
    assert (lxd["gpuprov_engine"], docker["gpuprov_engine"]) == ("lxd", "docker")
    assert docker["gpuprov_address"] == DOCKER.address(0, 2)
    assert docker["gpuprov_private_address"] == DOCKER.address(1, 1)
    assert script[f"cluster_{DOCKER.cluster}"] == {"hosts": [nodes[2]]}
    assert nodes[2] in script["engine_docker"]["hosts"]
    assert f"|--{nodes[0]}" in gpuprov("inventory", "--graph").stdout
    refused = gpuprov("inventory", "--host", "nobody", expect=2)
    assert "the inventory has no host nobody" in refused.stderr


def test_a_cached_inventory_needs_no_engine(gpuprov: Gpuprov, nodes: list[str], tmp_path: Path) -> None:
    path = tmp_path / "lab.gpuprov.yml"
    path.write_text(
        "plugin: gpuprov.cluster.gpuprov\ncache: true\ncache_plugin: ansible.builtin.jsonfile\n"
        f"cache_connection: {tmp_path}/cache\ncompose: {{held: gpuprov_gpus | length}}\n"
        "keyed_groups: [{prefix: is, key: gpuprov_status}]\n"
    )
    first = json.loads(ansible(gpuprov, "ansible-inventory", "-i", str(path), "--list"))
    nowhere = {"LXD_DIR": "/nonexistent", "INCUS_DIR": "/nonexistent", "DOCKER_HOST": "unix:///nonexistent"}
    again = json.loads(ansible(gpuprov, "ansible-inventory", "-i", str(path), "--list", variables=nowhere))
    assert again == first
    assert set(nodes) <= set(first["is_running"]["hosts"])
    assert first["_meta"]["hostvars"][nodes[0]]["held"] == 1


def test_the_example_runs_as_the_readme_says_and_a_second_time_changes_nothing(
    gpuprov: Gpuprov, nodes: list[str]
) -> None:
    limit = ("--limit", ",".join(nodes))
    site = str(ROOT / "site.yml")
    alone = play(gpuprov, site, "--cluster", DOCKER.cluster, "--check").document["play"]
    assert set(alone["hosts"]) == {nodes[2]}, "and not the other cluster, nor that of anybody else"
    would = play(gpuprov, site, "--all-clusters", *limit, "--check", "--diff")
    assert {host["status"] for host in would.document["play"]["hosts"].values()} == {"changed"}
    assert "SIMULATED" in would.document["play"]["changes"][0]["diff"]
    ansible(gpuprov, "ansible-playbook", "-i", DYNAMIC, "site.yml", *limit)
    again = play(gpuprov, site, "--all-clusters", *limit).document["play"]
    assert {name: host["status"] for name, host in again["hosts"].items()} == dict.fromkeys(nodes, "ok")
    assert (again["changes"], again["log"]) == ([], None)


def test_the_connection_runs_puts_fetches_becomes_and_waits(
    gpuprov: Gpuprov, nodes: list[str], tried: str, tmp_path: Path
) -> None:
    content = os.urandom(1_000_000)
    (tmp_path / "big").write_bytes(content)
    ansible(gpuprov, "ansible-playbook", "-i", tried, str(PLAYS / "connection.yml"), "-e", f"here={tmp_path}")
    for name in nodes:
        assert (tmp_path / name).read_bytes() == content
        kept = gpuprov("exec", name, "--", "ls", "/var/cache/gpuprov-python").stdout
        assert kept.count("ansible.modules.ping.") == kept.count("ansible.module_utils.basic.") == 1


def test_ssh_works_too(gpuprov: Gpuprov, nodes: list[str]) -> None:
    over = ("-e", "ansible_connection=ssh", "-m", "ansible.builtin.ping")
    assert ansible(gpuprov, "ansible", "-i", DYNAMIC, *over, ",".join(nodes)).count("pong") == len(nodes)


def test_modules_change_once_and_a_node_that_vanishes_is_named_while_others_go_on(
    gpuprov: Gpuprov, place: Place, nodes: list[str], tmp_path: Path
) -> None:
    node = f"{place.mark}x"
    variables = ("-e", f"node={node}", "-e", f"cluster={place.cluster}")
    ansible(gpuprov, "ansible-playbook", str(PLAYS / "modules.yml"), *variables)
    tried = write_inventory(tmp_path, [nodes[0], node, nodes[2]])
    ended = play(gpuprov, str(PLAYS / "vanish.yml"), "-i", tried, "--limit", "tried,nobody", *variables, expect=5)
    hosts = ended.document["play"]["hosts"]
    assert {name: host["status"] for name, host in hosts.items()} == {
        nodes[0]: "changed",
        node: "unreachable",
        nodes[2]: "ok",
    }
    assert f"there is no node {node}" in hosts[node]["message"]
    assert ended.document["error"]["what"] == f"1 of 3 hosts failed: {node}"
    assert "gpuprov list" in ended.document["error"]["fix"]
    assert "Could not match supplied host pattern, ignoring: nobody" in ended.stderr
    assert "fix: gpuprov inventory --graph" in ended.stderr
    shutil.rmtree(Path(ended.document["play"]["log"]).parents[2])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])  # SIGINT: tests/unit/provision/test_site.py
def test_a_play_that_is_cancelled_leaves_no_process_and_no_folder(
    gpuprov: Gpuprov, tried: str, tmp_path: Path, number: signal.Signals
) -> None:
    book = tmp_path / "wait.yml"
    begun = tmp_path / "begun"
    book.write_text(
        "- name: Wait\n  hosts: tried\n  gather_facts: false\n  tasks:\n"
        f"    - ansible.builtin.file: {{path: '{begun}-{{{{ inventory_hostname }}}}', state: touch, mode: '0600'}}\n"
        "      delegate_to: localhost\n"
        "    - ansible.builtin.command: sleep 20\n"
    )
    process = gpuprov.start("play", str(book), "-i", tried, variables={"TMPDIR": str(tmp_path)})
    deadline = time.monotonic() + 60
    while len(list(tmp_path.glob("begun-*"))) < 3 and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(1)
    process.send_signal(number)
    process.communicate(timeout=30)
    assert process.returncode == 130
    assert held(tmp_path) == []
    assert list(tmp_path.glob("gpuprov-play-*")) == []


def held(folder: Path) -> list[str]:
    """Processes of a play whose private folder is in that one."""
    mark = f"{HELD}={folder}".encode()
    return [path.parent.name for path in Path("/proc").glob("[0-9]*/environ") if mark in environment_of(path)]


def environment_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        (("nowhere.yml",), 2, ("there is no playbook nowhere.yml", "fix: ")),
        (("{site}", "--limit", "nobody"), 5, ("ignoring: nobody", "fix: gpuprov inventory --graph")),
        (("{site}", "-i", "/nonexistent"), 5, ("Unable to parse /nonexistent", "fix: ansible-inventory -i")),
        (("{site}", "-i", "{twice}"), 5, ("duplicate mapping key", "fix: ansible-inventory -i")),
    ],
)
def test_what_cannot_be_played_is_an_error_in_three_parts(
    gpuprov: Gpuprov, tmp_path: Path, argv: tuple[str, ...], code: int, said: tuple[str, ...]
) -> None:
    twice = tmp_path / "twice.yml"
    twice.write_text("all:\n  hosts:\n    a: {ansible_connection: local}\n    a: {}\n")
    filled = [part.format(site=ROOT / "site.yml", twice=twice) for part in argv]
    refused = gpuprov("play", *filled, expect=code, variables={"TMPDIR": str(tmp_path)})
    assert all(part in refused.stderr for part in said), refused.all


def test_ansible_doc_shows_the_collection(gpuprov: Gpuprov) -> None:
    listed = ansible(gpuprov, "ansible-doc", "-l", "gpuprov.cluster")
    assert all(f"gpuprov.cluster.{name}" in listed for name in ("cluster", "gpus", "image", "node", "verify"))
    shown: dict[str, Any] = json.loads(ansible(gpuprov, "ansible-doc", "--json", "gpuprov.cluster.node"))
    assert "sharing" in shown["gpuprov.cluster.node"]["doc"]["options"]
    assert set(shown["gpuprov.cluster.node"]["return"]) == {"changes", "node"}
    for kind in ("inventory", "connection"):
        assert "gpuprov" in ansible(gpuprov, "ansible-doc", "-t", kind, "gpuprov.cluster.gpuprov")
