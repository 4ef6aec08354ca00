from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

import click
import pytest

from gpuprov.cli import verbs
from gpuprov.cli.main import main
from gpuprov.core.errors import HostNotReady
from gpuprov.machine.survey import EngineDoor
from tests.fakes.forked_programs import ForkedPrograms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from tests.fakes.world import World

MODULE = "gpuprov_test_verb"


@pytest.fixture(autouse=True)
def own_logs(logs: Path) -> None:
    """Runs of a test write no logs elsewhere."""


@pytest.fixture
def verb(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[..., Any]], None]:
    """Adds a verb `try` that calls the given function with the session."""

    def add(function: Callable[..., Any]) -> None:
        module = ModuleType(MODULE)
        module.command = click.command()(click.pass_obj(function))  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, MODULE, module)
        monkeypatch.setitem(verbs.VERBS, "try", verbs.Verb(MODULE, "A verb of this test."))

    return add


class Typed:
    """What is typed, and what there is."""

    def __init__(self, world: World) -> None:
        self.world = world

    def __call__(self, argv: Sequence[str], capsys: pytest.CaptureFixture[str], *, codes: Sequence[int] = (0,)) -> str:
        capsys.readouterr()
        code = main(argv, host=self.world.host)
        said = capsys.readouterr()
        assert code in codes, f"{argv}: {said.err}"
        return said.out


@pytest.fixture
def typed(world: World) -> Typed:
    """A machine whose one engine is the fake one, with a cluster."""

    def connect(engine: str) -> Any:
        if engine != "lxd":
            raise HostNotReady(f"{engine} is not here", evidence="e", fix="f")
        driver = world.driver
        driver.name = engine  # which a recorded spec names
        return driver

    world.host.engines = (EngineDoor(name="lxd", open=lambda: connect("lxd"), installed=lambda: True),)
    return Typed(world)


@pytest.fixture(scope="session")
def programs(bare_python: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkedPrograms]:
    """What nodes run of `gpuwork`."""
    made = ForkedPrograms(bare_python, tmp_path_factory.mktemp("programs"))
    yield made
    made.finish()


@pytest.fixture(scope="session")
def equipped_programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkedPrograms]:
    """The same with the packages of the tests: numba and Dask among them."""
    made = ForkedPrograms(sys.executable, tmp_path_factory.mktemp("equipped"))
    yield made
    made.finish()
