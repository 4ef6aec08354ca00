"""gpuprov dies at every request to Docker in turn, and whoever comes next finds the node, its lease and its files."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import TYPE_CHECKING, Any, cast

import pytest

from gpuprov.drivers.base import File
from gpuprov.drivers.docker.api import DockerApi
from gpuprov.drivers.docker.driver import DockerDriver
from gpuprov.shapes.node import CharDevice, Exposure

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.contract.engines import Bench

pytestmark = [
    pytest.mark.engine,
    pytest.mark.parametrize("whole_bench", ["docker"], indirect=True),
]

DEVICE = CharDevice(path="/dev/gpt0", major=120, minor=0)
LEASE = {"gpuprov.gpus": "GPU-1"}


class Killed(BaseException):
    """This process ends here."""


class DyingApi(DockerApi):
    """Dies before the nth request that changes something, and stays dead."""

    def __init__(self, alive: DockerApi, *, nth: int) -> None:
        super().__init__(alive.client, address=alive.address)
        self.left = nth

    def _request(self, method: str, path: str, **options: Any) -> Any:
        if method in ("post", "put", "delete"):
            self.left -= 1
        if self.left <= 0:
            raise Killed
        return super()._request(method, path, **options)


def kill_at_each_step(bench: Bench, act: Callable[[DockerDriver], None], look: Callable[[], None]) -> int:
    """Let `act` die at its first request, at its second, and so on until it comes through; `look` each time."""
    alive = cast("DockerDriver", bench.driver)._api
    nth = 1
    while killed(act, DockerDriver(DyingApi(alive, nth=nth))):
        look()
        nth += 1
    return nth


def killed(act: Callable[[DockerDriver], None], driver: DockerDriver) -> bool:
    try:
        act(driver)
    except Killed:
        return True
    return False


def test_a_node_that_is_being_made_is_absent_or_unfinished_or_whole(bench: Bench) -> None:
    request = bench.request(files=(File(path="/opt/work", content=b"kept"),), devices=(DEVICE,))

    def look() -> None:
        state = bench.driver.find_node(request.name)
        assert [node.name for node in bench.driver.list_nodes() if node.name == request.name] == [request.name][
            : bool(state)
        ]
        if state:
            assert state.ours
            assert state.devices == (DEVICE,)
            assert not state.complete or bench.driver.pull(request.name, "/opt/work") == b"kept"
        bench.driver.delete_node(request.name)
        assert bench.status(request.name) == "absent"

    steps = kill_at_each_step(bench, lambda driver: driver.create_node(request), look)
    assert steps > 4  # create, connect, files, rename
    state = bench.driver.find_node(request.name)
    assert state
    assert state.complete


@pytest.mark.parametrize("start", [True, False])
def test_a_node_that_is_being_replaced_is_never_lost(bench: Bench, start: bool) -> None:
    client: Any = cast("DockerDriver", bench.driver)._api.client
    networks = {network["Id"] for network in client.networks()}
    name = bench.create(files=(File(path="/opt/work", content=b"kept"),), start=start)
    bench.driver.set_labels(name, LEASE)
    labels = {**bench.request().labels, **LEASE}

    def whole() -> None:
        states = [node for node in bench.driver.list_nodes() if node.name == name]
        assert [dict(state.labels) for state in states] == [labels]
        assert states[0].complete
        assert bench.driver.pull(name, "/opt/work") == b"kept"

    def replace(driver: DockerDriver) -> None:
        state = bench.driver.find_node(name)
        assert state
        driver.set_devices(name, [] if state.devices else [DEVICE], [])

    steps = kill_at_each_step(bench, replace, whole)
    assert steps > 7
    whole()
    bench.driver.start_node(name)
    assert bench.status(name) == "running"
    bench.driver.delete_node(name)
    assert [node for node in client.containers(all=True) if any(name in own for own in node["Names"])] == []
    assert {network["Id"] for network in client.networks()} <= networks


def test_a_job_that_never_started_is_unfinished(bench: Bench) -> None:
    request = bench.request(labels={**bench.request().labels, **LEASE})

    def look() -> None:
        state = bench.driver.find_node(request.name)
        if state:
            assert not state.complete
            assert state.status == "stopped"
            bench.driver.delete_node(request.name)

    def run(driver: DockerDriver) -> None:
        driver.run_job(request, ["true"], started=lambda: None, write=lambda _stream, _content: None)

    kill_at_each_step(bench, run, look)
    assert bench.status(request.name) == "absent"


class InterruptedApi(DockerApi):
    """Ctrl-C comes while Docker makes a container."""

    def _request(self, method: str, path: str, **options: Any) -> Any:
        if path == "/containers/create":
            threading.Timer(0.002, os.kill, (os.getpid(), signal.SIGINT)).start()
        return super()._request(method, path, **options)


def test_a_job_that_is_interrupted_while_it_is_made_goes(bench: Bench) -> None:
    request = bench.request()
    api = cast("DockerDriver", bench.driver)._api
    driver = DockerDriver(InterruptedApi(api.client, address=api.address))
    with pytest.raises(KeyboardInterrupt):
        driver.run_job(request, ["sleep", "60"], started=lambda: None, write=lambda _stream, _content: None)
    time.sleep(0.5)  # for a Docker that goes on, unheard
    assert bench.status(request.name) == "absent"


class HastyApi(DockerApi):
    """Somebody looks for the node just before its replacement takes over the node's name, and sees to that."""

    def _request(self, method: str, path: str, **options: Any) -> Any:
        if path.endswith("/rename") and not options["params"]["name"].endswith((".new", ".next")):
            super()._request(method, path, **options)
        return super()._request(method, path, **options)


def test_a_node_that_got_its_name_back_from_another_command_is_replaced(bench: Bench) -> None:
    name, exposure = bench.create(), Exposure(host_port=47112, node_port=80)
    api = cast("DockerDriver", bench.driver)._api
    DockerDriver(HastyApi(api.client, address=api.address)).expose(name, exposure)
    state = bench.driver.find_node(name)
    assert state
    assert state.exposed == (exposure,)


def test_labels_that_are_being_changed_are_the_old_or_the_new(bench: Bench) -> None:
    name = bench.create()
    before = dict(bench.request().labels)

    def look() -> None:
        state = bench.driver.find_node(name)
        assert state
        assert dict(state.labels) in (before, {**before, **LEASE})

    kill_at_each_step(bench, lambda driver: driver.set_labels(name, LEASE), look)
    state = bench.driver.find_node(name)
    assert state
    assert dict(state.labels) == {**before, **LEASE}
