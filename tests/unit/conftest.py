from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.fakes.world import make_world

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Recording
    from tests.fakes.world import World


@pytest.fixture(autouse=True)
def lock_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock of each test's own."""
    monkeypatch.setattr("gpuprov.core.lock.LOCK_FOLDER", tmp_path)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recording: Recording) -> World:
    return make_world(tmp_path, monkeypatch, recording)
