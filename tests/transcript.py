"""What a page shows of a terminal: the commands after `$`, and what they print."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

ANY = "..."
# What differs from run to run, and from machine to machine.
_VARIES = ((r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "TIME"), (r"GPU-[0-9a-f]{8}", "GPU-ID"), (r"\s+", " "))


@dataclass(frozen=True, kw_only=True)
class Typed:
    """A command, and the lines that the page shows after it."""

    command: str
    shown: tuple[str, ...]


def read_transcript(page: str) -> list[Typed]:
    """The commands of all indented blocks that begin with `$`, in order."""
    found: list[Typed] = []
    for block in re.findall(r"^    .*\n(?:^    .*\n|^\n(?=    ))*", page, re.MULTILINE):
        if not block.startswith("    $ "):
            continue
        for part in re.split(r"^    \$ ", block, flags=re.MULTILINE)[1:]:
            command, *shown = part.splitlines()
            found.append(Typed(command=command, shown=tuple(line.removeprefix("    ") for line in shown)))
    return found


def is_as_shown(printed: str, shown: Sequence[str]) -> bool:
    """Whether these lines were printed.

    A line `...` stands for any lines, and one at the end of a line for the rest of that line. Without them, lines may
    come in any order: nodes answer side by side.
    """
    lines, wanted = ([_plain(line) for line in part if line] for part in (printed.splitlines(), shown))
    if not any(line.endswith(ANY) for line in wanted):
        return Counter(lines) == Counter(wanted)
    pattern = "".join(map(_pattern, wanted))
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in lines)) is not None


def _pattern(line: str) -> str:
    if line == ANY:
        return r"(?:.*\n)*"
    start = line.removesuffix(ANY)
    return re.escape(start) + (r"\n" if start == line else r".*\n")


def _plain(line: str) -> str:
    for varies, name in _VARIES:
        line = re.sub(varies, name, line)
    return line.rstrip()
