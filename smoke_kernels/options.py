"""What a user can ask of a kernel, already validated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

DEFAULT_SEED: Final = 1
"""The seed of the shipped golden values."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """None asks for the kernel's default, which depends on `quick` and on whether the device is simulated."""

    size: int | None = None
    sweeps: int | None = None
    repeats: int | None = None
    seconds: float = 0.0
    seed: int = DEFAULT_SEED
    quick: bool = False
    independent: bool = False
    one_replica: bool = False
    device: int = 0
    all_devices: bool = False
    stand_for: tuple[str, ...] = ()
    tolerance: float | None = None
