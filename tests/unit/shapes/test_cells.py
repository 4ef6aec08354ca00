from __future__ import annotations

import csv
import io

import pytest

from gpuprov.shapes.cells import render_cells

INERT = {
    "=1+1": "'=1+1",
    "+cmd": "'+cmd",
    "-2+3": "'-2+3",
    "@SUM(A1)": "'@SUM(A1)",
    "\tx": "'\tx",
    "\r=1": r"\r=1",
    "a\r=1": r"a\r=1",
    "=HYPERLINK(\"http://x\",'a')": "'=HYPERLINK(\"http://x\",'a')",
    "-1.5e": "'-1.5e",
    "-1\n=2": "'-1\n=2",
}
KEPT = ("-1", "+1", "-1.5", "-.5", "-1e-05", "1e+20", "-inf", "nan", "", "a=b", "x-1", " =1", "'=1")


@pytest.mark.parametrize(("cell", "shown"), [*INERT.items(), *((cell, cell) for cell in KEPT)])
def test_no_cell_is_a_formula_and_numbers_stay_numbers(cell: str, shown: str) -> None:
    assert list(csv.reader(io.StringIO(render_cells([("a", cell)]), newline=""))) == [["a", shown]]
