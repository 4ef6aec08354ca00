"""One stable hash of a document, to tell whether what is there is what is asked."""

from __future__ import annotations

import hashlib
import json

SHORT_LENGTH = 12


def fingerprint(document: object) -> str:
    """Hash a JSON-able document: 64 hexadecimal digits, whatever the order of its keys.

    Raises:
        TypeError: It holds something JSON has no form for.
        ValueError: It holds NaN or an infinity.
    """
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def short(digest: str) -> str:
    """The first 12 digits, for names."""
    return digest[:SHORT_LENGTH]
