"""Grids of a lab that has the real pandas, where the other tests have a stand-in of one class."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pandas as pd
import pytest

from gpuwork.grid.cli import main
from gpuwork.grid.series import WrongResult, as_series

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PARAMS = """\
import numpy as np
import pandas as pd

table = pd.DataFrame({"units": [8, 16], "lr": [0.1, 0.01]})
param2requests = {
    "units": table["units"].tolist(),
    "lr": list(table["lr"].to_numpy()),
    "depth": list(np.arange(1, 2)),
}
param2default = {
    "units": 1, "lr": np.float32(0.5), "depth": np.int64(1), "deep": np.bool_(True), "word": np.str_("a"),
    "shape": (np.int64(3), 4), "nothing": None,
}
"""
JOB = """\
import numpy as np
import pandas as pd

def main(param2val):
    assert {name: type(param2val[name]) for name in ("units", "lr", "depth", "deep", "word", "nothing")} == {
        "units": int, "lr": float, "depth": int, "deep": bool, "word": str, "nothing": type(None)
    }
    history = pd.DataFrame({"loss": np.array([0.5, 0.25], dtype="float32"), "right": [1, 2]}, index=[10, 20])
    history["rate"] = param2val["lr"]
    history.loc[20, "rate"] = float("nan")
    return [history[name] for name in history]
"""


@pytest.mark.slow
def test_values_and_series_of_pandas_come_back_with_their_types(
    make: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    project = make({"src/params.py": PARAMS, "src/job.py": JOB})
    status = main(["run", str(project), "--local", "--at-most", "2"])
    assert (status, "4 runs: 4 done" in (said := capsys.readouterr()).err + said.out) == (0, True), said
    main(["results", str(project)])
    table = pd.read_csv(io.StringIO(capsys.readouterr().out))
    assert {name: table[name].dtype.kind for name in ("units", "lr", "depth", "deep", "last.loss", "last.right")} == {
        "units": "i", "lr": "f", "depth": "i", "deep": "b", "last.loss": "f", "last.right": "i"
    }  # fmt: skip
    assert table[["units", "lr"]].to_numpy().tolist() == [[8, 0.1], [8, 0.01], [16, 0.1], [16, 0.01]]
    assert set(table["shape"]) == {"(3, 4)"}
    assert table["nothing"].isna().all()
    assert table["last.rate"].isna().all()
    assert table["run.exit_status"].tolist() == [0] * 4
    assert table["run.simulated"].dtype.kind == "b"
    assert pd.to_datetime(table["run.started"]).dt.tz is not None
    for column, kinds in {"loss": "if", "right": "ii", "rate": "if"}.items():
        series = pd.read_csv(next((project / "runs/param_001").glob(f"*/{column}.csv")), index_col="index")
        assert (series.index.dtype.kind + series[column].dtype.kind, list(series.index)) == (kinds, [10, 20])


def test_a_table_is_no_series_and_one_in_a_dictionary_is() -> None:
    with pytest.raises(WrongResult, match=r"an object of type DataFrame; allowed: a list of pandas\.Series"):
        as_series(pd.DataFrame({"loss": [0.5]}))
    dates = pd.Series([1, 2], index=pd.date_range("2026-11-26", periods=2))
    assert as_series({"runs": dates}) == {"runs": [("2026-11-26 00:00:00", "1"), ("2026-11-27 00:00:00", "2")]}
