from __future__ import annotations

import gc
import os
import socket
import threading
from typing import TYPE_CHECKING

import pytest

from gpuprov.core.errors import HostNotReady, UsageError
from gpuprov.drivers import sockets
from gpuprov.drivers.lxd import connect as module
from gpuprov.drivers.registry import open_driver

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


# pylxd forgets the socket of a failed connection; it is collected here and not in somebody else's test.
leaky = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")


@pytest.fixture(autouse=True)
def _collect() -> Iterator[None]:
    yield
    gc.collect()


def refusal(engine: str = "lxd") -> HostNotReady:
    with pytest.raises(HostNotReady) as caught:
        open_driver(engine)
    assert caught.value.exit_code == 3
    assert caught.value.evidence
    return caught.value


@pytest.mark.parametrize(("engine", "variable"), [("lxd", "LXD_DIR"), ("incus", "INCUS_DIR")])
def test_no_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str, variable: str) -> None:
    monkeypatch.setenv(variable, str(tmp_path))
    error = refusal(engine)
    assert f"{engine} is not running" in error.what
    assert str(tmp_path / "unix.socket") in error.evidence
    assert f"sudo gpuprov host prepare --engine {engine}" in error.fix


def test_a_socket_that_this_user_may_not_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "unix.socket").touch()
    monkeypatch.setenv("LXD_DIR", str(tmp_path))
    monkeypatch.setattr(os, "access", lambda *_: False)
    error = refusal()
    assert "has no access" in error.what
    assert "usermod -aG" in error.fix


@leaky
def test_a_daemon_that_has_died(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "unix.socket"))  # nobody listens
    monkeypatch.setenv("LXD_DIR", str(tmp_path))
    assert "does not respond" in refusal().what


@leaky
def test_a_daemon_that_hangs_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "unix.socket"))
        server.listen()

        def hang_up() -> None:
            connection, _ = server.accept()
            connection.close()

        thread = threading.Thread(target=hang_up, daemon=True)
        thread.start()
        monkeypatch.setenv("LXD_DIR", str(tmp_path))
        assert "does not respond" in refusal().what
        thread.join(5)


@leaky
def test_a_daemon_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LXD_DIR", str(tmp_path))
    monkeypatch.setenv("GPUPROV_SILENCE_S", "1")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "unix.socket"))
        server.listen()  # takes connections and says nothing
        error = refusal()
    assert "does not respond" in error.what
    assert "timed out" in error.evidence
    assert "host prepare" in error.fix


def test_the_usual_places_are_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LXD_DIR", raising=False)
    snap = tmp_path / "snap.socket"
    snap.touch()
    monkeypatch.setattr(sockets, "SOCKETS", {"lxd": (str(tmp_path / "absent"), str(snap))})
    assert module.find_socket("lxd") == snap


def test_engines_that_are_not_known() -> None:
    for engine in ("fake", "vmware", ""):
        with pytest.raises(UsageError):
            open_driver(engine)
