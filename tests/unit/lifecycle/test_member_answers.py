"""What another host answers is read back as it was, and nothing that is wrong in it passes."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.cluster.gpu_board import look_at_gpus
from gpuprov.cluster.leases import Neighbours
from gpuprov.cluster.told_gpus import board_of
from gpuprov.core.errors import HostNotReady
from gpuprov.fleet.member.host_look import survey_host
from gpuprov.link.answers import read_answer
from gpuprov.machine.survey import EngineDoor
from gpuprov.shapes.base import changed, write
from gpuprov.shapes.engine import EngineCluster
from gpuprov.shapes.host import Host
from gpuprov.shapes.nodes import Nodes
from tests.schemas import validate

if TYPE_CHECKING:
    from tests.fakes.world import World


@pytest.fixture
def told(world: World) -> dict[str, Any]:
    world.begin_with(3)
    world.engine.cluster = EngineCluster(member="m1", members=("m1", "m2"), away=("m2",))

    def connect() -> Any:
        driver = world.driver
        driver.name = "lxd"
        return driver

    world.host.engines = (EngineDoor(name="lxd", open=connect, installed=lambda: True),)
    document: dict[str, Any] = write(survey_host(world.host))
    assert validate(document) == "gpuprov.host/v1"
    return document


def test_it_is_read_back_as_it_was(told: dict[str, Any], world: World) -> None:
    was, read = survey_host(world.host), read_answer(Host, told, "here")
    assert read == changed(was, clock_s=read.clock_s, disk_free_bytes=read.disk_free_bytes)
    assert read.gpus is not None
    board, before = board_of(read.gpus), look_at_gpus(world.gpus, Neighbours(world.host))
    assert board.leases == before.leases
    assert board.host.units == before.host.units
    assert board.rows == before.rows


def test_whatever_is_taken_away_or_of_another_kind_is_refused(told: dict[str, Any]) -> None:
    passed = []
    for path in paths_of(told):
        for spoil in (take_away, put_nonsense):
            spoilt = copy.deepcopy(told)
            spoil(spoilt, path)
            if path[0] == "limits" and spoil is take_away and len(path) > 1:
                continue  # any number of them may be told
            error = error_of(spoilt)
            if error is None:
                passed.append((spoil.__name__, path))
            else:
                assert error.what == "here gave an unexpected answer"
                assert error.fix.endswith("gpuprov host add here")
    assert passed == []
    assert len(paths_of(told)) > 70


def error_of(document: dict[str, Any]) -> HostNotReady | None:
    try:
        read_answer(Host, document, "here")
    except HostNotReady as error:
        return error
    return None


def paths_of(part: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every key, in every depth; of a list its first item stands for all."""
    if isinstance(part, dict):
        return [path for key in part for path in ((*above, key), *paths_of(part[key], (*above, key)))]
    return paths_of(part[0], (*above, 0)) if isinstance(part, list) and part else []


def take_away(document: Any, path: tuple[Any, ...]) -> None:
    *above, last = path
    for key in above:
        document = document[key]
    del document[last]


def put_nonsense(document: Any, path: tuple[Any, ...]) -> None:
    *above, last = path
    for key in above:
        document = document[key]
    document[last] = {"non": ["sense"]}


NODES = {"schema": "gpuprov.nodes/v1", "version": 1, "host": "h"}


def test_rows_and_lines_are_read_strictly() -> None:
    assert read_answer(Nodes, {**NODES, "nodes": []}, "h").nodes == ()
    wrong: dict[str, Any]
    for wrong in ({}, {"nodes": None}, {"nodes": [{}]}, {"nodes": {"a": 1}}):
        with pytest.raises(HostNotReady):
            read_answer(Nodes, {**NODES, **wrong}, "h")
