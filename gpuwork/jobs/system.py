"""The systems that runs are handed to, and what differs for whoever makes a run: facts, and no code of either."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.shapes.job_run import System


@dataclass(frozen=True, kw_only=True)
class SystemTraits:
    """What a system sees to itself.

    Attributes:
        has_chunks: Whether it has ids of its own for parts of a submission.
        limits_runs: Whether it limits how many runs of a submission are under way.
        limits_people: Whether it limits how many GPUs somebody has at once.
        holds_nodes: Whether it keeps runs from a node that is about to go.
    """

    has_chunks: bool
    limits_runs: bool
    limits_people: bool
    holds_nodes: bool


TRAITS: Final[Mapping[System, SystemTraits]] = MappingProxyType(
    {
        "slurm": SystemTraits(has_chunks=True, limits_runs=True, limits_people=True, holds_nodes=True),
        "workers": SystemTraits(has_chunks=False, limits_runs=False, limits_people=False, holds_nodes=False),
    }
)
