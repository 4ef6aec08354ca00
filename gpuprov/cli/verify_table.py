"""The report of `verify`, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.cli.tables import PIPE, render_table
from gpuprov.verify.report import problem_lines, summary, table_headers, table_rows

if TYPE_CHECKING:
    from gpuprov.cli.tables import Screen
    from gpuprov.shapes.verify import Report


def render_report(report: Report, *, screen: Screen = PIPE) -> str:
    """One row for each node without the long last column, then each problem with its fix, then the count."""
    table = render_table(table_headers(report)[:-1], [row[:-1] for row in table_rows(report)], screen=screen)
    return "\n".join([table, *problem_lines(report), summary(report)])
