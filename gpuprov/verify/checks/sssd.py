"""Whether sssd, which knows the people of the site's directory, answers in the node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gpuprov.shapes.base import parse_json
from gpuprov.verify.checks.driver import facts_of
from gpuprov.verify.finding import failed, not_asked, passed, unknown, warned
from gpuprov.verify.models import Rule

if TYPE_CHECKING:
    from gpuprov.verify.models import Expectation, Finding, Observation

FACT: Final = "sssd"
_LOOK: Final = "look"
_LONGEST: Final = 900
_ARGV: Final = ("/usr/lib/gpuprov/ask-sssd",)


def ask_sssd(expected: Expectation, *, timeout_s: float) -> dict[str, dict[str, dict[str, object]]]:
    """The question of this check, where a node has a directory; by fact and name."""
    if not expected.sssd:
        return {}
    return {FACT: {_LOOK: {"argv": list(_ARGV), "timeout_s": timeout_s}}}


def judge_sssd(expected: Expectation, seen: Observation) -> Finding:
    """It answers, and reaches its directory; else its last words."""
    if expected.sssd is None:
        return not_asked("the spec of the cluster has no sssd")
    if not expected.sssd:
        return failed("the image of the node has no sssd", "image")
    said = facts_of(seen, FACT)[_LOOK]
    if said["timed_out"]:
        return unknown(f"no answer within {said['seconds']:.0f} s")
    if said["exit_code"]:
        return failed(f"sssd cannot be asked: {(said['stderr'] or said['stdout']).strip()[-300:]}")
    return _judge_said(parse_json(said["stdout"]))


def _judge_said(told: Any) -> Finding:  # noqa: ANN401 - what the node says
    words = f": {str(told['said'])[:_LONGEST]}" if told["said"] else ""
    if told["answers"] is not True:
        return failed(f"sssd does not answer{words}")
    return warned(f"sssd does not reach its directory{words}", "offline") if told["offline"] else passed("sssd answers")


RULES = (Rule(id="sssd", layer="node", needs=("node-answers",), judge=judge_sssd, fact=FACT),)
