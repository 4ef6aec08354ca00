"""What the decorator of verbs does for each of them."""

from __future__ import annotations

import json
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

import click
import pytest

from gpuprov.cli import verbs
from gpuprov.cli.command import Answer, Result, command
from gpuprov.cli.engine import cluster_option, engine_option
from gpuprov.cli.main import main
from gpuprov.core.errors import HostNotReady
from gpuprov.core.outcome import Outcome
from gpuprov.fleet.done import Done
from gpuprov.shapes.jobs import Jobs

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuprov.cli.session import Session

MODULE = "gpuprov_test_command"
AWAY = HostNotReady("b does not answer", evidence="e", fix="f")


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[..., Answer]], Callable[..., int]]:
    """Makes a function a verb, and types it."""

    def make(act: Callable[..., Answer]) -> Callable[..., int]:
        module = ModuleType(MODULE)
        module.act = command(click.argument("word"), cluster_option, engine_option)(act)  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, MODULE, module)
        monkeypatch.setitem(verbs.VERBS, "try", verbs.Verb(f"{MODULE}:act", "A verb of this test."))
        return lambda *argv: main(["try", "word", *argv])

    return make


def test_what_every_verb_takes_is_in_the_session(typed: Any) -> None:
    def act(session: Session, word: str) -> int:
        assert (word, session.cluster, session.engine) == ("word", "c", "docker")
        assert session.fleet.engine == "docker"
        assert session.fleet is session.fleet
        return 3

    assert typed(act)("--cluster", "c", "--engine", "docker") == 3


def test_a_result_is_shown_to_people_and_programs(typed: Any, capsys: pytest.CaptureFixture[str]) -> None:
    run = typed(lambda _session, word: Result(document=Jobs(jobs=()), text=f"{word} of text", code=2))
    assert run() == 2
    assert capsys.readouterr().out == "word of text\n"
    assert run("--json", "--cluster", "other") == 2
    told = json.loads(capsys.readouterr().out)
    assert (told["cluster"], told["jobs"]) == ("other", [])
    assert told["host"]


def test_a_document_that_names_its_host_stays_as_it_is(typed: Any, capsys: pytest.CaptureFixture[str]) -> None:
    run = typed(lambda _session, word: Result(document=Jobs(host="b", cluster="c", jobs=()), text=word))
    assert run("--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["host"], told["cluster"]) == ("b", "c")


@pytest.mark.parametrize(
    ("answer", "code", "out"),
    [
        (None, 0, ""),
        (Outcome(), 0, "unchanged\n"),
        (Outcome(changed=("stopped c000", "stopped c001")), 0, "stopped c000\nstopped c001\n"),
        (Done(outcome=Outcome(changed=("stopped c000",))), 0, "stopped c000\n"),
        (Done(outcome=Outcome(changed=("stopped c000",)), failed={"b": AWAY}), AWAY.exit_code, "stopped c000\n"),
        (Result(document={}, text="found", error=AWAY, code=1), AWAY.exit_code, "found\n"),
    ],
)
def test_what_came_of_it_is_shown(
    typed: Any, capsys: pytest.CaptureFixture[str], answer: Answer, code: int, out: str
) -> None:
    assert typed(lambda _session, word: word and answer)() == code
    said = capsys.readouterr()
    assert said.out == out
    assert ("b does not answer" in said.err) == bool(code)
