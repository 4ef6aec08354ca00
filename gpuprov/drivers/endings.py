"""How an engine's words say that a node was ended by force."""

from __future__ import annotations


def killed_words(grace_s: float) -> str:
    """For a node whose processes were killed."""
    return f"killed, as it did not shut down within {grace_s:.0f} s"
