"""Values that know where they stand."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Final

Scalar = bool | int | float | str | None
_STEP: Final = re.compile(r"([^.\[\]]+)|\[([0-9]+)\]")


@dataclass(frozen=True, kw_only=True)
class Value:
    """One value of a document.

    Attributes:
        content: A scalar, a list of Values, or a dict of Values by key.
        line: Line in the file, counted from 1, that of its key where it has one; None where there is no file.
        begins: Line on which it begins, which may be below its key.
        tag: Of its own kind (`!name`), which whoever reads the value refuses.
    """

    content: Scalar | list[Value] | dict[str, Value]
    line: int | None = None
    begins: int | None = None
    tag: str | None = None

    @cached_property
    def plain(self) -> object:
        """The same without lines; what an anchor names is there once, however often it is used."""
        if isinstance(self.content, dict):
            return {key: value.plain for key, value in self.content.items()}
        return [value.plain for value in self.content] if isinstance(self.content, list) else self.content

    def line_of(self, path: str) -> int | None:
        """The line of what is at a path, `nodes.mounts[0].source`; None where nothing is written there."""
        found = self.at(path)
        return found.line if found else None

    def at(self, path: str) -> Value | None:
        """What is at a path; None where nothing is written there."""
        value: Value | None = self
        for key, number in _STEP.findall(path):
            content = value.content if value else None
            if number:
                value = content[int(number)] if isinstance(content, list) and int(number) < len(content) else None
            else:
                value = content.get(key) if isinstance(content, dict) else None
        return value
