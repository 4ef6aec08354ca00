from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from gpuprov.core.errors import GpuprovError, UsageError
from gpuprov.lifecycle import expose, remove_nodes, start_stop
from gpuprov.lifecycle.rows import cluster_rows, list_rows
from gpuprov.shapes.node import EVERYWHERE, LOCALLY, Exposure
from tests.fakes.doors import door_of, door_without
from tests.fakes.driver import FakeDriver
from tests.fakes.engine import FakeEngine, FakeNode
from tests.fakes.host import FakeHost

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpuprov.core.outcome import Outcome
    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.networks import NetworkState
    from tests.fakes.world import World

REFUSED: dict[str, Callable[[World], object]] = {
    "start of nothing": lambda w: start_stop.start_nodes(w.driver, ["c009"], w.host, reporter=w.reporter),
    "stop of nothing": lambda w: start_stop.stop_nodes(w.driver, ["c000", "c009"], w.host, reporter=w.reporter),
    "start of a foreign one": lambda w: start_stop.start_nodes(w.driver, ["foreign"], w.host, reporter=w.reporter),
    "stop of a foreign one": lambda w: start_stop.stop_nodes(w.driver, ["foreign"], w.host, reporter=w.reporter),
    "rm of a foreign one": lambda w: remove_nodes.remove_nodes(w.driver, ["foreign"], w.host, reporter=w.reporter),
    "snapshot of a foreign one": lambda w: start_stop.snapshot(w.driver, "foreign", "s", w.host, reporter=w.reporter),
    "rm of the controller": lambda w: remove_nodes.remove_nodes(w.driver, ["c000"], w.host, reporter=w.reporter),
    "rm of controller and one more": lambda w: remove_nodes.remove_nodes(
        w.driver, ["c000", "c001"], w.host, reporter=w.reporter
    ),
    "rm under a job": lambda w: remove_nodes.remove_nodes(w.driver, ["c002"], w.host, reporter=w.reporter),
    "restore of nothing": lambda w: start_stop.restore(w.driver, "c000", "s", w.host, reporter=w.reporter),
    "a port that is none": lambda w: forward(w, "c000", 0, 80),
    "a port of the node that is none": lambda w: forward(w, "c000", 7000, 65536),
    "a port that is taken": lambda w: forward(w, "c000", 7001, 80),
    "a port that the host uses": lambda w: forward(w, "c000", 22, 22),
    "an address that is none": lambda w: forward(w, "c000", 7000, 80, listen="everywhere"),
    "an address for IPv6": lambda w: forward(w, "c000", 7000, 80, listen="::"),
    "expose of nothing": lambda w: forward(w, "c009", 7000, 80),
    "unexpose of a foreign one": lambda w: expose.unexpose(w.driver, "foreign", 7000, reporter=w.reporter),
}


def forward(world: World, name: str, host_port: int, node_port: int, listen: str = LOCALLY) -> Outcome:
    exposure = Exposure(host_port=host_port, node_port=node_port, listen=listen)
    return expose.expose(world.driver, name, exposure, world.host, reporter=world.reporter)


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_is_refused_and_nothing_is_changed(world: World, case: str) -> None:
    world.begin_with(3)
    world.engine.add_foreign_node("foreign", status="running")
    world.slurm.jobs["c002"] = "17"
    forward(world, "c001", 7001, 80)
    world.host.listening[22] = "sshd (process 812) listens on port 22 of 0.0.0.0"
    before = world.engine.dump()
    with pytest.raises(UsageError) as caught:
        REFUSED[case](world)
    error: GpuprovError = caught.value
    assert error.exit_code == 2
    assert error.what
    assert error.evidence
    assert error.fix
    assert world.engine.dump() == before


def test_stop_and_start(world: World) -> None:
    world.begin_with(3)
    outcome = start_stop.stop_nodes(world.driver, ["c001", "c002"], world.host, reporter=world.reporter)
    assert outcome.changed == ("stopped c001", "stopped c002")
    assert world.engine.nodes["c001"].state().status == "stopped"
    assert start_stop.stop_nodes(world.driver, ["c001"], world.host, reporter=world.reporter).unchanged
    outcome = start_stop.start_nodes(world.driver, ["c001", "c002"], world.host, reporter=world.reporter)
    assert outcome.changed == ("started c001", "started c002")
    assert world.engine.nodes["c001"].state().status == "running"
    assert start_stop.start_nodes(world.driver, ["c001"], world.host, reporter=world.reporter).unchanged


def test_a_node_that_was_away_gets_the_files_it_missed(world: World) -> None:
    world.begin_with(2)
    start_stop.stop_nodes(world.driver, ["c001"], world.host, reporter=world.reporter)
    world.create("web", role="plain")
    assert "web" not in world.file("c001", "/etc/hosts")
    start_stop.start_nodes(world.driver, ["c001"], world.host, reporter=world.reporter)
    assert "web" in world.file("c001", "/etc/hosts")


def test_for_a_node_that_nobody_has_had_only_names_are_asked(world: World) -> None:
    world.begin_with(3)
    world.engine.faults.passed.clear()
    assert remove_nodes.remove_nodes(world.driver, ["nobody"], world.host, reporter=world.reporter).unchanged
    assert "note there is no node nobody" in world.reporter.lines
    asked = [step for step, _ in world.engine.faults.passed]
    assert set(asked) <= {"find_node", "list_nodes", "list_networks"}
    assert (asked.count("list_networks"), asked.count("list_nodes")) == (2, 2)


def test_remove_tells_the_others(world: World) -> None:
    world.begin_with(3)
    outcome = remove_nodes.remove_nodes(world.driver, ["c002", "c002"], world.host, reporter=world.reporter)
    assert outcome.changed[0] == "removed c002"
    assert world.names == ["c000", "c001"]
    assert "c002" not in world.file("c000", "/etc/slurm/slurm.conf")
    assert ("c000", "slurmctld") in world.slurm.restarted


def test_the_whole_cluster_can_be_removed_node_by_node(world: World) -> None:
    world.begin_with(2)
    remove_nodes.remove_nodes(world.driver, ["c000", "c001"], world.host, reporter=world.reporter)
    assert world.names == []


def test_snapshot_and_restore(world: World) -> None:
    world.begin_with(1)
    start_stop.snapshot(world.driver, "c000", "one", world.host, reporter=world.reporter)
    before = world.engine.dump()
    assert start_stop.snapshot(world.driver, "c000", "one", world.host, reporter=world.reporter).unchanged
    assert "warn c000 already has a snapshot one; it is kept unchanged" in world.reporter.lines
    assert world.engine.dump() == before
    del world.engine.nodes["c000"].files["/etc/hosts"]
    start_stop.restore(world.driver, "c000", "one", world.host, reporter=world.reporter)
    assert "c000" in world.file("c000", "/etc/hosts")


@pytest.mark.parametrize("pauses", [False, True])
def test_under_the_lock_a_node_is_read_once(world: World, pauses: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    world.up(1)
    world.engine.snapshot_pauses = pauses
    found: list[int] = []
    lock = FakeHost.lock

    @contextmanager
    def counting(host: FakeHost, reporter: Reporter) -> Iterator[None]:
        with lock(host, reporter):
            world.engine.faults.clear()
            yield
            found.append(world.engine.faults.passed.count(("find_node", "c000")))

    monkeypatch.setattr(FakeHost, "lock", counting)
    start_stop.snapshot(world.driver, "c000", "one", world.host, reporter=world.reporter)
    start_stop.restore(world.driver, "c000", "one", world.host, reporter=world.reporter)
    assert found == [1, 1]


def test_a_restored_node_gets_the_files_of_today(world: World) -> None:
    world.begin_with(1)
    start_stop.snapshot(world.driver, "c000", "one", world.host, reporter=world.reporter)
    world.up(2)
    start_stop.restore(world.driver, "c000", "one", world.host, reporter=world.reporter)
    assert "NodeName=c001" in world.file("c000", "/etc/slurm/slurm.conf")


def test_starting_asks_for_networks_before_the_lock_and_under_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """LXD takes about a second for each answer."""
    world.begin_with(2)
    world.driver.stop_node("c001")
    driver, asked = world.driver, list[str]()

    def ask() -> list[NetworkState]:
        asked.append(driver.name)
        return type(driver).list_networks(driver)

    monkeypatch.setattr(driver, "list_networks", ask)
    start_stop.start_nodes(driver, ["c001"], world.host, reporter=world.reporter)
    assert world.engine.nodes["c001"].status == "running"
    assert len(asked) == 2


def test_an_engine_that_exposes_stopped_nodes_only_gets_them(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.begin_with(2)
    world.driver.stop_node("c001")
    with pytest.raises(UsageError, match="is not running"):
        forward(world, "c001", 7005, 80)
    monkeypatch.setattr(type(world.driver), "capabilities", world.driver.capabilities - {"expose-live"})
    forward(world, "c001", 7005, 80)
    assert [exposure.host_port for exposure in world.engine.nodes["c001"].exposed] == [7005]


def test_a_port_waits_for_no_other_command(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even where it means another container."""
    world.begin_with(1)
    monkeypatch.setattr("gpuprov.core.lock.TIMEOUT_S", 0.0)
    with world.host.lock(world.reporter):
        for capabilities in (world.driver.capabilities, world.driver.capabilities - {"expose-live"}):
            monkeypatch.setattr(type(world.driver), "capabilities", capabilities)
            forward(world, "c000", 7000, 80)
            assert [exposure.host_port for exposure in world.engine.nodes["c000"].exposed] == [7000]
            expose.unexpose(world.driver, "c000", 7000, reporter=world.reporter)
            assert world.engine.nodes["c000"].exposed == ()


def test_expose_again_changes_nothing(world: World) -> None:
    world.begin_with(1)
    exposure = Exposure(host_port=7000, node_port=8080)
    assert expose.expose(world.driver, "c000", exposure, world.host, reporter=world.reporter).changed
    assert expose.expose(world.driver, "c000", exposure, world.host, reporter=world.reporter).unchanged
    assert expose.unexpose(world.driver, "c000", 7000, reporter=world.reporter).changed
    assert world.engine.nodes["c000"].exposed == ()


@pytest.mark.parametrize(
    ("listen", "where", "said"),
    [
        (
            LOCALLY,
            "(127.0.0.1 only)",
            "note only this host can reach it; for other machines: gpuprov unexpose c000 7000",
        ),
        (EVERYWHERE, "(all addresses)", "warn every machine that can reach this host can now reach port 80 of c000"),
        ("10.1.2.3", "of 10.1.2.3 is", "warn every machine that can reach this host can now reach port 80 of c000"),
    ],
)
def test_who_reaches_an_exposed_port_is_said(world: World, listen: str, where: str, said: str) -> None:
    world.begin_with(1)
    (changed,) = forward(world, "c000", 7000, 80, listen=listen).changed
    assert where in changed
    assert any(line.startswith(said) for line in world.reporter.lines)
    if listen == LOCALLY:  # what is suggested is done
        expose.unexpose(world.driver, "c000", 7000, reporter=world.reporter)
        assert "(all addresses)" in forward(world, "c000", 7000, 80, listen=EVERYWHERE).changed[0]


def test_a_port_that_the_host_uses_is_refused_with_who_uses_it(world: World) -> None:
    world.begin_with(1)
    world.host.listening[22] = "sshd (process 812) listens on port 22 of 0.0.0.0"
    with pytest.raises(UsageError) as caught:
        forward(world, "c000", 22, 22)
    assert caught.value.what == "port 22 of the host is in use"
    assert caught.value.evidence == "sshd (process 812) listens on port 22 of 0.0.0.0"
    assert "gpuprov expose c000 22 --port 10022" in caught.value.fix


def test_a_port_that_leads_into_a_stopped_node_of_another_engine_is_refused(world: World) -> None:
    """Docker's `start` would fail."""
    world.begin_with(1)
    docker = FakeDriver(FakeEngine())
    docker.name = "docker"
    docker.engine.nodes["d000"] = FakeNode(name="d000", exposed=(Exposure(host_port=8080, node_port=80),))
    world.host.engines = (door_of(docker),)
    with pytest.raises(UsageError, match="port 8080 of the host is already forwarded") as caught:
        forward(world, "c000", 8080, 80)
    assert caught.value.evidence == "docker forwards it to d000, which is stopped"
    assert caught.value.fix.endswith("gpuprov unexpose d000 8080 --engine docker")
    assert forward(world, "c000", 8081, 80).changed


def test_an_engine_that_is_silent_about_its_ports_is_named(world: World) -> None:
    world.begin_with(1)
    world.host.engines = (door_without("docker", installed=True),)
    assert forward(world, "c000", 8080, 80).changed
    assert any(line.startswith("warn docker is omitted: docker is not running") for line in world.reporter.lines)


def test_status_says_what_is_wrong(world: World) -> None:
    world.begin_with(3)
    world.slurm.silent.add("c001")
    world.driver.stop_node("c002")
    rows = {row.name: row for row in cluster_rows(world.driver, "lab")}
    assert rows["c000"].health == "ok"
    assert rows["c000"].simulated
    assert rows["c001"].work == "down*"
    assert "Slurm reports down*" in rows["c001"].health
    assert rows["c002"].health.startswith("stopped")


def test_list_shows_foreign_instances_only_when_asked(world: World) -> None:
    world.begin_with(1)
    world.engine.add_foreign_node("foreign")
    assert [row.name for row in list_rows(world.driver, everything=False)] == ["c000"]
    rows = {row.name: row for row in list_rows(world.driver, everything=True)}
    assert rows["foreign"].cluster == "(foreign)"
