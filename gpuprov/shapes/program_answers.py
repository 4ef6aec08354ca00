"""What the process of a program answers: made by `gpuwork.programs.inside`, read by `gpuwork.programs.process`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuprov.shapes.base import Shape
from gpuprov.shapes.faults import Fault
from gpuprov.shapes.program_runs import Chart
from gpuprov.shapes.programs import Measured
from gpuprov.shapes.words import Count


class Structure(Shape, frozen=True, kw_only=True):
    """A structure, as ctypes lays it out."""

    size: Count
    fields: tuple[Measured, ...]


class Examined(Shape, frozen=True, kw_only=True):
    """What the modules of a program have.

    Attributes:
        structures: By name.
        faults: Of the modules; the file is the key of `sources` that names it.
        makes_dataset: Whether the runner makes the dataset.
    """

    structures: Mapping[str, Structure]
    faults: tuple[Fault, ...]
    makes_dataset: bool


class MadeDataset(Shape, frozen=True, kw_only=True):
    """Whether the runner wrote a dataset."""

    written: bool


class Opened(Shape, frozen=True, kw_only=True):
    """How many rows a dataset has."""

    rows: Count


class Updated(Shape, frozen=True, kw_only=True):
    """Whether that was the last iteration."""

    done: bool


class Described(Shape, frozen=True, kw_only=True):
    """The result for people."""

    result: Any
    chart: Chart | None
