from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuprov.provision import recipe
from tests.fakes.world import World

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import Recording

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
    monkeypatch.setattr("gpuprov.core.lock.LOCK_FOLDER", tmp_path)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recording: Recording) -> World:
    keys = tmp_path / "data" / "gpuprov" / "lab"
    keys.mkdir(parents=True)
    (keys / "id_ed25519").write_text("private\n")
    (keys / "id_ed25519.pub").write_text("ssh-ed25519 AAAA gpuprov-lab\n")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return World(tmp_path, recording)
