"""The second run of every verb, as its user types it, on a fake engine."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click
import pytest

from gpuprov.cli.main import main, root
from gpuprov.cli.session import Session
from gpuprov.cli.verbs import VERBS
from gpuprov.core.group_files import LOCK_NAME, Gates
from tests.twice import TWICE

if TYPE_CHECKING:
    from pathlib import Path

    from tests.twice import Argv
    from tests.unit.cli.conftest import Typed

NAMES = {"cluster": "lab", "p": "c"}


def test_every_verb_is_in_the_table() -> None:
    assert set(TWICE) == {name for name, verb in VERBS.items() if verb.module}
    for name, twice in TWICE.items():
        assert " ".join(twice.argv).startswith(name)
        named = twice.with_names({**NAMES, "spec": "lab.yaml", "play": "site.yml"})
        for argv in (*named.before, named.argv, *named.after):
            parse(argv)


def parse(argv: Argv) -> None:
    """What the command line makes of it; raises where an option is unknown."""
    command: click.Command | None = root()
    context = click.Context(root())
    while isinstance(command, click.Group) and argv and not argv[0].startswith("-"):
        command, argv = command.get_command(context, argv[0]), argv[1:]
    assert command is not None
    command.make_context("gpuprov", list(argv), obj=Session())


@pytest.mark.slow
@pytest.mark.parametrize("verb", [verb for verb, twice in TWICE.items() if "fake" in twice.where])
def test_the_second_run(verb: str, typed: Typed, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = tmp_path / "spec.yaml"
    spec.write_text("version: gpuprov/v1\nname: lab\nnodes: {count: 2}\ngpus: {mode: simulated}\n")
    twice = TWICE[verb].with_names({**NAMES, "spec": str(spec), "play": ""})
    typed(("cluster", "up", "-f", str(spec), "--no-verify"), capsys)
    for argv in twice.before:
        typed(argv, capsys)
    typed.world.engine.faults.clear()
    at_first = typed.world.engine.dump()
    first = typed(("--json", *twice.argv), capsys)
    then = typed.world.engine.dump()
    Gates(folder=tmp_path).file(LOCK_NAME).unlink()
    steps = len(typed.world.steps())
    second = typed(("--json", *twice.argv), capsys)
    assert typed.world.engine.dump() == then
    if twice.kind == "reads":
        assert then == at_first
        assert typed.world.steps() == []
        assert not Gates(folder=tmp_path).file(LOCK_NAME).exists(), "who only reads takes no lock"
    if twice.kind == "changes":
        assert json.loads(first)["unchanged"] is False
        assert steps > 0
    if twice.kind in ("changes", "ensures"):
        assert json.loads(second)["unchanged"] is True
        assert len(typed.world.steps()) == steps, "the second run has begun a change"
        waits_for_none = twice.argv[0] in ("expose", "unexpose", "run")
        assert Gates(folder=tmp_path).file(LOCK_NAME).exists() is not waits_for_none, "who writes takes the lock"


NO_CLUSTER = (
    ("cluster", "down", "{name}"),
    ("cluster", "status", "{name}"),
    ("cluster", "plan", "--name", "{name}"),
    ("cluster", "up", "--name", "{name}", "--no-verify"),
    ("create-node", "web", "--cluster", "{name}"),
    ("verify", "--cluster", "{name}"),
    ("smoke", "matmul", "--cluster", "{name}"),
    ("submit", "--cluster", "{name}", "--", "true"),
    ("jobs", "--cluster", "{name}"),
    ("jobs", "show", "--cluster", "{name}", "7"),
    ("grid", "status", "--cluster", "{name}", "."),
)


@pytest.mark.parametrize("argv", NO_CLUSTER, ids=" ".join)
@pytest.mark.parametrize("name", ["", "..", "/no/such"])
def test_what_is_no_clusters_name_is_refused_and_nothing_changes(
    typed: Typed, capsys: pytest.CaptureFixture[str], argv: Argv, name: str
) -> None:
    capsys.readouterr()
    assert main([part.format(name=name) for part in argv]) == 2
    said = capsys.readouterr()
    assert f"error: {name!r} is not a valid cluster name\nevidence: allowed: 1 to 32" in said.err
    assert "\nfix: " in said.err
    assert typed.world.engine.faults.passed == []
