"""Keys in files of nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import re


@dataclass(frozen=True, kw_only=True)
class SecretFile:
    """A file with a key in a node; root in the node can put anything else in its place.

    Attributes:
        path: Of the file.
        least_bytes: That it has.
        most_bytes: The same.
        pattern: What it begins with, the key as the first group; None where the file is the key.
    """

    path: str
    least_bytes: int
    most_bytes: int
    pattern: re.Pattern[bytes] | None = None

    def key_in(self, content: bytes) -> bytes | None:
        """The key in what was found in the file; None where that cannot be one."""
        if not self.least_bytes <= len(content) <= self.most_bytes:
            return None
        found = self.pattern.match(content) if self.pattern else None
        return found[1] if found else None if self.pattern else content
