"""Environment variables as people write them: a list of KEY=VALUE, whose values may hold anything."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
FORM = "KEY=VALUE, where KEY consists of letters, digits and _"


def read_variables(texts: Sequence[str]) -> dict[str, str]:
    """What `find_problems` has nothing against, by name; a value begins after the first `=`."""
    return {key: value for key, _, value in (text.partition("=") for text in texts)}


def overlay_variables(base: Sequence[str], over: Sequence[str]) -> tuple[str, ...]:
    """Both, where `over` replaces what has the same name in `base`."""
    given = read_variables(over)
    return (*(text for text in base if text.partition("=")[0] not in given), *over)


def find_variable_problems(texts: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Position and what is wrong there."""
    names: set[str] = set()
    for index, text in enumerate(texts):
        name, equals, value = text.partition("=")
        if not equals or not _KEY.fullmatch(name):
            yield index, f"{name[:80]!r} is not a valid variable"
        elif "\0" in value:
            yield index, f"the value of {name} contains a null character"
        elif name in names:
            yield index, f"{name} is set twice"
        names.add(name)
