"""Paths that tests agree on."""

from __future__ import annotations

from pathlib import Path

NOWHERE = Path("/nonexistent")  # a root without /proc and /sys, as of a machine without a GPU
