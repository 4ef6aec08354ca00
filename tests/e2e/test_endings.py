"""However a cluster ends, by `down`, by Ctrl-C, by a kill or by the engine's death: nothing of ours stays behind."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator

    from tests.e2e.conftest import Gpuprov, World
    from tests.e2e.places import Place

SOCKETS = ("/var/lib/lxd/unix.socket", "/var/snap/lxd/common/lxd/unix.socket")


@pytest.fixture
def up(gpuprov: Gpuprov, world: World, place: Place, tmp_path: Path) -> Iterator[tuple[str, ...]]:
    """The command that makes a small cluster, which is gone at the end without a trace."""
    gpuprov("cluster", "down", place.cluster, "--yes")
    before = world.look()
    path = tmp_path / "small.yaml"
    path.write_text(place.spec())
    yield ("cluster", "up", "-f", str(path), "--no-verify")
    gpuprov("cluster", "down", place.cluster, "--yes")
    assert world.look() == before


def names(world: World, place: Place) -> list[str]:
    instances = world.look()["instances"]
    assert isinstance(instances, dict)
    return [name for name in instances if name.startswith(place.mark)]


def wait_for_an_instance(process: subprocess.Popen[str], world: World, place: Place) -> None:
    deadline = time.monotonic() + 600  # it may have to build the image first
    while not names(world, place):
        assert process.poll() is None, process.communicate()
        if time.monotonic() > deadline:
            process.terminate()
            pytest.fail(f"no instance in 600 s: {process.communicate(timeout=60)}")
        time.sleep(0.02)


def test_down_leaves_nothing(gpuprov: Gpuprov, world: World, place: Place, up: tuple[str, ...]) -> None:
    before = world.look()
    gpuprov(*up)
    there = world.look()
    assert names(world, place) == [place.node(0), place.node(1)]
    assert all(there[part] != before[part] for part in ("instances", "networks", "links", "rules", "keys"))
    assert f"removed node {place.node(1)}" in gpuprov("cluster", "down", place.cluster, "--yes").stdout
    assert world.look() == before
    assert gpuprov("cluster", "down", place.cluster).stdout == "unchanged\n"


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_up_undoes_what_it_did(
    gpuprov: Gpuprov, world: World, place: Place, up: tuple[str, ...], ending: signal.Signals
) -> None:
    before = world.look()
    with gpuprov.start(*up) as process:
        wait_for_an_instance(process, world, place)
        process.send_signal(ending)
        _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    assert "Traceback" not in stderr
    assert world.look() == before


def test_a_killed_up_is_completed_by_the_next(
    gpuprov: Gpuprov, world: World, place: Place, up: tuple[str, ...]
) -> None:
    with gpuprov.start(*up) as process:
        wait_for_an_instance(process, world, place)
        process.kill()
    gpuprov(*up)
    rows = gpuprov.json("cluster", "status", place.cluster)["nodes"]
    assert [(row["name"], row["work"]) for row in rows] == [(place.node(n), "idle") for n in range(2)]


class MortalEngine:
    """The engine behind a socket that goes away, with all its connections, at the order to make one instance more."""

    def __init__(self, folder: Path, *, survives: int) -> None:
        own = os.environ.get("LXD_DIR")
        self._real = next(place for place in ([f"{own}/unix.socket"] if own else SOCKETS) if Path(place).exists())
        self._survives = survives
        self._orders = 0
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / "unix.socket"))
        self._listener.listen()
        self._ends = [self._listener]
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> None:
        self._start(self._serve)

    def __exit__(self, *_: object) -> None:
        self._die()
        for thread in self._threads:
            thread.join()
        for end in self._ends:
            end.close()
        assert self._orders > self._survives, "the engine did not die"

    def _start(self, target: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments)
        self._threads.append(thread)
        thread.start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                engine = socket.socket(socket.AF_UNIX)
                engine.connect(self._real)
                self._ends += [client, engine]
                self._start(self._carry, client, engine)
                self._start(self._carry, engine, client)

    def _carry(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
                self._orders += data.startswith(b"POST /1.0/instances ")
                if self._orders > self._survives:
                    self._die()
        with suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)

    def _die(self) -> None:
        for end in self._ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


def test_an_engine_that_dies_half_way(
    gpuprov: Gpuprov,
    world: World,
    place: Place,
    up: tuple[str, ...],
    tmp_path: Path,
    cluster: object,  # noqa: ARG001 - the image
) -> None:
    with MortalEngine(tmp_path, survives=1):
        failed = gpuprov(*up, expect=4, variables={"LXD_DIR": str(tmp_path)})
    assert "\nerror: " in failed.stderr
    assert "\nfix: " in failed.stderr
    gpuprov(*up)  # what the dead engine could not undo is repaired
    assert names(world, place) == [place.node(0), place.node(1)]
    rows = gpuprov.json("cluster", "status", place.cluster)["nodes"]
    assert {row["work"] for row in rows} == {"idle"}
