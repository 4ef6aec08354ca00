from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuprov.cluster import room as host_room
from gpuprov.workflows import create_node as create_node_module
from tests.fakes.world import World

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Recording


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
    monkeypatch.setattr("gpuprov.host.survey.ENGINES", ())  # there is no other engine
    monkeypatch.setattr(create_node_module, "refuse_answering", lambda *_, **__: None)
    world = World(tmp_path, recording)
    monkeypatch.setattr(host_room, "find_links", lambda: tuple(world.links))
    return world
