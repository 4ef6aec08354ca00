"""Bridges of LXD and Incus, where the engine's answers are odd; tests/contract has the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from gpuprov.core.errors import EngineError
from gpuprov.drivers.lxd import again, networks
from gpuprov.drivers.lxd.api import NotFound
from gpuprov.drivers.networks import NetworkRequest

if TYPE_CHECKING:
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
