"""What `anneal check` and `anneal run` are asked for."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuprov.core.errors import UsageError
from gpuprov.shapes.limits import MOST_CHAINS, MOST_RUNS

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class AnnealOrder:
    """Models and how they are annealed, not checked yet (project/anneal_check.py).

    Attributes:
        models: Their files, absolute.
        configurations: Files with settings, absolute; none means the defaults.
        chains: How many, in place of what is written there.
        target: The value at which chains stop, likewise.
    """

    models: tuple[Path, ...]
    configurations: tuple[Path, ...] = ()
    chains: int | None = None
    target: float | None = None

    @property
    def choice(self) -> tuple[str, ...]:
        """The options of gpuwork.anneal beside the files."""
        chains = () if self.chains is None else (f"--chains={self.chains}",)
        return chains if self.target is None else (*chains, f"--target={self.target!r}")

    def arguments(self, models: tuple[str, ...], configurations: tuple[str, ...]) -> tuple[str, ...]:
        """The same with files where they lie now."""
        return (*models, *(f"--conf={path}" for path in configurations), *self.choice)

    @property
    def here(self) -> tuple[str, ...]:
        """The same with files where they lie on this host."""
        return self.arguments(tuple(map(str, self.models)), tuple(map(str, self.configurations)))


def check_nodes(nodes: int | None) -> None:
    """Refuse a number of nodes that cannot be.

    Raises:
        UsageError: It is too low or too high.
    """
    if nodes is not None and not 1 <= nodes <= MOST_RUNS:
        raise UsageError(
            "--nodes: chains cannot be divided into this many parts",
            evidence=f"--nodes {nodes}; allowed: 1 to {MOST_RUNS:,}",
            fix="--nodes 4",
        )


def check_numbers(chains: int | None, target: float | None) -> None:
    """Refuse numbers that no run can have.

    Raises:
        UsageError: With the first of them.
    """
    if chains is not None and not 1 <= chains <= MOST_CHAINS:
        raise UsageError(
            "--chains: a run cannot have this many",
            evidence=f"--chains {chains}; allowed: 1 to {MOST_CHAINS:,}",
            fix="--chains 100000",
        )
    if target is not None and not math.isfinite(target):
        raise UsageError("--target must be a finite number", evidence=f"--target {target}", fix="--target 0.1")
