from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuprov.host.remote.connection import SshConnection
from gpuprov.host.remote.machine import RemoteMachine

if TYPE_CHECKING:
    from gpuprov.host.remote.places import Places


@pytest.fixture
def hoff(places: Places) -> SshConnection:
    return SshConnection(machine=RemoteMachine(name="hoff", address="192.0.2.11", user="root"), places=places)
