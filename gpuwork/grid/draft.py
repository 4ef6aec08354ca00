"""What a project asks for: as it is written, with lines, and as it is once nothing is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuwork.grid.values import ParameterValue

DrawKind = Literal["choice", "uniform", "loguniform", "randint"]


@dataclass(frozen=True, kw_only=True)
class WrittenValue:
    """A value and the line on which it is written."""

    value: object
    line: int | None = None


@dataclass(frozen=True, kw_only=True)
class Headings:
    """What the parts of a file are called in it."""

    requests: str
    defaults: str
    debug: str


@dataclass(frozen=True, kw_only=True)
class GridDraft:
    """A file of parameters as it is written.

    Attributes:
        file: Relative to the project.
        headings: What its parts are called.
        requests: Names with the list of values that are asked for.
        defaults: Names with their one value.
        debug: Names with the value that they have in a minimal run.
        random: What is drawn at random.
        defaults_required: Whether a name that is asked for needs a default too.
    """

    file: str
    headings: Headings
    requests: Mapping[str, WrittenValue]
    defaults: Mapping[str, WrittenValue]
    debug: Mapping[str, WrittenValue] = field(default_factory=dict)
    random: Sampling | None = None
    defaults_required: bool = True


@dataclass(frozen=True, kw_only=True)
class Draw:
    """From what a value is drawn: one of `options`, or a number from `low` to `high`."""

    kind: DrawKind
    options: tuple[ParameterValue, ...] = ()
    low: float = 0.0
    high: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How often values are drawn, and from what, by name."""

    samples: int
    seed: int
    draws: Mapping[str, Draw]


@dataclass(frozen=True, kw_only=True)
class Grid:
    """What is asked for, with nothing wrong with it; names are in the order in which they are written."""

    requests: Mapping[str, tuple[ParameterValue, ...]]
    defaults: Mapping[str, ParameterValue]
    debug: Mapping[str, ParameterValue] = field(default_factory=dict)
    random: Sampling | None = None

    @property
    def varied(self) -> tuple[str, ...]:
        """The names whose values differ between runs."""
        return (*self.requests, *(self.random.draws if self.random else ()))
