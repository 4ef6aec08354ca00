"""Every verb that only reads, beside a `cluster down` that comes in between any two of its questions to the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuprov.cli.main import main
from tests.twice import TWICE

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fakes.world import World
    from tests.unit.cli.conftest import Typed

READING = [verb for verb, twice in TWICE.items() if twice.kind == "reads" and "fake" in twice.where]
ABOUT_A_NODE = ("show", "logs")


def vanish(world: World) -> None:
    world.empty()


def stop(world: World) -> None:
    for node in world.engine.nodes.values():
        node.status = "stopped"


@pytest.mark.parametrize("happens", [vanish, stop])
@pytest.mark.parametrize("verb", READING)
def test_it_says_what_there_is_or_that_it_went_away(
    verb: str, happens: Callable[[World], None], typed: Typed, capsys: pytest.CaptureFixture[str]
) -> None:
    world = typed.world
    for nth in range(1, 100):
        world.empty()
        world.engine.faults.clear()
        world.begin_with(2)
        world.engine.faults.clear()
        struck: list[int] = []

        def strike(struck: list[int] = struck) -> None:
            struck.append(1)
            happens(world)

        world.engine.faults.at(nth=nth, act=strike)
        capsys.readouterr()
        code = main(TWICE[verb].with_names({"cluster": "lab", "p": "c"}).argv, host=world.host)
        said = capsys.readouterr()
        assert not any(words in said.err for words in ("could not", "unexpected", "does not run", "munge")), said.err
        if verb in ABOUT_A_NODE and happens is vanish:
            assert code in (0, 2, 4)
            assert not code or "there is no node c000" in said.err
        elif verb in ("cluster status", "cluster spec", "person list") and happens is vanish:
            assert code in (0, 2)
            assert not code or "there is no cluster lab" in said.err
        else:
            assert code == 0, said.err
        if not struck:
            return
    pytest.fail("it asks the engine without end")
