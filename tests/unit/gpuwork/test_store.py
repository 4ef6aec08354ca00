"""What is read from the folder of runs was written by jobs too."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from gpuprov.shapes.base import read
from gpuprov.shapes.grids import GridDone
from gpuwork.errors import StoreError
from gpuwork.grid.store import list_params, read_done, read_values, render_values
from gpuwork.untrusted_files import read_limited

if TYPE_CHECKING:
    from pathlib import Path

    from gpuwork.grid.values import ParameterValue

VALUES: dict[str, ParameterValue] = {
    "layers": (64, (1.5, "a")),
    "lr": 1e-05,
    "name": "\u00e9: - x\n",
    "no": "no",
    "nothing": None,
    "yes": True,
    "day": "2026-01-01",
}
DONE = {
    "schema": "gpuprov.grid-done/v1", "version": 1, "run": "param_001/2026-01-01-00-00-00_num1", "state": "done",
    "exit_status": 0, "reason": None, "node": "c001", "gpus": [], "simulated": False, "started": "2026-01-01T00:00:00Z",
    "ended": "2026-01-01T00:00:01Z", "seconds": 1.5, "tries": 1, "code": "0" * 64, "values": "1" * 64, "image": None,
}  # fmt: skip


def test_values_come_back_as_they_were(tmp_path: Path) -> None:
    (tmp_path / "param2val.yaml").write_text(render_values(VALUES, param_name="param_001"))
    assert read_values(tmp_path) == VALUES


@pytest.mark.parametrize("change", [("1.0e-05", "2.0e-05"), ("# values", "# value"), ("lr:", "lr")])
def test_values_that_were_edited_are_not_run(tmp_path: Path, change: tuple[str, str]) -> None:
    text = render_values(VALUES, param_name="param_001")
    assert change[0] in text
    (tmp_path / "param2val.yaml").write_text(text.replace(*change))
    with pytest.raises(StoreError, match="was changed or removed"):
        read_values(tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{",
        "[" * 100_000,
        json.dumps({**DONE, "schema": "other"}),
        json.dumps({**DONE, "state": "great"}),
        json.dumps({**DONE, "exit_status": "0"}),
        json.dumps({**DONE, "code": None}),
        json.dumps({**DONE, "code": "abc"}),
        json.dumps({**DONE, "exit_status": 256}),
        json.dumps({**DONE, "seconds": -1}),
        json.dumps({**DONE, "tries": 0}),
        json.dumps({**DONE, "run": "../x"}),
        json.dumps({**DONE, "more": 1}),
        json.dumps({name: value for name, value in DONE.items() if name != "node"}),
    ],
)
def test_what_is_no_end_of_a_run_counts_as_none(tmp_path: Path, content: str) -> None:
    (tmp_path / "done.json").write_text(content)
    assert read_done(tmp_path) is None
    (tmp_path / "done.json").write_text(json.dumps(DONE))
    assert read_done(tmp_path) == read(GridDone, DONE)


def test_links_pipes_and_files_without_end_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("secret")
    (tmp_path / "link").symlink_to("target")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large").write_text("12345")
    assert read_limited(tmp_path / "target") == b"secret"
    assert read_limited(tmp_path / "large", limit=5) == b"12345"
    assert [read_limited(tmp_path / name, limit=4) for name in ("link", "pipe", "large", "nothing", ".")] == [None] * 5


def test_only_folders_with_such_names_are_runs(tmp_path: Path) -> None:
    good = "2026-11-22-16-40-12_num1"
    for name in (good, "2026-11-22_num1", "saves", f"{good}0"):
        (tmp_path / "param_001" / name).mkdir(parents=True)
    (tmp_path / "param_001/param2val.yaml").write_text(render_values(VALUES, param_name="param_001"))
    (tmp_path / "param_002").mkdir()
    (tmp_path / "param_003").symlink_to("param_001")
    (found,) = list_params(tmp_path)
    assert (found.name, [run.name for run in found.runs]) == ("param_001", [f"param_001/{good}", f"param_001/{good}0"])
    assert list_params(tmp_path / "nothing") == []


def test_what_is_no_folder_of_runs_is_an_error_in_three_parts(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "file").touch()
    assert list_params(tmp_path / "none") == []
    for name, words in (("fifo", "is a FIFO"), ("file", "is a file: Not a directory")):
        with pytest.raises(StoreError, match="cannot be read") as raised:
            list_params(tmp_path / name)
        assert raised.value.evidence == f"{tmp_path / name} {words}"
