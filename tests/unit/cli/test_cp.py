from __future__ import annotations

from typing import TYPE_CHECKING

import click
import pytest
from click.shell_completion import CompletionItem

from gpuprov.cli import enter
from gpuprov.cli.main import main
from gpuprov.drivers.base import File

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.cli.conftest import Typed


def offered(text: str) -> list[tuple[str, str]]:
    items = enter.complete_place(click.Context(enter.cp), click.Argument(["source"]), text)
    assert all(isinstance(item, CompletionItem) for item in items)
    return [(item.value, item.type) for item in items]


def test_names_are_completed_up_to_the_colon_and_else_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        enter, "complete_nodes", lambda _c, _p, text: [n for n in ("c000", "c001") if n.startswith(text)]
    )
    assert offered("c00") == [("c000:", "plain"), ("c001:", "plain")]
    assert offered("res") == [("res", "file")]
    assert offered("./c0") == [("./c0", "file")]
    assert offered("c000:/t") == []


def test_what_was_copied_is_told(
    typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed.world.begin_with(2)
    typed.world.driver.push("c001", [File(path="/root/out", content=b"12")])
    monkeypatch.chdir(tmp_path)
    assert typed(("cp", "c001:out", "."), capsys) == "copied c001:/root/out to ./out: 1 file, 2 bytes\n"
    assert (tmp_path / "out").read_bytes() == b"12"
    said = typed(("--json", "cp", "out", "c000:/tmp"), capsys)
    assert '"copied out to c000:/tmp/out: 1 file, 2 bytes"' in said


@pytest.mark.parametrize(
    ("argv", "what"),
    [
        (("cp", "a", "b"), "are both on this host"),
        (("cp", "c000:/a", "c001:/b"), "are both in nodes"),
        (("cp", "C0:/a", "b"), "./C0:/a"),
        (("cp", "c007:/a", "b"), "there is no node c007"),
    ],
)
def test_ends_that_cannot_be(
    typed: Typed, argv: tuple[str, ...], what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    typed.world.begin_with(2)
    capsys.readouterr()
    assert main(argv, host=typed.world.host) == 2
    said = capsys.readouterr().err
    assert what in said
    assert "evidence: " in said
    assert "fix: " in said
