"""`gpuprov exec`: everything after the node's name is the command's own."""

from __future__ import annotations

import pytest

from gpuprov.cli.main import main
from gpuprov.cli.parameters import given_command


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


def test_no_command_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["exec", "c000", "--"]) == 2
    assert "no command given" in capsys.readouterr().err
