"""What a user can ask of a kernel, already validated."""

from __future__ import annotations

from dataclasses import dataclass

from smoke_kernels.golden import DEFAULT_SEED


@dataclass(frozen=True, kw_only=True)
class Options:
    """None asks for the kernel's default, which depends on `quick` and on whether the device is simulated."""

    size: int | None = None
    sweeps: int | None = None
    repeats: int | None = None
    seconds: float = 0.0
    seed: int = DEFAULT_SEED
    quick: bool = False
    tolerance: float | None = None
