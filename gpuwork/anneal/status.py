"""Why a chain stopped."""

from __future__ import annotations

from typing import Final

RUNNING: Final = 0
MAX_STEPS: Final = 1
COLD: Final = 2
TARGET: Final = 3
BAD_ENERGY: Final = 4
BAD_TEMPERATURE: Final = 5
RAISED: Final = 6
STOPPED: Final = 7  # by another chain of its part, which reached the target
REASONS: Final = ("running", "max_steps", "min_temp", "target", "bad_energy", "bad_temperature", "raised", "stopped")
BROKEN: Final = (BAD_ENERGY, BAD_TEMPERATURE, RAISED)
