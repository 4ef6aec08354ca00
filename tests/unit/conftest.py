from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuprov.provision import recipe
from tests.fakes.world import make_world

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import Recording
    from tests.fakes.world import World

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True, scope="session")
def folders_hashed_once() -> Iterator[None]:
    """The checkout's roles and kernels do not change during a run; thousands of commands ask for their hashes."""
    hash_folder = recipe.hash_folder
    hash_once = cache(hash_folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            recipe,
            "hash_folder",
            lambda folder: hash_once(folder) if folder.is_relative_to(ROOT) else hash_folder(folder),
        )
        yield


@pytest.fixture(autouse=True)
def lock_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock of each test's own."""
    monkeypatch.setattr("gpuprov.core.group_files.LOCK_FOLDER", tmp_path)


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that wait for each other are this process's own: they look often, and are soon done."""
    monkeypatch.setattr("gpuprov.core.lock._LOOK_S", 0.02)
    monkeypatch.setattr("gpuprov.cluster.waiting_for_gpus._LOOK_S", 0.03)
    monkeypatch.setattr("gpuprov.cluster.read_steadily._SETTLE_S", 0.1)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recording: Recording) -> World:
    return make_world(tmp_path, monkeypatch, recording)
