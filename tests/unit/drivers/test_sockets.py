from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

import pytest

from gpuprov.drivers import sockets

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files to groups")
def test_who_may_change_a_host_are_the_groups_of_its_engines_sockets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LXD_DIR", raising=False)
    places = {name: (str(tmp_path / name),) for name in ("lxd", "roots", "closed", "absent", "file")}
    monkeypatch.setattr(sockets, "SOCKETS", places)
    (tmp_path / "file").touch(0o660)
    os.chown(tmp_path / "file", 0, 5004)
    for name, gid, mode in (("lxd", 5001, 0o660), ("roots", 0, 0o660), ("closed", 5003, 0o640)):
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(tmp_path / name))
        (tmp_path / name).chmod(mode)
        os.chown(tmp_path / name, 0, gid)
    assert sockets.engine_groups() == {5001}


def test_an_engines_own_variable_comes_first(tmp_path: Path) -> None:
    assert sockets.socket_places("lxd", {"LXD_DIR": str(tmp_path)}) == (tmp_path / "unix.socket",)
    assert len(sockets.socket_places("lxd", {})) > 1
    assert len(sockets.socket_places("docker", {"": "/x"})) == 1
