"""Whatever somebody changed: the plan names it, `cluster up` repairs it and nothing else, and then all is as asked."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from gpuprov.cluster.drift import changed_settings
from gpuprov.core.errors import UsageError
from gpuprov.drivers.base import LABEL_ROLE, File
from gpuprov.lifecycle.cluster_up import preview_changes
from gpuprov.shapes.base import changed
from gpuprov.shapes.node import CharDevice, Mount, Setting

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fakes.world import World

CONF = "/etc/slurm/slurm.conf"


def edit(world: World, name: str, path: str, *, content: bytes = b"edited\n") -> None:
    world.engine.nodes[name].files[path] = replace(world.engine.nodes[name].files[path], content=content)


def lose_nat(world: World) -> None:
    network = world.engine.networks["gpbr0"]
    world.engine.networks["gpbr0"] = changed(network, settings={**network.settings, "nat": Setting(value="off")})


def other_address(world: World) -> None:
    network = world.engine.networks["gpbr0"]
    settings = {**network.settings, "address": Setting(value="10.9.9.1/24")}
    world.engine.networks["gpbr0"] = changed(network, address="10.9.9.1/24", settings=settings)


def other_node_address(world: World) -> None:
    eth0, eth1 = world.engine.nodes["c001"].attachments
    world.engine.nodes["c001"].attachments = (changed(eth0, address="10.0.3.99/24"), eth1)


def set_node(**values: object) -> Callable[[World], None]:
    def change(world: World) -> None:
        for key, value in values.items():
            setattr(world.engine.nodes["c001"], key, value)

    return change


def lose_mode(world: World) -> None:
    files = world.engine.nodes["c001"].files
    files["/etc/munge/munge.key"] = replace(files["/etc/munge/munge.key"], mode=0o644)


CASES: dict[str, tuple[Callable[[World], object], str, set[str]]] = {
    # what is done, what the plan names, which kinds of steps the repair may take
    "a device is gone": (
        set_node(devices=()),
        "repair node c001: devices /dev/nvidia1, /dev/nvidiactl (until now none)",
        {"set_devices", "set_labels"},
    ),
    "a device more": (
        set_node(devices=(CharDevice(path="/dev/sda", major=8, minor=0),)),
        "repair node c001: devices /dev/nvidia1, /dev/nvidiactl (until now /dev/sda)",
        {"set_devices", "set_labels"},
    ),
    "a mount more": (
        set_node(mounts=(Mount(source="/etc", target="/mnt"),)),
        "repair node c001: mounts none (until now /mnt)",
        {"set_devices", "set_labels"},
    ),
    "a label": (
        lambda world: world.engine.nodes["c001"].labels.update({"gpuprov.sharing": "exclusive"}),
        "repair node c001: gpuprov.sharing shared (until now exclusive)",
        {"set_devices", "set_labels"},
    ),
    "a limit": (
        set_node(memory_bytes=1 << 30),
        "repair node c001: memory 32641122304 (until now 1073741824)",
        {"set_settings", "set_devices", "set_labels"},
    ),
    "privileges": (
        set_node(privileged=True),
        "repair node c001: privileged False (until now True)",
        {"stop_node", "set_settings", "set_devices", "set_labels", "start_node"},
    ),
    "an address": (
        other_node_address,
        "repair node c001: addresses 10.0.3.3/24,10.0.5.2/24 (until now 10.0.3.99/24,10.0.5.2/24)",
        {"stop_node", "set_settings", "set_devices", "set_labels", "start_node"},
    ),
    "NAT": (lose_nat, "repair network gpbr0: nat on (until now off)", {"set_network_settings"}),
    "a bridge's address": (
        other_address,
        "repair network gpbr0: address 10.0.3.1/24 (until now 10.9.9.1/24)",
        {"set_network_settings"},
    ),
    "slurm.conf": (lambda world: edit(world, "c001", CONF), f"renew {CONF} on c001", {"push"}),
    "gres.conf": (
        lambda world: edit(world, "c001", "/etc/slurm/gres.conf"),
        "renew /etc/slurm/gres.conf on c001",
        {"push"},
    ),
    "hosts": (lambda world: edit(world, "c001", "/etc/hosts"), "renew /etc/hosts on c001", {"push"}),
    "the munge key": (
        lambda world: edit(world, "c001", "/etc/munge/munge.key"),
        "renew /etc/munge/munge.key on c001",
        {"push"},
    ),
    "the munge key's mode": (lose_mode, "renew /etc/munge/munge.key on c001", {"push"}),
    "the controller's munge key is gone": (
        lambda world: world.engine.nodes["c000"].files.pop("/etc/munge/munge.key"),
        "renew /etc/munge/munge.key on c000",
        {"push"},
    ),
    "the controller's mark": (
        lambda world: world.engine.nodes["c000"].files.pop("/etc/slurm/controller"),
        "renew /etc/slurm/controller on c000",
        {"push"},
    ),
    "a node is gone": (
        lambda world: world.engine.nodes.pop("c001"),
        "create node c001",
        {"create_node", "start_node"},
    ),
    "a node is stopped": (set_node(status="stopped"), "start node c001", {"start_node"}),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_drift_is_named_repaired_and_said(world: World, case: str) -> None:
    change, words, kinds = CASES[case]
    world.begin_with(3)
    before = world.engine.dump()
    world.engine.faults.clear()
    change(world)
    changed = world.engine.dump()
    assert changed != before
    planned = preview_changes(world.driver, world.spec(3), world.host, reporter=world.reporter)
    assert world.engine.dump() == changed
    assert world.steps() == []
    assert [line for line in planned if line.startswith(words)], planned
    outcome = world.up(3)
    assert outcome.changed == planned
    assert world.engine.dump() == before
    assert {step.partition(":")[0] for step, _ in world.steps()} == kinds
    assert preview_changes(world.driver, world.spec(3), world.host, reporter=world.reporter) == ()
    assert world.up(3).unchanged


def test_what_needs_a_restart_says_so_and_is_refused_under_a_job(world: World) -> None:
    world.begin_with(3)
    set_node(privileged=True)(world)
    assert "restart node c001" in preview_changes(world.driver, world.spec(3), world.host, reporter=world.reporter)
    world.slurm.jobs["c001"] = "17"
    with pytest.raises(UsageError, match="there are jobs on c001"):
        world.up(3)
    world.slurm.jobs.clear()
    world.up(3)
    assert world.up(3).unchanged


REPLACED: dict[str, tuple[Callable[[World], object], bool]] = {
    # what is done, and whether an engine that cannot change a running node's devices must start it again for that
    "a device is gone": (set_node(devices=()), True),
    "a mount more": (set_node(mounts=(Mount(source="/etc", target="/mnt"),)), True),
    "a label": (lambda world: world.engine.nodes["c001"].labels.update({"gpuprov.driver": "1.0"}), False),
    "a device of a stopped node is gone": (set_node(devices=(), status="stopped"), False),
}


@pytest.mark.parametrize("case", REPLACED)
def test_an_engine_that_replaces_nodes_restarts_them_by_name_and_not_under_a_job(
    world: World, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    change, restart = REPLACED[case]
    monkeypatch.setattr(type(world.driver), "capabilities", world.driver.capabilities - {"devices-live"})
    world.begin_with(3)
    before = world.engine.dump()
    change(world)
    changed = world.engine.dump()
    world.slurm.jobs["c001"] = "17"
    if restart:
        for run in (
            lambda: preview_changes(world.driver, world.spec(3), world.host, reporter=world.reporter),
            lambda: world.up(3),
        ):
            with pytest.raises(UsageError, match="there are jobs on c001") as refused:
                run()
            assert refused.value.evidence == "job 17 of alice (train) on c001"
        assert world.engine.dump() == changed
        world.slurm.jobs.clear()
    planned = preview_changes(world.driver, world.spec(3), world.host, reporter=world.reporter)
    assert ("restart node c001" in planned) is restart
    world.engine.faults.clear()
    assert world.up(3).changed == planned
    assert (("stop_node", "c001") in world.steps()) is restart
    assert world.engine.dump() == before
    assert world.up(3).unchanged


def test_a_node_of_create_node_stays_what_was_asked_for(world: World) -> None:
    world.begin_with(2)
    world.create("web", role="plain", gpus="none", privileged=True, network="nat")
    world.create("two", role="slurm", gpus="2,3", sharing="shared")
    before = world.engine.dump()
    assert world.up(2).unchanged
    assert world.engine.dump() == before
    assert world.engine.nodes["web"].labels[LABEL_ROLE] == "plain"


def test_an_edited_configuration_that_daemons_have_read_is_read_anew(world: World) -> None:
    """Killed between writing the file and restarting the daemons: the next run still restarts them."""
    world.begin_with(2)
    edit(world, "c001", CONF)
    world.slurm.start(world.engine.nodes["c001"])
    world.engine.faults.clear()
    world.slurm.restarted.clear()
    world.up(2)
    assert ("c001", "slurmd") in world.slurm.restarted
    pushes = [number for number, step in enumerate(world.engine.faults.passed) if step == ("push", "c001")]
    assert len(pushes) == 3  # mark taken away, file, mark


def test_a_driver_that_cannot_tell_reports_no_drift() -> None:
    assert changed_settings({"a": Setting(value="1")}, {}) == {}
    assert changed_settings({"a": Setting(value="1")}, {"b": Setting(value="2")}) == {
        "a": "a unset (until now 1)",
        "b": "b 2 (until now unset)",
    }


def test_the_value_of_a_secret_variable_is_not_in_the_plan() -> None:
    seen = {"environment.DB_PASSWORD": Setting(value="old"), "environment.A": Setting(value="1")}
    wanted = {"environment.DB_PASSWORD": Setting(value="new"), "environment.MYSQL_PWD": Setting(value="own")}
    assert list(changed_settings(seen, wanted).values()) == [
        "environment.A unset (until now 1)",
        "environment.DB_PASSWORD (hidden) (until now (hidden))",
        "environment.MYSQL_PWD (hidden) (until now unset)",
    ]


def test_a_file_of_the_user_is_the_user_s(world: World) -> None:
    world.begin_with(1)
    world.engine.nodes["c000"].files["/root/.ssh/authorized_keys"] = File(
        path="/root/.ssh/authorized_keys", content=b""
    )
    assert world.up(1).unchanged
