"""A host that is unreachable for long: its nodes get no work, and again some once it is back."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest

from gpuprov.core.errors import TimedOut
from gpuprov.fleet.done import VerifiedHosts
from gpuprov.fleet.unreachable_hosts import sound_nodes
from gpuprov.machine.survey import EngineDoor
from gpuprov.shapes.verify import Check, NodeReport, Report
from tests.fakes.doors import door_without
from tests.fakes.slurm import Drain
from tests.unit.cli.test_spanning import AWAY, lab

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpuprov.shapes.verify import CheckStatus
    from tests.fakes.slurm import SlurmInNodes
    from tests.fakes.world import World
    from tests.unit.cli.test_spanning import Typing

pytestmark = pytest.mark.slow

__all__ = ["lab"]
LOST = {"c002", "c003"}


def ago(seconds: float) -> str:
    return (datetime.now(timezone.utc) - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def lose(lab: Typing, *, seconds: float) -> SlurmInNodes:
    """Bring the cluster up; then hinton has been away for so long, and Slurm does not hear its nodes."""
    lab.type("cluster", "up", "-f", lab.file, "--no-verify")
    lab.hosts.away, lab.hosts.since = {"hinton"}, ago(seconds)
    slurm = lab.hosts.worlds["hoff"].slurm
    slurm.silent |= LOST
    return slurm


def test_nodes_of_a_host_that_is_away_for_long_are_down_with_the_reason(lab: Typing) -> None:
    slurm = lose(lab, seconds=31)
    told = lab.json("cluster", "up", "--no-verify", expect=AWAY)
    since = lab.hosts.since
    assert told["changed"] == [
        f"hoff: mark {node} down: host hinton is unreachable since {since}" for node in sorted(LOST)
    ]
    assert slurm.down == LOST
    assert {slurm.reasons[node].reason for node in LOST} == {f"gpuprov: host hinton unreachable since {since}"}
    assert lab.json("cluster", "up", "--no-verify", expect=AWAY)["unchanged"]
    assert lab.hosts.worlds["hinton"].engine.nodes.keys() >= LOST, "they are never removed"


def test_a_command_about_such_nodes_leaves_them_as_they_are(lab: Typing) -> None:
    slurm = lose(lab, seconds=31)
    lab.type("cluster", "up", "--no-verify", expect=AWAY)
    reasons = dict(slurm.reasons)
    assert reasons.keys() == LOST
    lab.type("stop", "c003", expect=AWAY)
    assert (slurm.drains, slurm.reasons) == ({}, reasons)


def test_nobody_is_told_before_the_time_that_the_spec_says(lab: Typing) -> None:
    slurm = lose(lab, seconds=5)
    lab.hosts.asked.clear()
    assert lab.json("cluster", "up", "--no-verify", expect=AWAY)["unchanged"]
    assert (slurm.down, [verb for _, verb in lab.hosts.asked if verb == "unreachable"]) == (set(), [])


def test_nodes_that_slurm_hears_and_those_that_somebody_drained_stay_as_they_are(lab: Typing) -> None:
    slurm = lose(lab, seconds=300)
    slurm.silent.discard("c002")
    slurm.drains["c003"] = Drain(reason="the fan is loud", user="carol")
    assert lab.json("cluster", "up", "--no-verify", expect=AWAY)["unchanged"]
    assert slurm.down == set()


def test_slurm_need_not_have_noticed_it_if_its_controller_does_not_reach_the_nodes_either(lab: Typing) -> None:
    slurm = lose(lab, seconds=300)
    slurm.silent, slurm.unnoticed = set(), {"c000", "c003"}
    assert len(lab.json("cluster", "up", "--no-verify", expect=AWAY)["changed"]) == 1
    assert slurm.down == {"c003"}, "c002 answers, and the host of c000 does"


def test_a_watch_marks_nodes_before_it_verifies_others(lab: Typing, monkeypatch: pytest.MonkeyPatch) -> None:
    slurm = lose(lab, seconds=300)
    seen: list[set[str]] = []

    def verify(*_: object, **__: object) -> VerifiedHosts:
        seen.append(set(slurm.down))
        return VerifiedHosts(report=Report(cluster="lab", nodes=(), duration_s=1), failed={}, asked=2)

    monkeypatch.setattr("gpuprov.core.rounds.every", lambda _interval_s, _clock: iter([None]))
    monkeypatch.setattr("gpuprov.fleet.verify_hosts.verify_over_hosts", verify)
    lab.type("verify", "--watch", "1")
    assert seen == [LOST]


def test_up_resumes_what_it_marked_and_nothing_else(lab: Typing) -> None:
    slurm = lose(lab, seconds=300)
    lab.json("cluster", "up", "--no-verify", expect=AWAY)
    lab.hosts.away.clear()
    slurm.silent.clear()
    slurm.reasons["c003"].reason = "carol looks at it"
    assert lab.json("cluster", "up", "--no-verify")["changed"] == ["hoff: resume c002: its host is back"]
    assert slurm.down == {"c003"}
    assert lab.json("cluster", "up", "--no-verify")["unchanged"]


def test_up_resumes_nodes_that_slurm_has_given_up(lab: Typing) -> None:
    slurm = lose(lab, seconds=300)
    slurm.down |= LOST  # Slurm, after a cut that was longer than SlurmdTimeout, asks them again only rarely
    slurm.reasons["c002"] = Drain(reason="Not responding", user="slurm")
    slurm.reasons["c003"] = Drain(reason="Not responding to carol", user="carol")
    lab.hosts.away.clear()
    assert lab.json("cluster", "up", "--no-verify")["changed"] == ["hoff: resume c002: its host is back"]


def test_a_watch_marks_and_resumes_only_nodes_that_are_sound(lab: Typing, monkeypatch: pytest.MonkeyPatch) -> None:
    slurm = lose(lab, seconds=300)
    seen: list[set[str]] = []

    def rounds(_interval_s: float, _clock: object) -> Iterator[None]:
        yield
        seen.append(set(slurm.down))
        lab.hosts.away.clear()
        slurm.silent.clear()
        yield
        seen.append(set(slurm.down))

    monkeypatch.setattr("gpuprov.core.rounds.every", rounds)
    monkeypatch.setattr("gpuprov.fleet.unreachable_hosts.sound_nodes", lambda _report: ("c002",))
    lab.type("verify", "--watch", "1")
    assert seen == [LOST, {"c003"}], "nothing runs in nodes of a fake engine, so that no node passes by itself"


def test_a_slurm_that_does_not_answer_is_a_warning_and_no_loss(lab: Typing, monkeypatch: pytest.MonkeyPatch) -> None:
    slurm = lose(lab, seconds=300)

    def hang(*_: object, **__: object) -> str:
        raise TimedOut("sinfo has not answered", evidence="15 s", fix="")

    monkeypatch.setattr("gpuprov.roles.slurm.unreachable.ask_words", hang)
    assert len(lab.json("cluster", "up", "--no-verify", expect=AWAY)["nodes"]) == 4
    assert "Slurm does not know yet which hosts are unreachable or back: sinfo has not answered: 15 s" in lab.errors
    assert slurm.down == set()


def test_the_host_of_the_controller_is_not_asked_while_it_is_away(lab: Typing) -> None:
    lab.type("cluster", "up", "-f", lab.file, "--no-verify")
    lab.hosts.away, lab.hosts.since = {"hoff"}, ago(300)
    lab.hosts.asked.clear()
    lab.type("cluster", "up", "--no-verify", expect=AWAY)
    assert "unreachable" not in [verb for _, verb in lab.hosts.asked]


STALLED = (
    "no node of cluster lab takes new jobs: the Slurm service in c000 on hoff does not answer; "
    "running jobs on the other nodes continue"
)


@pytest.mark.parametrize(
    "typed", [("cluster", "up", "--no-verify"), ("cluster", "up", "-n", "5", "--no-verify"), ("cluster", "status")]
)
def test_without_the_controllers_host_it_is_said_that_no_jobs_start(lab: Typing, typed: tuple[str, ...]) -> None:
    lab.type("cluster", "up", "-f", lab.file, "--no-verify")
    lab.hosts.away = {"hoff"}
    shown = lab.type(*typed, expect=AWAY)
    assert STALLED in lab.errors
    assert "exec c000" not in shown + lab.errors, "nobody can type that now"
    assert STALLED in lab.json(*typed, expect=AWAY)["error"]["evidence"].splitlines()


@pytest.mark.parametrize("host", ["hoff", "hinton"])
def test_up_waits_once_for_a_host_that_is_away(lab: Typing, host: str) -> None:
    lab.type("cluster", "up", "-f", lab.file, "--no-verify")
    lab.hosts.away = {host}
    for typed in (("up", "--no-verify"), ("up", "-n", "5", "--no-verify"), ("plan",)):
        lab.hosts.asked.clear()
        lab.type("cluster", *typed, expect=AWAY)
        assert [verb for name, verb in lab.hosts.asked if name == host] == ["part"]
        assert f"{host} is unreachable since" in lab.errors
    lab.hosts.away = set()
    lab.type("cluster", "up", "--no-verify")


MAY_HAVE = "hosts that may have the cluster lab do not answer: hinton (1 of 2 hosts)"
HERE_ALONE = "for a cluster on this machine alone, add --engine ENGINE"


@pytest.mark.parametrize(
    "typed",
    [
        ("cluster", "down", "--yes"),
        ("cluster", "status"),
        ("cluster", "up", "-n", "2", "--no-verify"),
        ("cluster", "plan"),
        ("create-node", "c007"),
        ("create-node", "c007", "--host", "hoff"),
        ("create-node", "c007", "--host", "hinton"),
    ],
)
def test_a_host_that_is_away_may_have_what_no_other_has(lab: Typing, typed: tuple[str, ...]) -> None:
    lab.type("cluster", "up", "-f", lab.file, "--no-verify")
    lab.hosts.away = {"hinton"}
    lab.type("cluster", "down", "--yes", expect=AWAY)
    assert lab.hosts.worlds["hoff"].engine.nodes == {}
    lab.type(*typed, expect=AWAY)
    assert MAY_HAVE in lab.errors
    assert (HERE_ALONE in lab.errors) is ("--host" not in typed)
    assert lab.hosts.worlds["hoff"].engine.nodes == {}
    lab.hosts.away.clear()
    assert "removed node c003" in lab.type("cluster", "down", "--yes")


def test_where_no_host_answers_a_node_is_not_made_here_unasked(lab: Typing) -> None:
    lab.hosts.away = {"hoff", "hinton"}
    lab.hosts.controller.engines = lab.hosts.worlds["hoff"].host.engines
    lab.type("create-node", "c007", expect=3)
    assert "none of 2 hosts responds" in lab.errors
    assert HERE_ALONE in lab.errors
    assert lab.hosts.worlds["hoff"].engine.nodes == {}


def test_a_node_joins_the_cluster_that_its_host_has_alone_while_another_host_is_away(lab: Typing) -> None:
    lab.type("create-node", "c000", "--host", "hoff", "--role", "plain")
    lab.hosts.away = {"hinton"}
    lab.type("create-node", "c007", "--host", "hoff")
    assert set(lab.hosts.worlds["hoff"].engine.nodes) == {"c000", "c007"}


def doors(world: World, case: str) -> tuple[EngineDoor, ...]:
    """Engines of a host without LXD."""
    docker = EngineDoor(name="docker", open=lambda: world.driver, installed=lambda: True)
    return {
        "no engine": (),
        "none that is installed": (door_without("lxd", installed=False), door_without("incus", installed=False)),
        "docker alone": (docker, door_without("lxd", installed=False)),
        "lxd silent": (door_without("lxd", installed=True),),
        "docker silent": (door_without("docker", installed=True),),
    }[case]


@pytest.mark.parametrize("case", ["no engine", "none that is installed", "docker alone"])
@pytest.mark.parametrize(
    "typed",
    [("cluster", "up", "-n", "1", "--no-verify"), ("create-node", "c007"), ("create-node", "c007", "--host", "hoff")],
)
def test_a_host_without_an_engine_has_nothing_of_a_cluster(lab: Typing, case: str, typed: tuple[str, ...]) -> None:
    hoff, hinton = (lab.hosts.worlds[name] for name in ("hoff", "hinton"))
    hinton.host.engines = doors(hinton, case)
    lab.hosts.controller = hoff.host
    lab.type(*typed)
    assert len(hoff.engine.nodes) == 1
    assert "hinton" not in lab.errors


@pytest.mark.parametrize("case", ["lxd silent", "docker silent"])
@pytest.mark.parametrize("typed", [("cluster", "status"), ("create-node", "c007", "--host", "hoff")])
def test_an_engine_that_is_installed_and_silent_may_have_it(lab: Typing, case: str, typed: tuple[str, ...]) -> None:
    hinton = lab.hosts.worlds["hinton"]
    hinton.host.engines = doors(hinton, case)
    lab.type(*typed, expect=AWAY)
    assert MAY_HAVE in lab.errors


def test_where_no_host_has_an_engine_there_is_no_cluster(lab: Typing) -> None:
    for world in lab.hosts.worlds.values():
        world.host.engines = ()
    assert lab.json("cluster", "status", expect=2)["nodes"] == []
    lab.type("cluster", "up", expect=3)
    assert "error: lxd is not on this host" in lab.errors, "as for a cluster on this machine alone"


def test_a_host_of_a_cluster_that_has_lost_its_engine_is_named(lab: Typing) -> None:
    lab.type("cluster", "up", "-f", lab.file, "--no-verify")
    lab.hosts.worlds["hinton"].host.engines = ()
    told = lab.json("cluster", "status", expect=AWAY)["error"]
    assert "not all hosts answered: hinton (1 of 2 hosts)" in told["what"]
    assert told["evidence"].startswith("hinton: lxd is not on this host: its engines: none")
    assert told["fix"] == "on hinton: sudo gpuprov host prepare --engine lxd"
    lab.type("create-node", "c007", "--host", "hinton", expect=3)
    assert "hinton: lxd is not on this host" in lab.errors


def test_what_is_next_after_up_is_done_in_nodes_that_answer(lab: Typing) -> None:
    lab.type("cluster", "up", "-f", lab.file, "--no-verify")
    lab.hosts.away = {"hoff"}
    assert lab.type("cluster", "up", "--no-verify", expect=AWAY).partition("next:\n")[2].splitlines() == [
        "  gpuprov shell c002",
        "  gpuprov cluster status",
        "  gpuprov cluster down",
    ]
    lab.hosts.away = {"hinton"}
    shown = lab.type("cluster", "up", "--no-verify", expect=AWAY)
    assert "gpuprov exec c000 -- srun -N2 hostname" in shown, "on the two nodes that answer"
    assert "takes new jobs" not in lab.errors


def test_a_node_is_sound_if_at_most_slurm_complains() -> None:
    def node(name: str, *found: tuple[str, CheckStatus]) -> NodeReport:
        checks = tuple(
            Check(id=f"{layer}-x", layer=layer, status=status, severity="critical", evidence="-")
            for layer, status in found
        )
        return NodeReport(node=name, access="none", gpus=(), checks=checks, duration_s=0)

    nodes = (
        node("c000", ("node", "pass"), ("slurm", "fail")),
        node("c001", ("node", "pass"), ("network", "fail")),
        node("c002", ("node", "skip")),
        node("c003", ("node", "pass"), ("nvml", "unknown")),
    )
    assert sound_nodes(Report(cluster="lab", nodes=nodes, duration_s=1)) == ("c000",)
