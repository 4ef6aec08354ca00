"""One engine hangs: verbs that ask all of them go on with the others, and say so."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click
import pytest

from gpuprov.cli import options
from gpuprov.cli.main import main
from gpuprov.cluster.find_engine import engine_of_cluster, engine_of_nodes, find_elsewhere
from gpuprov.core.errors import EngineError
from gpuprov.core.reporter import Silent
from gpuprov.machine import survey as module
from gpuprov.machine.local import LocalHost
from gpuprov.stories.inventory import read_inventory
from tests.conftest import Recording
from tests.fakes.doors import AnswersOfTheRest, HungEngine, door_of, door_without
from tests.fakes.host import fleet_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpuprov.machine.survey import EngineDoor
    from tests.fakes.world import World


class Place:
    """LXD with a cluster of two nodes, and Docker, which hangs."""

    def __init__(self, world: World) -> None:
        world.begin_with(2)
        lxd = world.driver
        lxd.name = "lxd"
        self.host = world.host
        self.docker = HungEngine("docker")
        self.doors: tuple[EngineDoor, ...] = (door_of(lxd), self.docker.door)


@pytest.fixture
def place(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    place = Place(world)
    world.host.engines = place.doors
    monkeypatch.setattr(LocalHost, "engines", place.doors)  # completion has no session
    monkeypatch.setattr(module, "SimpleQueue", AnswersOfTheRest)
    yield place
    assert place.docker.hangs  # nobody has waited for it
    place.docker.release()


def test_list_names_it_and_goes_on(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--json"], host=place.host) == 0
    said = capsys.readouterr()
    assert [node["name"] for node in json.loads(said.out)["nodes"]] == ["c000", "c001"]
    assert "docker is omitted: docker does not respond" in said.err
    assert main(["image", "list"], host=place.host) == 0
    assert "docker is omitted" in capsys.readouterr().err
    assert place.doors


def test_the_inventory_warns_in_three_parts(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inventory", "--list"], host=place.host) == 0
    said = capsys.readouterr()
    assert sorted(json.loads(said.out)["_meta"]["hostvars"]) == ["c000", "c001"]
    assert "the inventory is without the nodes of docker" in said.err
    (warning,) = read_inventory(fleet_of(place.host)).warnings
    assert [line.partition(":")[0] for line in warning.splitlines()[1:]] == ["evidence", "fix"]


def test_completion_offers_what_answers(place: Place) -> None:
    command = click.Command("rm")
    offered = options.complete_nodes(click.Context(command), click.Argument(["node"]), "c00")
    assert offered == ["c000", "c001"]
    assert place.doors


def test_a_verb_finds_its_engine_among_those_that_answer(place: Place) -> None:
    heard = Recording()
    assert engine_of_nodes(["c000"], place.doors, reporter=heard).name == "lxd"
    assert engine_of_cluster("lab", place.doors, reporter=heard).name == "lxd"
    told = [line.partition(": no")[0] for line in heard.lines]
    assert told == ["warn docker is omitted: docker does not respond"] * 2
    assert find_elsewhere("lab", place.doors, without="lxd") == (
        "docker may also have a cluster lab, but cannot be queried: docker does not respond",
    )


def test_what_nobody_else_has_may_be_on_it(place: Place) -> None:
    incus = door_of(place.doors[0].open())
    incus = type(incus)(name="incus", open=incus.open, installed=incus.installed)
    with pytest.raises(EngineError, match="no node c009 on the engines that respond") as caught:
        engine_of_nodes(["c009"], [door_without("lxd", installed=False), incus, place.docker.door], reporter=Silent())
    assert caught.value.evidence.startswith("incus; docker: docker does not respond: no response within")
