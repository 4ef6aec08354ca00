from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from gpuprov.cluster import services
from gpuprov.drivers.base import ExecResult, NodeRequest
from tests.fakes.driver import FakeDriver
from tests.fakes.engine import Command, FakeEngine, FakeImage

if TYPE_CHECKING:
    from gpuprov.drivers.capabilities import Capability


class BareDriver(FakeDriver):
    """An engine that runs no systemd."""

    capabilities: frozenset[Capability] = FakeDriver.capabilities - {"systemd"}


def driver(kind: type[FakeDriver], said: list[str]) -> FakeDriver:
    """One running node, which writes down what it is told."""

    def answer(command: Command) -> ExecResult:
        said.append(" ".join(command.argv))
        return ExecResult(exit_code=0, stdout="running\n", stderr="")

    engine = FakeEngine(answer=answer)
    engine.images["i"] = FakeImage(id="i", name="i", ours=False)
    made = kind(engine)
    made.create_node(NodeRequest(name="c000", image="i", labels={"gpuprov.cluster": "lab"}))
    made.start_node("c000")
    return made


@pytest.mark.parametrize(
    ("kind", "init", "verbs"),
    [
        (FakeDriver, "systemd", ["systemctl is-system-running", "systemctl restart slurmd"]),
        (BareDriver, "runit", ["echo running", "sv -w 10 restart slurmd"]),
    ],
)
def test_each_init_hears_its_own_verbs(kind: type[FakeDriver], init: str, verbs: list[str]) -> None:
    said: list[str] = []
    engine = driver(kind, said)
    assert services.init_of(engine) == init
    assert services.is_booted(services.boot_state(engine, "c000"))
    services.restart(engine, "c000", "slurmd")
    assert said == verbs


def test_a_boot_that_goes_on_is_no_boot() -> None:
    assert not services.is_booted("starting")
    assert services.is_booted("degraded")


def test_what_is_left_of_a_boot_is_as_much_as_can_be_where_nobody_says() -> None:
    def answering(stdout: str, status: int) -> FakeDriver:
        made = driver(FakeDriver, [])
        made.engine.answer = lambda _command: ExecResult(exit_code=status, stdout=stdout, stderr="")
        return made

    assert (
        services.undone_of_boot(answering("12 a.service start running\n13 b.service start waiting\n", 0), "c000") == 2
    )
    assert services.undone_of_boot(answering("Failed to connect to bus\n", 1), "c000") == sys.maxsize
    assert services.undone_of_boot(driver(BareDriver, []), "c000") == sys.maxsize


def test_a_copy_gets_a_key_and_an_id_and_no_part_in_its_role_under_either_init() -> None:
    for kind, other in ((FakeDriver, "sv "), (BareDriver, "systemctl")):
        said: list[str] = []
        services.give_identity(driver(kind, said), "c000", forget="rm -f /etc/role")
        assert "rm -f /etc/role" in said[0]
        assert "/etc/machine-id" in said[0]
        assert other not in said[0]


def test_the_next_command_is_one_that_the_node_has() -> None:
    with_systemd, without = driver(FakeDriver, []), driver(BareDriver, [])
    assert services.status_command(with_systemd, "c000", "slurmd") == "gpuprov exec c000 -- systemctl status slurmd"
    assert services.status_command(without, "c000", "slurmd") == "gpuprov exec c000 -- sv status slurmd"
    assert "journalctl" in services.log_command(with_systemd, "c000", ["slurmd"])
    assert services.log_command(without, "c000", ["slurmd"]) == "gpuprov logs c000"
