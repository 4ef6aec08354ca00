"""What a boot takes from the networks of a cluster over hosts is restored from labels alone, by the host itself."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuprov.core.errors import HostNotReady
from gpuprov.core.reporter import Silent
from gpuprov.drivers.base import LABEL_CLUSTER, LABEL_MEMBERS, LABEL_SPEC
from gpuprov.lifecycle.restore_host import restore_host
from gpuprov.shapes.base import changed
from tests.unit.cli.test_spanning import lab

if TYPE_CHECKING:
    from tests.conftest import Recording
    from tests.unit.cli.test_spanning import Typing

pytestmark = pytest.mark.slow

__all__ = ["lab"]


def test_the_end_of_an_overlay_is_back_as_it_was(lab: Typing) -> None:
    lab.type("cluster", "up", "-f", lab.file, "--no-verify")
    host = lab.hosts.worlds["hinton"].host
    before = dict(host.overlays.there)
    host.overlays.there.clear()
    (line,) = restore_host("lxd", host, reporter=Silent()).changed
    assert line.startswith("set overlay gpvx")
    assert host.overlays.there == before
    assert restore_host("lxd", host, reporter=Silent()).unchanged
    assert lab.json("cluster", "up", "--no-verify")["unchanged"]


def test_an_encrypted_end_is_back_encrypted(lab: Typing) -> None:
    with Path(lab.file).open("a") as spec:
        spec.write("network: {overlay: {encryption: wireguard}}\n")
    lab.type("cluster", "up", "-f", lab.file, "--no-verify")
    host = lab.hosts.worlds["hinton"].host
    before = dict(host.overlays.there)
    assert [end.tunnel is not None for end in before.values()] == [True]
    host.overlays.there.clear()
    restore_host("lxd", host, reporter=Silent())
    assert host.overlays.there == before


def test_isolation_is_back(lab: Typing) -> None:
    lab.type("cluster", "up", "-f", lab.file, "--no-verify")
    world = lab.hosts.worlds["hoff"]
    (name, *_) = [name for name, network in world.engine.networks.items() if network.isolated]
    world.engine.networks[name] = changed(world.engine.networks[name], isolated=False)
    assert restore_host("lxd", world.host, reporter=Silent()).changed == (f"isolated network {name}",)


def test_a_cluster_of_one_host_has_no_overlay_to_restore(lab: Typing) -> None:
    world = lab.hosts.worlds["hoff"]
    world.up(2)
    assert restore_host("lxd", world.host, reporter=Silent()).unchanged
    assert world.host.overlays.there == {}


@pytest.mark.parametrize("label", [LABEL_SPEC, LABEL_MEMBERS])
def test_a_record_that_cannot_be_read_is_a_warning_and_the_others_are_restored(
    lab: Typing, recording: Recording, label: str
) -> None:
    lab.type("cluster", "up", "-f", lab.file, "--no-verify")
    world = lab.hosts.worlds["hinton"]
    before = dict(world.host.overlays.there)
    world.host.overlays.there.clear()
    whole = next(network for network in world.engine.networks.values() if network.labels.get(LABEL_MEMBERS))
    odd = {**whole.labels, LABEL_CLUSTER: "early", label: '{"from": "a later version"}'}
    world.engine.networks["gpbr77"] = changed(whole, name="gpbr77", isolated=False, labels=odd)
    recording.lines.clear()
    restored = restore_host("lxd", world.host, reporter=recording).changed
    assert world.host.overlays.there == before
    assert "isolated network gpbr77" in restored
    (warning,) = [line for line in recording.lines if line.startswith("warn ")]
    assert warning.startswith("warn of the networks of cluster early, only the isolation is restored: ")
    assert "cannot be read" in warning


def test_an_overlay_that_cannot_be_made_is_an_error_so_that_systemd_tries_again(
    lab: Typing, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.type("cluster", "up", "-f", lab.file, "--no-verify")
    host = lab.hosts.worlds["hinton"].host

    def refuse(_request: object) -> tuple[str, ...]:
        raise HostNotReady("192.0.2.12 is not an address of this host", evidence="it has none", fix="")

    monkeypatch.setattr(host.overlays, "ensure", refuse)
    with pytest.raises(HostNotReady, match="not an address"):
        restore_host("lxd", host, reporter=Silent())
