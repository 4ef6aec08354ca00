from __future__ import annotations

from gpuprov.provision.targets import Target, render_inventory


def test_a_node_is_reached_through_its_engine() -> None:
    hosts = render_inventory([Target(name="c000", engine="incus")])["all"]["hosts"]  # type: ignore[index]
    assert hosts["c000"]["ansible_connection"] == "gpuprov.cluster.gpuprov"
    assert hosts["c000"]["gpuprov_engine"] == "incus"


def test_this_machine_is_reached_without_an_engine() -> None:
    hosts = render_inventory([Target()])["all"]["hosts"]  # type: ignore[index]
    assert hosts["localhost"]["ansible_connection"] == "local"
    assert "gpuprov_engine" not in hosts["localhost"]
