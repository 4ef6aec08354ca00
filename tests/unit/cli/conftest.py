from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

import click
import pytest

from gpuprov.cli import verbs

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MODULE = "gpuprov_test_verb"


@pytest.fixture(autouse=True)
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where runs of a test write their logs."""
    folder = tmp_path / "log"
    monkeypatch.setattr("gpuprov.cli.session.log_folder", lambda _environment, **_: folder)
    return folder


@pytest.fixture
def verb(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[..., Any]], None]:
    """Adds a verb `try` that calls the given function with the session."""

    def add(function: Callable[..., Any]) -> None:
        module = ModuleType(MODULE)
        module.command = click.command()(click.pass_obj(function))  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, MODULE, module)
        monkeypatch.setitem(verbs.VERBS, "try", verbs.Verb(MODULE, "A verb of this test."))

    return add
