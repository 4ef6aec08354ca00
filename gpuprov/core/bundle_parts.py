"""How the parts of a bundle are written and read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from gpuprov.core.redact import hide_in_document

if TYPE_CHECKING:
    from pathlib import Path

MOST_BYTES = 1_000_000  # of a log; its end is what counts


def as_json(document: object) -> str:
    """A document as text, without secrets; what JSON has no form for becomes a string."""
    return json.dumps(hide_in_document(document), indent=2, sort_keys=True, default=str, ensure_ascii=False) + "\n"


def read_end(path: Path) -> str:
    """The end of a log file.

    Raises:
        OSError: It cannot be read.
    """
    with path.open("rb") as file:
        file.seek(0, 2)
        file.seek(max(0, file.tell() - MOST_BYTES))
        return file.read().decode("utf-8", "replace")
