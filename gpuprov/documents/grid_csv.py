"""All runs of a grid as CSV. Pure."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Final

from gpuprov.core.printable import printable

if TYPE_CHECKING:
    from gpuprov.planes.work.grid_answers import GridTable

BEGIN: Final = "param_name,job_name,"


def render_csv(table: GridTable) -> str:
    """A header and a line for each run; what cannot be printed is spelled out."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows(table.rows)
    return printable(text.getvalue())
