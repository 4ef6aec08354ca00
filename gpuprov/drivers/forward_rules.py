"""Docker has the host drop what it forwards for bridges that Docker does not know: who lets ours through, and how.

Role `host` lets the usual bridges through, by `gpbr+`, before there are any. This is about those of other names. What
Docker itself makes it lets through.
"""

from __future__ import annotations

import os
from typing import Final

from gpuprov.core.errors import HostNotReady
from gpuprov.core.execution import CommandMissing, run
from gpuprov.core.names import BRIDGES
from gpuprov.drivers.forward_words import DOCKERS, WAYS, is_dropped, rule_for

_IPTABLES: Final = ("iptables", "-w", "5")
_BUDGET_S: Final = 10.0


def read_forward_rules() -> tuple[str, ...] | None:
    """What `iptables -S` says of FORWARD and DOCKER-USER; None where this user may not read it."""
    rules: list[str] = []
    for chain in ("FORWARD", DOCKERS):
        try:
            answer = run([*_IPTABLES, "-S", chain], timeout_s=_BUDGET_S, check=False)
        except CommandMissing:
            return ()  # nobody can have set a policy with a program that is not there
        if answer.exit_code != 0 and chain == "FORWARD":
            return None
        rules += answer.stdout.splitlines()
    return tuple(rules)


def let_through(bridge: str) -> None:
    """Have the host forward for a bridge where Docker has it drop that; only root can see and change it.

    Raises:
        HostNotReady: The rules cannot be added.
    """
    rules = read_forward_rules() if os.geteuid() == 0 else None
    if rules is None or not is_dropped(rules, bridge) or not any(DOCKERS in rule for rule in rules):
        return
    for way in WAYS:
        done = run([*_IPTABLES, "-I", *rule_for(way, bridge)], timeout_s=_BUDGET_S, check=False)
        if done.exit_code != 0:
            raise HostNotReady(
                f"nodes on {bridge} cannot reach the outside: the policy of FORWARD is DROP, as Docker sets it",
                evidence=f"iptables does not add a rule to {DOCKERS}: {(done.stderr or done.stdout).strip()}",
                fix=f"sudo iptables -I {' '.join(rule_for('-i', bridge))} && sudo iptables -I "
                f"{' '.join(rule_for('-o', bridge))}",
            )


def end_passage(bridge: str) -> None:
    """Take the rules of a bridge away that is gone; those of the usual bridges are the host's, and stay."""
    if os.geteuid() != 0 or bridge.startswith(BRIDGES):
        return
    rules = read_forward_rules() or ()
    for way in WAYS:
        if any(rule.split()[1:] == list(rule_for(way, bridge)) for rule in rules):
            run([*_IPTABLES, "-D", *rule_for(way, bridge)], timeout_s=_BUDGET_S, check=False)
