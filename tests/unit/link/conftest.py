from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from gpuprov.link.address import RemoteMachine
from gpuprov.link.connection import SshConnection
from gpuprov.link.members import MemberProcesses

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpuprov.link.places import Places


@pytest.fixture
def hoff(places: Places) -> SshConnection:
    return SshConnection(machine=RemoteMachine(name="hoff", address="192.0.2.11", user="root"), places=places)


@pytest.fixture
def members(hoff: SshConnection) -> Iterator[MemberProcesses]:
    with closing(MemberProcesses(hoff.places)) as members:
        yield members
