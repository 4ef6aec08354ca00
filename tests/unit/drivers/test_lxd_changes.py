"""Changes of an instance while others change it too: nothing of either is lost."""

from __future__ import annotations

import copy
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pylxd.exceptions import LXDAPIException

from gpuprov.core.errors import EngineError
from gpuprov.drivers.lxd.api import LxdApi, Overtaken
from gpuprov.drivers.lxd.driver import LxdDriver
from gpuprov.shapes.node import Exposure

if TYPE_CHECKING:
    from collections.abc import Callable

SLOW_S = 0.05
OLD, NEW = Exposure(host_port=7000, node_port=80), Exposure(host_port=7001, node_port=81)
LABELS = {"user.gpuprov.self": "c000", "user.gpuprov.cluster": "lab"}


class Answer:
    """Of pylxd."""

    def __init__(self, document: object, *, status: int = 200, tag: str = "") -> None:
        self.document, self.status_code, self.headers = document, status, {"ETag": f'"{tag}"'}
        self.content = b""

    def json(self) -> object:
        return self.document


class Daemon:
    """LXD 5.0 with one instance: it reads it, takes its time, and writes all that it read."""

    def __init__(self) -> None:
        self.host_info: dict[str, Any] = {"environment": {}}
        self.document: dict[str, Any] = {
            "name": "c000",
            "status": "Running",
            "config": LABELS,
            "devices": {},
            "expanded_devices": {},
        }
        self.before_write: Callable[[], object] = lambda: None

    @property
    def api(self) -> Daemon:
        return self

    def __getitem__(self, _part: str) -> Daemon:
        return self

    def write(self, config: dict[str, str], devices: dict[str, Any]) -> Answer:
        time.sleep(SLOW_S)
        self.document = {**self.document, "config": config, "devices": devices, "expanded_devices": devices}
        return Answer({"metadata": {}})

    def get(self, **_params: object) -> Answer:
        return Answer({"metadata": copy.deepcopy(self.document)}, tag=str(self.document))

    def patch(self, *, json: dict[str, Any]) -> Answer:
        read = self.document
        return self.write(read["config"] | json.get("config", {}), read["devices"] | json.get("devices", {}))

    def put(self, *, json: dict[str, Any], headers: dict[str, str]) -> Answer:
        self.before_write()
        if headers["If-Match"] != f'"{self.document}"':
            raise LXDAPIException(Answer({"error": "ETag doesn't match: a vs b"}, status=412))
        return self.write(json["config"], json["devices"])


@pytest.fixture
def daemon() -> Daemon:
    return Daemon()


@pytest.fixture
def driver(daemon: Daemon) -> LxdDriver:
    driver = LxdDriver(LxdApi(daemon, engine="lxd", socket=Path()), name="lxd")
    driver.expose("c000", OLD)
    return driver


def exposed(daemon: Daemon) -> list[str]:
    return sorted(daemon.document["devices"])


def test_a_label_that_comes_in_between_is_kept(daemon: Daemon, driver: LxdDriver) -> None:
    """Another program writes it after the driver has read the instance."""
    written = daemon.document["config"] | {"user.gpuprov.fingerprint": "f"}

    def label_once() -> None:
        daemon.before_write = lambda: None
        daemon.document = {**daemon.document, "config": written}

    daemon.before_write = label_once
    driver.unexpose("c000", OLD.host_port)
    assert daemon.document["config"] == written
    assert exposed(daemon) == []


def test_who_is_always_overtaken_is_told(daemon: Daemon, driver: LxdDriver) -> None:
    def label() -> None:
        daemon.document = {**daemon.document, "config": daemon.document["config"] | {"user.count": str(time.time())}}

    daemon.before_write = label
    with pytest.raises(Overtaken, match="could not change instances/c000") as caught:
        driver.unexpose("c000", OLD.host_port)
    assert caught.value.evidence == "ETag doesn't match: a vs b"
    assert exposed(daemon) == ["expose-7000"]


def test_a_node_that_is_removed_meanwhile_is_told_in_the_engine_s_words(daemon: Daemon, driver: LxdDriver) -> None:
    def remove() -> None:
        raise LXDAPIException(Answer({"error": "Instance not found"}, status=404))

    daemon.before_write = remove
    with pytest.raises(EngineError) as caught:
        driver.unexpose("c000", OLD.host_port)
    assert caught.value.evidence == "Instance not found"


def test_of_two_that_take_one_port_at_once_the_second_is_refused(daemon: Daemon, driver: LxdDriver) -> None:
    """Each has seen that it is free."""
    driver.expose("c000", OLD)
    with pytest.raises(EngineError, match="port 7000 of the host is already forwarded") as caught:
        driver.expose("c000", Exposure(host_port=7000, node_port=81))
    assert caught.value.evidence.startswith("it leads to port 80 of c000, from 127.0.0.1")
    assert exposed(daemon) == ["expose-7000"]


def test_labels_and_ports_that_are_written_at_once_are_all_there(daemon: Daemon, driver: LxdDriver) -> None:
    """As `expose` beside a `cluster up`: LXD 5.0 alone would lose one or the other."""
    changes: list[Callable[[], object]] = [
        lambda: driver.expose("c000", NEW),
        lambda: driver.set_labels("c000", {"gpuprov.fingerprint": "f"}),
        lambda: driver.unexpose("c000", OLD.host_port),
        lambda: driver.set_labels("c000", {"gpuprov.gpus": "g"}),
    ]
    threads = [threading.Thread(target=change) for change in changes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert exposed(daemon) == ["expose-7001"]
    labels = {key: value for key, value in daemon.document["config"].items() if key not in LABELS}
    assert labels == {"user.gpuprov.fingerprint": "f", "user.gpuprov.gpus": "g"}
