"""The best run of a grid, and by which parameters its charts are drawn: data in, decisions out."""

from __future__ import annotations

import itertools
from datetime import datetime, timezone

import pytest

from gpuprov.core.errors import UsageError
from gpuprov.render.grid_charts import DrawnRun, by_influence, chart_of, heat_map_of, in_order
from gpuprov.render.grid_order import choose_goal, is_low_good, order_rows, short_number, varied_parameters
from gpuprov.render.grid_page import FEW_ROWS, render_page
from gpuprov.shapes.grids import Combination, GridListed, GridSeries

ABOUT = ("run.state", "run.reason", "run.seconds", "run.simulated")
RATES, UNITS = ("0.1", "0.01", "0.001"), ("64", "128", "256", "512")


def listed(lasts: list[str], *, series: tuple[str, ...] = ("last.loss",)) -> GridListed:
    pairs = itertools.product(RATES, UNITS)
    rows = tuple(
        (
            f"param_{number:03d}",
            "2026-11-22-16-40-12_num1",
            *pair,
            "3",
            *[last] * len(series),
            "done",
            "",
            "1.5",
            "False",
        )
        for number, (pair, last) in enumerate(zip(pairs, lasts, strict=False))
    )
    columns = ("param_name", "job_name", "lr", "units", "epochs", *series, *ABOUT)
    return GridListed(columns=columns, rows=rows, combinations={}, submissions={})


def drawn(*, length: int = 1) -> list[DrawnRun]:
    """What they give depends on units, and a little on lr."""
    return [
        DrawnRun(
            values={"lr": lr, "units": units, "seed": str(number)},
            points=tuple((float(step), float(units) + float(lr) + step) for step in range(length)),
        )
        for number, (lr, units) in enumerate(itertools.product(RATES, UNITS))
    ]


def test_the_first_series_decides_and_its_name_says_whether_low_is_good() -> None:
    table = listed(["3", "nan", "1", "", "-2"])
    goal = choose_goal(table, lowest=None, highest=None)
    assert str(goal) == "lowest loss"
    assert goal is not None
    assert [row[5] for row in order_rows(table, goal)] == ["-2", "1", "3", "nan", ""]
    goal = choose_goal(table, lowest=None, highest="loss")
    assert goal is not None
    assert [row[5] for row in order_rows(table, goal)] == ["3", "1", "-2", "nan", ""]
    assert str(choose_goal(listed(["1"], series=("last.accuracy", "last.loss")), lowest=None, highest=None)) == (
        "highest accuracy"
    )
    assert choose_goal(listed(["1"], series=()), lowest=None, highest=None) is None
    with pytest.raises(UsageError, match="no run has a series 'cost'"):
        choose_goal(table, lowest="cost", highest=None)
    assert varied_parameters(table) == ("lr", "units")


@pytest.mark.parametrize(
    ("name", "low"),
    [("val_loss", True), ("trainloss", True), ("RMSE", True), ("error.rate", True), ("accuracy", False), ("f1", False),
     ("lossless_ratio", False), ("precision", False), ("time-to-80", True)],
)  # fmt: skip
def test_names_of_series_that_are_to_be_low(name: str, *, low: bool) -> None:
    assert is_low_good(name) is low


def test_the_parameter_that_matters_most_comes_first() -> None:
    runs = drawn()
    assert by_influence(runs, ("lr", "units", "seed")) == ["units", "seed", "lr"]
    same = [DrawnRun(values=run.values, points=((0.0, 0.8),)) for run in runs]
    assert by_influence(same, ("lr", "units")) == ["lr", "units"], "in the order in which they were written"
    assert in_order(["10", "9", "b", "a", "9"]) == ["9", "10", "a", "b"]


def test_values_of_one_number_are_drawn_over_a_parameter_and_series_over_their_index() -> None:
    single = chart_of("loss", drawn(), ("lr", "units"))
    assert ">loss of 12 runs, coloured by lr</text>" in single
    assert all(f">{units}</text>" in single or units == "64" for units in ("100", "200"))
    lines = chart_of("loss", drawn(length=5), ("lr", "units"))
    assert ">loss of 12 runs, coloured by units</text>" in lines
    assert ">index</text>" in lines
    assert all(f">{units}</text>" in lines for units in UNITS)
    assert ">loss of 12 runs</text>" in chart_of("loss", drawn(length=5), ())


def test_a_heat_map_has_a_cell_for_each_pair() -> None:
    found = heat_map_of("loss", drawn(), ("lr", "units"))
    assert found is not None
    assert ">loss: last values by lr and units</text>" in found
    assert all(f">{float(units) + float(lr):.4g}</text>" in found for units in UNITS for lr in RATES)
    assert "<image" not in found, "which the page's policy would not load"
    assert heat_map_of("loss", drawn(), ("lr",)) is None
    sparse = [run for number, run in enumerate(drawn()) if number % 5 == 0]
    assert heat_map_of("loss", sparse, ("lr", "units")) is None, "most pairs have no run"
    assert ": mean of last values by" in (heat_map_of("loss", drawn() * 2, ("lr", "units")) or "")


def test_the_page_shows_few_rows_first_and_numbers_as_people_read_them() -> None:
    table = listed([repr(1 / (number + 3)) for number in range(12)])
    series = GridSeries(
        combinations=tuple(
            Combination(name=row[0], label="", runs=1, series={"loss": ((("a", row[5]), ("b", "nan")),)})
            for row in table.rows
        ),
        left_out=3,
    )
    goal = choose_goal(table, lowest=None, highest=None)
    page = render_page("<vision>", table, series, goal, made_at=datetime.now(timezone.utc))
    assert "<h1>&lt;vision&gt;</h1>" in page
    assert "The best first: lowest loss." in page
    assert page.index("<td>param_011</td>") < page.index("<td>param_000</td>") < page.index("<svg")
    assert "<td>0.333333</td>" in page
    assert "3 more combinations are not drawn" in page
    assert "<details>" not in page
    assert len(table.rows) <= FEW_ROWS
    assert (short_number("0.25"), short_number("1000000000.5"), short_number("a long word")) == (
        *("0.25", "1e+09", "a long word"),
    )
