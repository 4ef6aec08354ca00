"""How long work may be waited for that gives no sign, and how a user allows more: one variable for all of it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from gpuprov.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

SILENCE_S: Final = 300.0
QUESTION_S: Final = 25.0  # for another host to answer a question: the engines there have 10 s of it
VARIABLE: Final = "GPUPROV_SILENCE_S"


def silence_limit_s(environment: Mapping[str, str] = os.environ) -> float:
    """The limit, or what the user sets instead.

    Raises:
        UsageError: That is no number of seconds.
    """
    text = environment.get(VARIABLE, "")
    if not text:
        return SILENCE_S
    if not text.isdecimal() or not int(text):
        raise UsageError(
            f"{VARIABLE}={text!r} is not a number of seconds",
            evidence="allowed: a whole number, 1 or more",
            fix=f"unset {VARIABLE}",
        )
    return float(text)


def more_patience(silence_s: float) -> str:
    """What to type where a slow machine or mirror needs longer."""
    return f"if the machine is slow, allow more than {silence_s:g} s of silence: export {VARIABLE}={4 * silence_s:.0f}"


def scaled_limit_s(usual_s: float, environment: Mapping[str, str] = os.environ) -> float:
    """A limit for what takes far less on a usual machine; it grows and shrinks with what the user sets."""
    return usual_s * silence_limit_s(environment) / SILENCE_S


def more_time() -> str:
    """What to type where a slow machine needs longer than such a limit."""
    return f"if the machine is slow, allow four times as long: export {VARIABLE}={4 * silence_limit_s():.0f}"
