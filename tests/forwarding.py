"""Let the bridges of the tests out where Docker has set the FORWARD policy to DROP.

`host prepare` lets gpbr0 through and no other bridge, so the tests must do it for theirs. Their rules come last, after
Docker's own: what Docker keeps apart stays apart, and only the policy is replaced, for these bridges alone.
"""

from __future__ import annotations

import subprocess
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

BRIDGES = ("gpte+", "gptbr+")  # of tests/e2e and of tests/contract
COMMENT = "tests-of-this-project"  # not the one of role host, whose rules tests count
RULES = tuple(
    ("FORWARD", way, bridge, "-m", "comment", "--comment", COMMENT, "-j", "ACCEPT")
    for bridge in BRIDGES
    for way in ("-i", "-o")
)


@contextmanager
def bridges_let_through() -> Iterator[None]:
    """Nothing is done where forwarding is not refused, or cannot be looked at; rules of a killed run go first."""
    _remove()
    if "-P FORWARD DROP" in (_iptables("-S", "FORWARD") or ""):
        for rule in RULES:
            assert _iptables("-A", *rule) is not None, f"iptables does not take {' '.join(rule)}"
    try:
        yield
    finally:
        _remove()


def _remove() -> None:
    for rule in RULES:
        while _iptables("-D", *rule) is not None:
            pass


def _iptables(*argv: str) -> str | None:
    """What it says; None where it fails, or where there is none."""
    with suppress(OSError):
        done = subprocess.run(["iptables", "-w", "5", *argv], check=False, capture_output=True, text=True)
        return done.stdout if done.returncode == 0 else None
    return None
