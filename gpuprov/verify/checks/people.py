"""Whether the people of the cluster, and nobody else, have accounts in the node."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Any, Final

from gpuprov.core.excerpt import few
from gpuprov.shapes.base import parse_json
from gpuprov.verify.checks.driver import facts_of
from gpuprov.verify.finding import failed, not_asked, passed, unknown
from gpuprov.verify.models import Rule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuprov.verify.models import Expectation, Finding, Observation

FACT: Final = "people"
_LOOK: Final = "look"
_ARGV: Final = ("/usr/lib/gpuprov/settle-people", "--check")
_TOLD: Final = 4
# As settle-people says it
_OTHER_OWNER: Final = re.compile(r"(?P<path>/.*): belongs to \d+:\d+ instead of (?P<owner>\d+:\d+)", re.ASCII)


def ask_people(expected: Expectation, *, timeout_s: float) -> dict[str, dict[str, dict[str, object]]]:
    """The question of this check, where a node has people or could have some; by fact and name."""
    if expected.people is None:
        return {}
    return {FACT: {_LOOK: {"argv": list(_ARGV), "timeout_s": timeout_s}}}


def judge_people(expected: Expectation, seen: Observation) -> Finding:
    """Each has an account with their number, keys and no password, and the folders are theirs."""
    if expected.people is None:
        return not_asked("the image of the node takes no accounts of people")
    said = facts_of(seen, FACT)[_LOOK]
    if said["timed_out"]:
        return unknown(f"no answer within {said['seconds']:.0f} s")
    if said["exit_code"]:
        return failed(f"people cannot be listed: {(said['stderr'] or said['stdout']).strip()[-300:]}")
    told: Any = parse_json(said["stdout"])
    accounts: dict[str, list[Any]] = told["accounts"]
    found = [
        *(f"{name} has no account" for name in expected.people if name not in accounts),
        *_wrong(expected.people, accounts),
        *(["their keys are not those of the spec"] if told["keys"] != expected.people_keys else []),
    ]
    if found:
        return failed(_few(found))
    if told["troubles"]:
        troubles = [str(line) for line in told["troubles"]]
        return failed(_few(troubles), "folders", give=_render_give(troubles))
    count = len(expected.people)
    return passed(f"{count} {'person' if count == 1 else 'people'}" if count else "nobody has an account")


def _wrong(people: Any, accounts: dict[str, list[Any]]) -> list[str]:  # noqa: ANN401 - numbers by name
    """What differs of accounts that are there."""
    found = []
    for name, uid in people.items():
        has, group, locked = accounts.get(name, (uid, uid, True))
        if (has, group) != (uid, uid):
            found.append(f"{name} is {has}:{group} instead of {uid}:{uid}")
        if not locked:
            found.append(f"{name} has a password")
    numbers = {uid: name for name, uid in people.items()}
    found += [
        f"{other} has the number of {numbers[values[0]]}"
        for other, values in accounts.items()
        if other not in people and values[0] in numbers
    ]
    return found


def _render_give(troubles: Sequence[str]) -> str:
    """What a node runs to give folders to whom they are to belong; what sets modes, where owners are right."""
    found = filter(None, map(_OTHER_OWNER.fullmatch, troubles))
    gives = [f"chown -R {match['owner']} {shlex.quote(match['path'])}" for match in found]
    if len(gives) > 1:
        return f"sh -c {shlex.quote('; '.join(gives))}"
    return gives[0] if gives else _ARGV[0]


def _few(lines: Sequence[str]) -> str:
    return few(lines, _TOLD, between="; ")


RULES = (Rule(id="people", layer="node", needs=("node-answers",), judge=judge_people, fact=FACT),)
