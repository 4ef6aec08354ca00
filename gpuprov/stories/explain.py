"""`explain`: what a line of a log or the id of a check means. Needs neither engine nor network."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from gpuprov.core.catalogue import find_entries, load_catalogue
from gpuprov.core.errors import UsageError
from gpuprov.gpu.xids import action_of, is_known

if TYPE_CHECKING:
    from gpuprov.core.catalogue import Entry

LENGTH_MAX = 200_000
_XID = re.compile(r"\bxid\W*(?:\([^)]*\)\W*)?(?P<number>\d+)\b(?!:[0-9a-f]{2}[:.)]).*", re.IGNORECASE)


def explain(text: str) -> tuple[Entry, ...]:
    """Every entry of the catalogue that a line of the text names or shows, failures first.

    Raises:
        UsageError: None does, or the text is too long.
    """
    catalogue = load_catalogue()
    if not text.strip() or len(text) > LENGTH_MAX:
        raise UsageError(
            "there is no line to explain",
            evidence=f"{len(text)} characters; allowed: 1 to {LENGTH_MAX}",
            fix="gpuprov explain 'gres/gpu count reported lower than configured'",
        )
    shown = _spell_out(text.strip())
    entries = find_entries(shown, catalogue)
    if not entries:
        raise UsageError(
            f"there is no entry for {_shorten(text)!r}",
            evidence="it is neither a known log line nor the id of a check of verify or doctor",
            fix="gpuprov doctor; gpuprov verify    # of a job: its log; of a GPU: sudo dmesg | grep NVRM",
        )
    return tuple(
        _with_action(entry, _spell_out(text.strip())) if entry.id == "xid-other" else entry for entry in entries
    )


def _spell_out(text: str) -> str:
    """A number alone is that of an Xid that is known, or the status that a program ended with, or both."""
    if not re.fullmatch("[0-9]{1,4}", text):
        return text
    xid = f"Xid {text}\n" if is_known(int(text)) else ""
    return f"{xid}exit status {text}"


def _with_action(entry: Entry, text: str) -> Entry:
    """The entry of all other Xids, with what verify goes by for the one that the text shows."""
    known = {entry_id for entry_id in load_catalogue() if entry_id.startswith("xid-")}
    shown = [found for found in _XID.finditer(text) if f"xid-{found['number']}" not in known]
    if not shown:
        return entry
    number = shown[0]["number"]
    fix = entry.fixes.get(action_of(int(number), shown[0][0]), entry.fix)
    return replace(entry, title=f"Xid {number}, without an entry of its own", fix=fix, fixes={})


def _shorten(text: str, *, length: int = 80) -> str:
    line = " ".join(text.split())
    return line if len(line) <= length else f"{line[:length]}..."
