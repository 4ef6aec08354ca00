"""Rules of FORWARD and DOCKER-USER as iptables writes them: what they drop, which let a bridge through. Pure."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

DOCKERS: Final = "DOCKER-USER"  # the chain that Docker leaves to others, before its own
WAYS: Final = ("-i", "-o")
_COMMENT: Final = ("-m", "comment", "--comment", "gpuprov")


def is_dropped(rules: Sequence[str], bridge: str) -> bool:
    """Whether the rules of FORWARD and DOCKER-USER, as `iptables -S` lists them, drop what a bridge sends on."""
    if not any(rule.split() == ["-P", "FORWARD", "DROP"] for rule in rules):
        return False
    return not all(any(_accepts(rule, way, bridge) for rule in rules) for way in WAYS)


def _accepts(rule: str, way: str, bridge: str) -> bool:
    words = rule.split()
    return "-j ACCEPT" in rule and any(
        word == way and (name == bridge or (name.endswith("+") and bridge.startswith(name[:-1])))
        for word, name in pairwise(words)
    )


def rule_for(way: str, bridge: str) -> tuple[str, ...]:
    """The rule that lets a bridge through one way, as arguments of `iptables -I`."""
    return (DOCKERS, way, bridge, *_COMMENT, "-j", "ACCEPT")
