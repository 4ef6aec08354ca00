"""Copies that an administrator makes of a node, and nodes that are renamed, with LXD's own client."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.conftest import lxd
from tests.e2e.test_refusals import has_three_parts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.e2e.conftest import Gpuprov
    from tests.e2e.places import Place


@pytest.fixture(scope="module")
def up(gpuprov: Gpuprov, place: Place, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """Two plain nodes, and what is typed to have them."""
    path: Path = tmp_path_factory.mktemp("spec") / "spec.yaml"
    path.write_text(place.spec(nodes="role: plain"))
    command = ("cluster", "up", "-f", str(path), "--no-verify")
    gpuprov(*command)
    return command


@pytest.fixture(scope="module")
def backup(place: Place, up: tuple[str, ...], lxc: Callable[..., str]) -> Iterator[str]:  # noqa: ARG001 - the node
    """A copy of the second node; whatever happens to the cluster, its configuration stays."""
    name = f"{place.mark}-backup"
    lxc("copy", place.node(1), name)
    before = _labels(name)
    yield name
    assert _labels(name) == before
    lxc("delete", "--force", name)


def _labels(name: str) -> dict[str, str]:
    config = lxd(f"instances/{name}")["config"]
    return {key: text for key, text in config.items() if not key.startswith("volatile.")}


def test_a_copy_is_told_and_not_counted(gpuprov: Gpuprov, place: Place, up: tuple[str, ...], backup: str) -> None:
    assert gpuprov.json(*up)["unchanged"] is True
    words = f"a copy of {place.node(1)}"
    assert f"({words})" in gpuprov("list").stdout
    assert f"{backup} is {words}" in gpuprov("cluster", "status", place.cluster).stderr
    rows = {row["name"]: row for row in gpuprov.json("list")["nodes"]}
    assert (rows[backup]["cluster"], rows[backup]["gpus"]) == ("(foreign)", [])
    for argv in (("rm", backup), ("start", backup), ("stop", backup), ("exec", backup, "--", "true")):
        refused = gpuprov(*argv, expect=2)
        has_three_parts(refused)
        assert words in refused.stderr
        assert f"lxc rename {backup} {place.node(1)}" in refused.stderr


def test_no_two_run_with_one_address(
    gpuprov: Gpuprov, place: Place, up: tuple[str, ...], backup: str, lxc: Callable[..., str]
) -> None:
    node = place.node(1)
    gpuprov("stop", node)
    refused = gpuprov("start", node, expect=4)
    assert f"{node} cannot start: {backup} has its MAC address" in refused.stderr
    for command in refused.stderr.partition("fix: ")[2].splitlines()[0].split("; "):
        assert command.startswith(f"lxc config device unset {backup} eth")
        lxc(*command.split()[1:])
    gpuprov("start", node)
    gpuprov("stop", node)
    lxc("start", backup)
    for argv in (("start", node), up):
        refused = gpuprov(*argv, expect=2)
        has_three_parts(refused)
        assert f"{node} cannot start: its address {place.address(0, 3)} is in use" in refused.stderr
        assert f"fix: lxc stop {backup}" in refused.stderr
    (told,) = gpuprov.json("gpus")["foreign"]
    assert (told["node"], told["copy_of"]) == (backup, node)
    lxc("stop", "--force", backup)
    assert gpuprov.json(*up)["changed"][0] == f"start node {node}"


def test_a_renamed_node_comes_back_by_the_command_that_is_named(
    gpuprov: Gpuprov, place: Place, up: tuple[str, ...], lxc: Callable[..., str]
) -> None:
    node, other = place.node(0), f"{place.mark}-renamed"
    gpuprov("stop", node)
    lxc("rename", node, other)
    refused = gpuprov("start", node, expect=2)
    assert f"{other} is a copy of {node}" in refused.stderr
    command = refused.stderr.partition("renamed: ")[2].split()
    assert command == ["lxc", "rename", other, node]
    lxc(*command[1:])
    assert gpuprov.json(*up)["changed"][0] == f"start node {node}"


def test_a_copy_in_the_place_of_its_node_becomes_it_by_the_command_that_is_named(
    gpuprov: Gpuprov, place: Place, up: tuple[str, ...], backup: str, lxc: Callable[..., str]
) -> None:
    node = place.node(1)
    lxc("delete", "--force", node)
    lxc("copy", backup, node)
    refused = gpuprov("start", node, expect=2)
    assert f"{node} in lxd is a copy of {node}" in refused.stderr
    command = refused.stderr.partition("replaces the node: ")[2].split()
    assert command == ["lxc", "config", "set", node, f"user.gpuprov.self={node}"]
    lxc(*command[1:])
    assert f"start node {node}" in gpuprov.json(*up)["changed"]
    assert gpuprov.in_node(node, "hostname").strip() == node


def test_down_leaves_the_copy_and_its_networks(
    gpuprov: Gpuprov, place: Place, up: tuple[str, ...], backup: str, lxc: Callable[..., str]
) -> None:
    down = gpuprov("cluster", "down", place.cluster, "--yes")
    assert f"kept the network {place.mark}0: in use by {backup}" in down.stderr
    assert lxc("list", "--format", "csv", "--columns", "n", place.mark).split() == [backup]
    assert gpuprov("cluster", "down", place.cluster, "--yes").stdout == "unchanged\n"
    assert gpuprov.json(*up)["unchanged"] is False
