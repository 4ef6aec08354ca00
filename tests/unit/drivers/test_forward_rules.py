from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from gpuprov.core.errors import HostNotReady
from gpuprov.core.execution import Completed
from gpuprov.drivers import forward_rules
from gpuprov.drivers.forward_rules import end_passage, let_through
from gpuprov.drivers.forward_words import is_dropped

if TYPE_CHECKING:
    from collections.abc import Sequence

DOCKER = ("-P FORWARD DROP", "-A FORWARD -j DOCKER-USER", "-N DOCKER-USER", "-A DOCKER-USER -j RETURN")
USUAL = tuple(f"-A DOCKER-USER {way} gpbr+ -m comment --comment gpuprov -j ACCEPT" for way in ("-i", "-o"))


@pytest.mark.parametrize(
    ("rules", "bridge", "dropped"),
    [
        (("-P FORWARD ACCEPT",), "lab0", False),
        ((), "lab0", False),
        (DOCKER, "lab0", True),
        ((*DOCKER, *USUAL), "lab0", True),
        ((*DOCKER, *USUAL), "gpbr0", False),
        ((*DOCKER, *USUAL), "gpbr12", False),
        ((*DOCKER, USUAL[0]), "gpbr12", True),
        ((*DOCKER, *(rule.replace("+", "1") for rule in USUAL)), "gpbr12", True),
        ((*DOCKER, *(rule.replace("ACCEPT", "DROP") for rule in USUAL)), "gpbr0", True),
        ((*DOCKER, "-A FORWARD -i lab0 ! -o lab0 -j ACCEPT"), "lab0", False),  # as Docker does for its own
    ],
)
def test_what_is_dropped(rules: Sequence[str], bridge: str, dropped: bool) -> None:
    assert is_dropped(rules, bridge) == dropped


def done(exit_code: int, stdout: str, stderr: str) -> Completed:
    return Completed(argv=("iptables",), exit_code=exit_code, stdout=stdout, stderr=stderr, seconds=0.0)


class Firewall:
    """What iptables has: FORWARD, and the chain that Docker leaves to others."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, policy: str = "DROP", docker: bool = True) -> None:
        self.forward = [f"-P FORWARD {policy}", *(["-A FORWARD -j DOCKER-USER"] if docker else [])]
        self.users = ["-N DOCKER-USER", *USUAL] if docker else []
        self.broken = False
        monkeypatch.setattr(forward_rules, "run", self._run)
        monkeypatch.setattr(os, "geteuid", lambda: 0)

    def _run(self, argv: Sequence[str], **_: object) -> Completed:
        verb, chain, *words = argv[3:]
        assert list(argv[:3]) == ["iptables", "-w", "5"]
        if verb == "-S":
            rules = self.forward if chain == "FORWARD" else self.users
            return done(0 if rules else 1, "\n".join(rules), "")
        if self.broken:
            return done(4, "", "no permission")
        rule = " ".join(("-A", chain, *words))
        self.users.insert(1, rule) if verb == "-I" else self.users.remove(rule)
        return done(0, "", "")

    @property
    def added(self) -> list[str]:
        return sorted(rule for rule in self.users if rule not in ("-N DOCKER-USER", *USUAL))


BOTH = [f"-A DOCKER-USER {way} lab0 -m comment --comment gpuprov -j ACCEPT" for way in ("-i", "-o")]


def test_a_bridge_of_another_name_is_let_through_once_and_until_it_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    firewall = Firewall(monkeypatch)
    for _ in range(2):
        let_through("lab0")
        assert firewall.added == BOTH
    end_passage("other0")
    assert firewall.added == BOTH
    for _ in range(2):
        end_passage("lab0")
        assert firewall.added == []


def test_the_usual_bridges_are_the_host_s(monkeypatch: pytest.MonkeyPatch) -> None:
    firewall = Firewall(monkeypatch)
    let_through("gpbr2")
    end_passage("gpbr2")
    assert firewall.users == ["-N DOCKER-USER", *USUAL]
    firewall.users[1:] = []  # of a host that an earlier gpuprov prepared
    let_through("gpbr2")
    assert len(firewall.added) == 2


@pytest.mark.parametrize(("policy", "docker"), [("ACCEPT", True), ("ACCEPT", False), ("DROP", False)])
def test_only_docker_s_policy_is_made_up_for(monkeypatch: pytest.MonkeyPatch, policy: str, docker: bool) -> None:
    firewall = Firewall(monkeypatch, policy=policy, docker=docker)
    let_through("lab0")
    assert firewall.added == []


def test_without_root_nothing_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    firewall = Firewall(monkeypatch)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    let_through("lab0")
    end_passage("lab0")
    assert firewall.added == []


def test_a_refusal_is_told_with_what_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    firewall = Firewall(monkeypatch)
    firewall.broken = True
    with pytest.raises(HostNotReady, match="nodes on lab0 cannot reach the outside") as caught:
        let_through("lab0")
    assert "no permission" in caught.value.evidence
    assert caught.value.fix.startswith("sudo iptables -I DOCKER-USER -i lab0 -m comment")
