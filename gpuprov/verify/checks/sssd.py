"""Whether sssd, which knows the people of the site's directory, answers in the node, and knows those of the spec."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gpuprov.core.excerpt import few
from gpuprov.shapes.base import parse_json
from gpuprov.verify.checks.driver import facts_of
from gpuprov.verify.finding import failed, not_asked, passed, unknown, warned
from gpuprov.verify.models import Rule

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuprov.verify.models import Expectation, Finding, Observation

FACT: Final = "sssd"
_LOOK: Final = "look"
_KNOWN: Final = "known"
_LONGEST: Final = 900
_NAMED: Final = 5  # people in a line
_ARGV: Final = ("/usr/lib/gpuprov/ask-sssd",)
_SAY_KNOWN: Final = 'getent -s sss passwd "$@" | cut -d: -f1'


def ask_sssd(expected: Expectation, *, timeout_s: float) -> dict[str, dict[str, dict[str, object]]]:
    """The questions of this check, where a node has a directory; by fact and name."""
    if not expected.sssd:
        return {}
    questions: dict[str, dict[str, object]] = {_LOOK: {"argv": list(_ARGV), "timeout_s": timeout_s}}
    if expected.of_directory:
        argv = ["sh", "-c", _SAY_KNOWN, "sh", *expected.of_directory]
        questions[_KNOWN] = {"argv": argv, "timeout_s": timeout_s}
    return {FACT: questions}


def judge_sssd(expected: Expectation, seen: Observation) -> Finding:
    """It answers, reaches its directory, and knows the people whom the spec expects there; else its last words."""
    if expected.sssd is None:
        return not_asked("the spec of the cluster has no sssd")
    if not expected.sssd:
        return failed("the image of the node has no sssd", "image")
    said = facts_of(seen, FACT)[_LOOK]
    if said["timed_out"]:
        return unknown(f"no answer within {said['seconds']:.0f} s")
    if said["exit_code"]:
        return failed(f"sssd cannot be asked: {(said['stderr'] or said['stdout']).strip()[-300:]}")
    found = _judge_said(parse_json(said["stdout"]))
    return _judge_known(expected.of_directory, facts_of(seen, FACT)) if found.status == "pass" else found


def _judge_known(people: Sequence[str], facts: Mapping[str, Any]) -> Finding:
    if not people:
        return passed("sssd answers")
    said = facts[_KNOWN]
    if said["timed_out"]:
        return warned(f"sssd does not say within {said['seconds']:.0f} s which people it knows", "slow")
    lacking = sorted({*people} - {*said["stdout"].split()})
    if lacking:
        return warned(f"the directory does not know {few(lacking, _NAMED)}", "strangers")
    return passed(f"sssd answers, and knows {len(people)} of the spec's people")


def _judge_said(told: Any) -> Finding:  # noqa: ANN401 - what the node says
    words = f": {str(told['said'])[:_LONGEST]}" if told["said"] else ""
    if told["answers"] is not True:
        return failed(f"sssd does not answer{words}")
    return warned(f"sssd does not reach its directory{words}", "offline") if told["offline"] else passed("sssd answers")


RULES = (Rule(id="sssd", layer="node", needs=("node-answers",), judge=judge_sssd, fact=FACT),)
