"""All runs of a grid as CSV. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpuprov.core.printable import printable
from gpuprov.shapes.cells import render_cells

if TYPE_CHECKING:
    from gpuprov.shapes.grids import GridListed

BEGIN: Final = "param_name,job_name,"


def render_csv(table: GridListed) -> str:
    """A header and a line for each run; no cell is a formula, and what cannot be printed is spelled out."""
    return printable(render_cells([table.columns, *table.rows]))
