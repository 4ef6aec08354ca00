"""Which runs are made: handing the same in again makes none."""

from __future__ import annotations

from gpuwork.grid.missing import GridRequest, plan_missing
from gpuwork.grid.store import Param, ParamRun
from gpuwork.grid.values import hash_values

ONE, TWO, THREE = ({"lr": value} for value in (1, 2, 3))
OLD = "2026-01-01-00-00-00"


def request(*combinations: dict[str, int], reps: int = 1) -> GridRequest:
    return GridRequest(combinations=combinations, reps=reps, code="new", stamp="NOW")


def param(number: int, values: dict[str, int], *states: str) -> Param:
    name = f"param_{number:03d}"
    runs = tuple(
        ParamRun(name=f"{name}/{OLD}_num{position}", state=state, code="old")  # type: ignore[arg-type]
        for position, state in enumerate(states, start=1)
    )
    return Param(name=name, values_hash=hash_values(values), runs=runs)


def test_everything_is_missing_at_first_and_comes_in_the_order_of_the_combinations() -> None:
    missing = plan_missing(request(TWO, ONE, reps=2), [], highest=0)
    names = ["param_001/NOW_num1", "param_002/NOW_num1", "param_001/NOW_num2", "param_002/NOW_num2"]
    assert [run.name for run in missing.runs] == names
    assert [run.values for run in missing.runs] == [TWO, ONE, TWO, ONE]


def test_the_same_values_have_the_same_name_and_what_is_done_is_not_run_again() -> None:
    there = [param(1, TWO, "done"), param(2, ONE, "done")]
    missing = plan_missing(request(ONE, TWO, THREE), there, highest=7)
    assert [run.name for run in missing.runs] == ["param_008/NOW_num1"]
    assert (missing.done, missing.other_code) == (2, 2)


def test_only_the_repetitions_that_are_missing_are_run() -> None:
    there = [param(1, ONE, "done", "done"), param(2, TWO, "done")]
    assert [run.name for run in plan_missing(request(ONE, TWO, reps=2), there, highest=2).runs] == [
        "param_002/NOW_num2"
    ]
    assert plan_missing(request(ONE, TWO), there, highest=2).runs == ()


def test_a_failed_run_stays_as_it_is_and_another_is_made() -> None:
    missing = plan_missing(request(ONE), [param(1, ONE, "failed", "failed")], highest=1)
    assert [run.name for run in missing.runs] == ["param_001/NOW_num3"]


def test_one_that_was_cut_off_is_made_again_in_its_folder() -> None:
    missing = plan_missing(request(ONE, reps=2), [param(1, ONE, "open")], highest=1)
    assert [run.name for run in missing.runs] == [f"param_001/{OLD}_num1", "param_001/NOW_num2"]


def test_one_that_is_under_way_elsewhere_is_left_to_it() -> None:
    there = [param(1, ONE, "open"), param(2, TWO, "done", "open")]
    missing = plan_missing(request(ONE, TWO), there, highest=2, under_way={f"param_001/{OLD}_num1"})
    assert (missing.runs, missing.under_way, missing.done) == ((), 1, 1)
