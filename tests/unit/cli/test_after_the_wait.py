"""What a verb found before it waited for another run is found again after it."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from gpuprov.cli.main import main
from gpuprov.shapes.base import changed
from gpuprov.shapes.cluster_spec import NodesSpec
from tests.fakes.doors import door_of
from tests.fakes.driver import FakeDriver
from tests.fakes.engine import FakeEngine
from tests.unit.cli.module_stage import act

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpuprov.core.reporter import Reporter
    from tests.fakes.world import World

VERBS = {
    "start": ["c000"],
    "stop": ["c000"],
    "rm": ["c000"],
    "snapshot": ["c000", "s"],
    "restore": ["c000", "kept"],
    "clone": ["c001", "web"],
    "create-node": ["web", "--gpus", "0"],
    "cluster down": ["--yes"],
    "cluster up": ["-n", "1", "--no-verify"],
    "image rm": ["gpuprov-image-worker"],
}


class Place:
    """LXD, Docker, and what happens while a verb waits for the lock."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.lxd, self.docker = world.engine, FakeEngine(answer=world.engine.answer)
        self.meanwhile: list[Callable[[], object]] = []
        drivers = [FakeDriver(self.lxd), FakeDriver(self.docker)]
        for driver, name in zip(drivers, ("lxd", "docker"), strict=True):
            driver.name = name
        world.host.engines = tuple(map(door_of, drivers))

    def move(self) -> None:
        """All that LXD has is Docker's."""
        for name in ("nodes", "networks", "images"):
            getattr(self.docker, name).update(getattr(self.lxd, name))
            getattr(self.lxd, name).clear()

    @contextmanager
    def lock(self, _reporter: Reporter, **_where: object) -> Iterator[bool]:
        waited = bool(self.meanwhile)
        if waited:
            self.meanwhile.pop()()
        yield waited


@pytest.fixture
def place(world: World, monkeypatch: pytest.MonkeyPatch) -> Place:
    place = Place(world)
    monkeypatch.setattr("tests.fakes.host.host_lock", place.lock)
    for name in ("plain", "slurm"):
        place.docker.images[name] = place.lxd.images[name]
    world.up(spec=changed(world.spec(2), nodes=NodesSpec(count=2, role="plain")))
    for node in place.lxd.nodes.values():
        node.snapshots["kept"] = {"files": {}}
    assert main(["-q", "stop", "c001"], host=world.host) == 0
    place.lxd.images["worker"] = replace(place.lxd.images["plain"], id="worker", name="gpuprov-image-worker")
    return place


@pytest.mark.parametrize("verb", VERBS)
def test_what_has_come_to_another_engine_is_found_there(
    place: Place, verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    place.meanwhile.append(place.move)
    capsys.readouterr()
    code = main([*verb.split(), *VERBS[verb], "--json"], host=place.world.host)
    said = capsys.readouterr()
    assert code == 0, said.err
    assert json.loads(said.out)["unchanged"] == (verb == "start")
    assert not place.lxd.nodes
    assert not place.lxd.networks


@pytest.mark.parametrize("maker", ["lxd", "docker"])
@pytest.mark.parametrize("verb", ["start", "stop", "rm", "snapshot", "restore"])
def test_what_was_nowhere_is_found_once_it_is_made(
    place: Place, verb: str, maker: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """`stop c000` behind its own `create-node c000 --engine docker`."""
    made, kept = getattr(place, maker), dict(place.lxd.nodes)
    place.lxd.nodes.clear()
    place.meanwhile.append(lambda: made.nodes.update(kept))
    capsys.readouterr()
    code = main([verb, *VERBS[verb], "--json"], host=place.world.host)
    said = capsys.readouterr()
    assert code == 0, said.err
    assert json.loads(said.out)["unchanged"] == (verb == "start")


@pytest.mark.parametrize("verb", ["stop", "rm", "restore"])
def test_what_was_nowhere_is_found_with_drain(place: Place, verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    kept = dict(place.lxd.nodes)
    place.lxd.nodes.clear()
    place.meanwhile.append(lambda: place.lxd.nodes.update(kept))
    assert main([verb, *VERBS[verb], "--drain"], host=place.world.host) == 0, capsys.readouterr().err


def test_a_clone_waits_for_its_source(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    source = place.lxd.nodes.pop("c001")
    place.meanwhile.append(lambda: place.lxd.nodes.update(c001=source))
    assert main(["clone", "c001", "web"], host=place.world.host) == 0, capsys.readouterr().err
    assert "web" in place.lxd.nodes


def test_a_source_that_another_run_has_started_is_not_cloned(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.meanwhile.append(lambda: place.world.driver.start_node("c001"))
    assert main(["clone", "c001", "web"], host=place.world.host) != 0
    assert "c001 is running; a copy could contain half-written files" in capsys.readouterr().err
    assert "web" not in place.lxd.nodes


def up_with_three(place: Place) -> None:
    """Another run's."""
    spec = changed(place.world.spec(3), engine="lxd", nodes=NodesSpec(count=3, role="plain"))
    place.world.up(spec=spec)


def test_a_spec_that_another_run_has_recorded_counts(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.meanwhile.append(lambda: up_with_three(place))
    capsys.readouterr()
    assert main(["cluster", "up", "--no-verify", "--json"], host=place.world.host) == 0
    said = json.loads(capsys.readouterr().out)
    assert [node["name"] for node in said["nodes"]] == ["c000", "c001", "c002"]
    assert not [line for line in said["changed"] if line.startswith("remove")]


def test_it_counts_for_the_module_too(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuprov.machine.local.LocalHost", lambda: place.world.host)
    place.meanwhile.append(lambda: up_with_three(place))
    said = act("cluster", gpus_per_node=1)
    assert [node["name"] for node in said["nodes"]] == ["c000", "c001", "c002"]
    assert not [line for line in said["changes"] if line.startswith("remove")]


@pytest.mark.parametrize(("state", "nodes"), [("present", ["c000", "c001"]), ("absent", [])])
def test_the_module_finds_a_cluster_that_has_come_to_another_engine(
    place: Place, state: str, nodes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuprov.machine.local.LocalHost", lambda: place.world.host)
    place.meanwhile.append(place.move)
    assert act("cluster", state=state)["changed"]
    assert not place.lxd.nodes
    assert sorted(place.docker.nodes) == nodes


def test_the_module_removes_an_image_that_has_come_to_another_engine(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuprov.machine.local.LocalHost", lambda: place.world.host)
    place.meanwhile.append(place.move)
    assert act("image", state="absent", name="gpuprov-image-worker")["changes"] == [
        "removed image gpuprov-image-worker"
    ]
    assert "worker" not in {**place.lxd.images, **place.docker.images}
    assert act("image", state="absent", name="gpuprov-image-worker")["changes"] == []


@pytest.mark.parametrize(
    "words",
    ["exec c009 true", "shell c009", "show c009", "logs c009", "start c009", "stop c000 c009", "clone c009 web"],
)
def test_where_nobody_has_a_node_those_of_all_engines_are_named(
    place: Place, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if "c000" not in words:
        place.move()
    capsys.readouterr()
    assert main(words.split(), host=place.world.host) == 2
    said = capsys.readouterr().err
    assert "there is no node c009" in said
    assert f"nodes in {'lxd' if 'c000' in words else 'docker'}: c[000-001]" in said
