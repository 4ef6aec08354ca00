"""`gpuprov exec`: everything after the node's name is the command's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuprov.cli import enter
from gpuprov.cli.main import main
from gpuprov.cli.options import given_command

if TYPE_CHECKING:
    import click


@pytest.mark.parametrize(
    ("typed", "command"),
    [
        (("ls", "--json"), ("ls", "--json")),
        (("--", "ls", "-q"), ("ls", "-q")),
        (("ls", "--", "x"), ("ls", "--", "x")),
        (("--",), ()),
        ((), ()),
    ],
)
def test_a_command_is_taken_as_typed(typed: tuple[str, ...], command: tuple[str, ...]) -> None:
    assert given_command(typed) == command


@pytest.mark.parametrize(
    ("typed", "parsed"),
    [
        (("c000", "--engine", "lxd", "--", "ls", "-q"), ("lxd", ("--", "ls", "-q"))),
        (("c000", "--engine=lxd", "ls", "--engine", "x"), ("lxd", ("ls", "--engine", "x"))),
        (("--engine", "lxd", "c000", "ls"), ("lxd", ("ls",))),
        (("c000", "--", "--engine", "lxd"), (None, ("--", "--engine", "lxd"))),
        (("c000", "ls"), (None, ("ls",))),
    ],
)
@pytest.mark.parametrize("verb", [enter.execute, enter.ssh])
def test_options_may_stand_on_both_sides_of_the_node(
    verb: click.Command, typed: tuple[str, ...], parsed: tuple[str | None, tuple[str, ...]]
) -> None:
    found = verb.make_context("verb", [*typed]).params
    assert (found["node"], (found["engine"], found["argv"])) == ("c000", parsed)


def test_an_option_after_the_node_that_is_not_known_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ssh", "c000", "-L", "8080:localhost:80"]) == 2
    assert "No such option '-L'" in capsys.readouterr().err


@pytest.mark.parametrize("words", [("--",), ()])
def test_no_command_is_a_usage_error(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["exec", "c000", *words]) == 2
    said = capsys.readouterr().err
    assert "no command is given for c000" in said
    assert "gpuprov shell c000" in said


@pytest.mark.parametrize("words", [("-h",), ("exec", "-h"), ("cluster", "up", "-h")])
def test_help_has_a_short_name(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words]) == 0
    assert "Usage: gpuprov" in capsys.readouterr().out


@pytest.mark.parametrize("several", ["c000,c001", "c[000-001]"])
def test_several_nodes_are_named_one_after_the_other(several: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["exec", several, "--", "true"]) == 2
    said = capsys.readouterr().err
    assert f"gpuprov exec takes one node, not 2\nevidence: {several}\n" in said
    assert "for node in c000 c001; do gpuprov exec $node -- hostname; done" in said
