"""The product of what is asked for, in written order."""

from __future__ import annotations

from gpuwork.grid.draft import Grid
from gpuwork.grid.expand import expand_grid
from gpuwork.grid.values import hash_values

GRID = Grid(
    requests={"units": (64, 128, 256), "lr": (0.1, 0.01)},
    defaults={"lr": 0.5, "units": 32, "epochs": 3},
    debug={"epochs": 1},
)


def test_three_by_two_values_are_six_combinations_in_written_order() -> None:
    assert [(values["units"], values["lr"], values["epochs"]) for values in expand_grid(GRID)] == [
        (64, 0.1, 3),
        (64, 0.01, 3),
        (128, 0.1, 3),
        (128, 0.01, 3),
        (256, 0.1, 3),
        (256, 0.01, 3),
    ]


def test_a_minimal_run_has_defaults_and_what_is_for_debugging() -> None:
    assert expand_grid(GRID, minimal=True) == [{"lr": 0.5, "units": 32, "epochs": 1}]


def test_first_only_is_the_first_combination() -> None:
    assert expand_grid(GRID, first_only=True) == [{"lr": 0.1, "units": 64, "epochs": 3}]


def test_nothing_asked_for_is_one_run_of_the_defaults() -> None:
    assert expand_grid(Grid(requests={}, defaults={"lr": 1})) == [{"lr": 1}]


def test_the_order_of_names_does_not_name_other_values_and_their_types_do() -> None:
    assert hash_values({"a": 1, "b": (1, 2)}) == hash_values({"b": (1, 2), "a": 1})
    assert len({hash_values({"a": value}) for value in (1, 1.0, True, "1", (1,), None)}) == 6
