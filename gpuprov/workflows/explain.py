"""`explain`: what a line of a log or the id of a check means. Needs neither engine nor network."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.core.catalogue import find_entries, load_catalogue, nearest_ids
from gpuprov.core.errors import UsageError

if TYPE_CHECKING:
    from gpuprov.core.catalogue import Entry

LENGTH_MAX = 10_000


def explain(text: str) -> tuple[Entry, ...]:
    """Every entry of the catalogue that the text names or shows, the likeliest first.

    Raises:
        UsageError: None does, or the text is no line of a log.
    """
    catalogue = load_catalogue()
    if not text.strip() or len(text) > LENGTH_MAX:
        raise UsageError(
            "there is no line to explain",
            evidence=f"{len(text)} characters; allowed: 1 to {LENGTH_MAX}",
            fix="gpuprov explain 'gres/gpu count reported lower than configured'",
        )
    entries = find_entries(text, catalogue)
    if not entries:
        near = nearest_ids(text, catalogue)
        raise UsageError(
            f"there is no entry for {_shorten(text)!r}",
            evidence=f"no id or pattern matches; similar ids: {', '.join(near)}",
            fix=f"gpuprov explain {near[0]}    # or check the host and nodes: gpuprov doctor; gpuprov verify",
        )
    return entries


def _shorten(text: str, *, length: int = 80) -> str:
    line = " ".join(text.split())
    return line if len(line) <= length else f"{line[:length]}..."
