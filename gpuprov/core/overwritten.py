"""What a terminal would show of a text whose lines overwrite themselves by a carriage return, as progress bars do."""

from __future__ import annotations


class Overwritten:
    """Takes a text in pieces; of each line, what comes after its last carriage return stays."""

    def __init__(self) -> None:
        self._held = ""  # carriage returns at the end of a piece: the next one says what they are
        self._begun = False  # whether a part of the present line was shown

    def take(self, piece: str) -> str:
        """What to show of a piece; a line that was shown in part, and is overwritten, goes on below."""
        whole = self._held + piece
        text = whole.rstrip("\r")
        self._held = whole[len(text) :]
        lines = []
        begun = self._begun
        for line in text.split("\n"):
            _, carriage, last = line.rstrip("\r").rpartition("\r")
            lines.append(f"\n{last}" if carriage and begun else last)
            begun = False
        self._begun = bool(lines[-1]) or (len(lines) == 1 and self._begun)
        return "\n".join(lines)
