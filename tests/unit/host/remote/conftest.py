from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuprov.host.remote.connection import SshConnection
from gpuprov.host.remote.machine import RemoteMachine
from gpuprov.host.remote.places import Places
from tests.fakes.ssh import install_ssh

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fakes.ssh import FakeSsh


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSsh:
    return install_ssh(tmp_path, monkeypatch)


@pytest.fixture
def places(tmp_path: Path) -> Places:
    for name in ("config", "run"):
        (tmp_path / name).mkdir()
    return Places(config=tmp_path / "config", runtime=tmp_path / "run")


@pytest.fixture
def hoff(places: Places) -> SshConnection:
    return SshConnection(machine=RemoteMachine(name="hoff", address="192.0.2.11", user="root"), places=places)
