"""Bridges of LXD and Incus, where the engine's answers are odd; tests/contract has the rest."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from gpuprov.core.errors import EngineError
from gpuprov.drivers.lxd import again, networks
from gpuprov.drivers.lxd.api import NotFound
from gpuprov.drivers.lxd.family import KIN
from gpuprov.drivers.networks import NetworkRequest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpuprov.drivers.lxd.api import LxdApi

WENT = "Failed to delete bridge children interfaces: ip -d -j link show vetha50b74f: exit status 1"


class Flustered:
    """An Incus that looks at every link of the host, of which one goes each time."""

    def __init__(self, times: int, said: str = WENT) -> None:
        self.times, self.said, self.asked = times, said, 0

    def get(self, *_path: str) -> dict[str, Any]:
        return {"name": "gpbr0", "used_by": []}

    def delete(self, *_path: str) -> None:
        self.asked += 1
        if self.asked <= self.times:
            raise EngineError("incus could not delete networks/gpbr0", evidence=self.said, fix="f")


@pytest.fixture(autouse=True)
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(again, "PAUSE_S", 0.0)


class HalfMaking:
    """An Incus that fails so while it makes a network, and keeps it."""

    member = ""

    def __init__(self, times: int) -> None:
        self.times, self.there, self.made = times, False, 0

    def get(self, *_path: str) -> dict[str, Any]:
        if not self.there:
            raise NotFound("there is no network gpbr0", evidence="e", fix="f")
        config = {"user.gpuprov.cluster": "lab", "user.gpuprov.version": "1"}
        return {"name": "gpbr0", "managed": True, "type": "bridge", "config": config, "used_by": []}

    def send(self, verb: str, *_path: str, body: object) -> None:  # noqa: ARG002
        assert verb == "post"
        if self.there:
            raise EngineError("could not create", evidence='Network "gpbr0" already exists', fix="f")
        self.there, self.made = True, self.made + 1
        if self.made <= self.times:
            raise EngineError("could not create", evidence=WENT, fix="f")

    def delete(self, *_path: str) -> None:
        self.there = False


def test_a_link_that_goes_while_a_network_is_made_leaves_none_half_made() -> None:
    api = HalfMaking(times=4)
    request = NetworkRequest(name="gpbr0", labels={"gpuprov.cluster": "lab"}, address="10.0.3.1/24")
    networks.create_network(cast("LxdApi", api), request)
    assert (api.made, api.there) == (5, True)
    with pytest.raises(EngineError, match="could not create"):
        networks.create_network(cast("LxdApi", HalfMaking(times=5)), request)


def delete(api: Flustered) -> None:
    networks._delete(cast("LxdApi", api), "gpbr0")


def test_a_link_that_goes_meanwhile_keeps_no_network() -> None:
    api = Flustered(times=4)
    delete(api)
    assert api.asked == 5


@pytest.mark.parametrize(("api", "asked"), [(Flustered(times=99), 5), (Flustered(times=99, said="no space"), 1)])
def test_what_stays_is_told(api: Flustered, asked: int) -> None:
    with pytest.raises(EngineError, match="could not delete"):
        delete(api)
    assert api.asked == asked


class Bereft:
    """An LXD whose network's address is taken, by a name server that it lost, while that lives."""

    kin, command, member = KIN["lxd"], "lxc", ""
    _SAID = 'exited prematurely ("dnsmasq: failed to create listening socket for 10.0.3.1: Address already in use")'

    def __init__(self, folder: Path, holder: subprocess.Popen[bytes], *, used: bool = True) -> None:
        self.socket, self.holder = folder / "unix.socket", holder
        self.document: dict[str, Any] = {
            "name": "gpbr0",
            "type": "bridge",
            "description": "",
            "managed": True,
            "config": {"user.gpuprov.cluster": "lab"},
            "used_by": ["/1.0/instances/c000"] if used else [],
            "status": "Unavailable",
        }
        self.done: list[str] = []

    def get(self, *path: str) -> dict[str, Any]:
        assert path == ("networks", "gpbr0")
        found = dict(self.document)
        if self.document["used_by"]:
            self.document["status"] = "Created"  # a moment later
        return found

    def send(self, method: str, *_path: str, body: dict[str, Any]) -> None:
        try:
            self.holder.wait(0.1)
        except subprocess.TimeoutExpired:
            raise EngineError("lxd could not change networks/gpbr0", evidence=self._SAID, fix="f") from None
        self.done.append(method)
        self.document["config"] = body["config"]

    def delete(self, *path: str) -> None:
        assert path == ("networks", "gpbr0")
        self.done.append("delete")


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    """Processes that look like name servers of LXD for two networks."""
    started = {
        name: subprocess.Popen(
            ["sh", "-c", "read x", "dnsmasq", f"--conf-file={tmp_path}/networks/{name}/dnsmasq.raw", "-u", "nobody"],
            stdin=subprocess.PIPE,
        )
        for name in ("gpbr0", "gpbr00")
    }
    for process in started.values():
        while b"dnsmasq.raw" not in Path(f"/proc/{process.pid}/cmdline").read_bytes():  # empty for a moment after exec
            time.sleep(0.001)
    yield started
    for process in started.values():
        process.kill()
        process.communicate()


@pytest.mark.parametrize(("used", "done"), [(True, ["put"]), (False, ["put", "delete", "post"])])
def test_a_name_server_that_the_engine_lost_is_ended_and_no_other(
    tmp_path: Path, processes: dict[str, subprocess.Popen[bytes]], *, used: bool, done: list[str]
) -> None:
    api = Bereft(tmp_path, processes["gpbr0"], used=used)
    networks._configure(cast("LxdApi", api), "put", "gpbr0", {"ipv4.nat": "true"})
    assert api.done == done
    assert api.document["config"] == {"ipv4.nat": "true"}
    assert processes["gpbr0"].poll() == -9
    assert processes["gpbr00"].poll() is None


def test_who_may_not_end_it_reads_its_pid(
    tmp_path: Path, processes: dict[str, subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(pid: int, signal: int) -> None:
        raise PermissionError(pid, signal)

    api = Bereft(tmp_path, processes["gpbr0"])
    with monkeypatch.context() as patch, pytest.raises(EngineError) as told:
        patch.setattr("os.kill", refuse)
        networks._configure(cast("LxdApi", api), "put", "gpbr0", {"ipv4.nat": "true"})
    assert told.value.fix == f"sudo kill {processes['gpbr0'].pid}; then run the same command again"
