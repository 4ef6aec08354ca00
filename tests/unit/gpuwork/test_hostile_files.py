"""What jobs leave on the shared folder in place of what belongs there: others go on, it is seen and removed."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from gpuprov.shapes.base import parse_json, write
from gpuwork.child import open_log
from gpuwork.errors import StoreError
from gpuwork.grid.store import read_values, render_values
from gpuwork.grid.tables import list_runs, list_series
from gpuwork.jobs.store import next_number, read_submission
from gpuwork.jobs.workers import take_next
from gpuwork.programs.store import get_program, in_use, registered_programs
from gpuwork.shared_folder import is_free, locked, one_of, only_one, write_file
from gpuwork.untrusted_files import names_in, open_regular, read_limited, what_is
from tests.hostile_jobs import BAD, FILES, RUN, STATES, STORE_FILES, folder_for_all, look_at, make_store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Ledger

GRID_DONE = {
    "schema": "gpuprov.grid-done/v1", "version": 1, "run": "param_001/2026-01-01-00-00-00_num1", "state": "done",
    "exit_status": 0, "reason": None, "node": "c001", "gpus": [], "simulated": False, "started": "2026-01-01T00:00:00Z",
    "ended": "2026-01-01T00:00:01Z", "seconds": 1.5, "tries": 1, "code": "0" * 64, "values": "1" * 64, "image": None,
}  # fmt: skip
PLACES = (*FILES, *(f"/{name}" for name in STORE_FILES))
FOUND = (
    (f"{RUN}/.alive", "a FIFO"), (f"{RUN}/.alive", "a folder"), (f"{RUN}/.alive", "a link to itself"),
    (f"{RUN}/done.json", "12,000 GPUs"), (f"{RUN}/done.json", "50,000 keys, each twice"), ("runs", "nothing"),
    ("submitted.json", "a link to a file of root's"), (f"{RUN}/.cancelled.part", "a FIFO"), ("/.lock", "a folder"),
    ("/999999999", "a folder"), ("order.json", "no permission"), ("runs", "a folder without permission"),
)  # fmt: skip
IN_THE_WAY = ("a FIFO", "a folder", "a link to itself", "a link to /dev/zero", "a socket", "a device", "1 GiB of holes")
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="a job's account is another one than root")


@pytest.mark.slow
@as_root
@pytest.mark.parametrize(("place", "state"), FOUND)
def test_a_state_that_was_found_hurts_nobody_else(place: str, state: str) -> None:
    with folder_for_all() as folder:
        assert look_at(folder, place, state).faults == ()


GRID_PLACES = (
    "param2val.yaml", "RUN", "RUN/done.json", "RUN/loss.csv", "RUN/log.txt", "/.code", "/param_999999", "/.lock",
    "/.submissions/2026-01-01-00-00-01",
)  # fmt: skip


@pytest.mark.sampled(4)
@pytest.mark.slow
@pytest.mark.parametrize("place", GRID_PLACES)
@pytest.mark.parametrize("state", [state for state in STATES if state != "a device" or os.geteuid() == 0])
def test_a_state_in_the_folder_of_a_grid_hurts_no_other_run(place: str, state: str) -> None:
    run = "2026-01-01-00-00-00_num1"
    with folder_for_all() as store:
        for name in ("param_001", "param_002"):
            (store / name / run).mkdir(parents=True)
            (store / name / "param2val.yaml").write_text(render_values({"lr": 0.1}, param_name=name))
            (store / name / run / "done.json").write_text(json.dumps(GRID_DONE))
            (store / name / run / "loss.csv").write_text("index,loss\n0,0.5\n")
        (store / ".submissions").mkdir()
        path = store / place[1:] if place.startswith("/") else store / "param_001" / place.replace("RUN", run)
        subprocess.run(["rm", "-rf", str(path)], check=True)
        STATES[state](path)
        listed, drawn = write(list_runs(store)), write(list_series(store))
        subprocess.run(["rm", "-rf", *map(str, store.iterdir())], check=True)  # also what Python cannot remove
    found = (dict(zip(listed["columns"], row, strict=True)) for row in listed["rows"])
    rows = {row["param_name"]: row for row in found}
    assert (rows["param_002"]["run.state"], rows["param_002"]["last.loss"]) == ("done", "0.5")
    assert drawn["combinations"][-1]["series"] == {"loss": [[["0", "0.5"]]]}
    assert len(json.dumps([listed, drawn], allow_nan=False)) < 20_000


def test_an_alias_in_the_values_of_a_grid_is_not_followed(tmp_path: Path) -> None:
    bomb = "\n".join(["a0: &a0 [1, 1]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12))])
    (tmp_path / "param2val.yaml").write_text(f"# values {'0' * 64}\n{bomb}\n")
    with pytest.raises(StoreError, match="was changed or removed"):
        read_values(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("state", [state for state in STATES if state != "a device" or os.geteuid() == 0])
def test_a_state_in_the_store_of_programs_hurts_no_other_program(state: str) -> None:
    good, bad = "1" * 64, "2" * 64
    told = {"schema": "gpuprov.program/v1", "version": 1, "hash": good, "name": "kmeans", "program_version": "1"}
    told |= {"registered": "2026-01-01T00:00:00Z", "code": "0" * 64}
    for place in ("program.json", "built", ".in-use", ""):
        with folder_for_all() as store:
            for name in (good, bad):
                (store / name).mkdir()
                (store / name / "program.json").write_text(json.dumps({**told, "hash": name}))
            path = store / bad / place
            subprocess.run(["rm", "-rf", str(path)], check=True)
            STATES[state](path)
            assert good in {one.hash for one in registered_programs(store)}
            assert get_program(store, good).targets == []
            for one in registered_programs(store):
                assert isinstance(one.targets, list)
                with in_use(one):
                    pass
            subprocess.run(["rm", "-rf", *map(str, store.iterdir())], check=True)


@as_root
@pytest.mark.long
@pytest.mark.parametrize("state", STATES)
def test_a_state_in_place_of_any_file_hurts_nobody_else(ledger: Ledger, state: str) -> None:
    found = {}
    for place in PLACES:
        with folder_for_all() as folder:
            seen = look_at(folder, place, state)
        found[place] = seen.faults
        ledger.add("hostile-job", state=state, place=place, survived=not seen.faults, seconds=seen.slowest_s)
    assert {place: faults for place, faults in found.items() if faults} == {}


@pytest.mark.parametrize("state", IN_THE_WAY)
def test_nothing_but_a_file_is_read_or_locked_or_written(tmp_path: Path, state: str) -> None:
    if state == "a device" and os.geteuid() != 0:
        pytest.skip("only root makes devices")
    path = tmp_path / "file"
    STATES[state](path)
    is_file = what_is(path) is None
    assert read_limited(path) is None
    assert is_free(path)
    with only_one(tmp_path, name="a run", log=path, lock="file") as handle:
        assert (what_is(path), is_free(path)) == (None, False)
        os.fstat(handle)
    with one_of(tmp_path, 1) as place:
        assert place is not None
    STATES[state](tmp_path / "other")
    write_file(tmp_path / "other", "content")
    assert (tmp_path / "other").read_text() == "content"
    STATES[state](tmp_path / "log.txt")
    with open_log(tmp_path / "log.txt") as log:
        log.write(b"line\n")
    assert len([*tmp_path.glob(".aside-*")]) == (0 if is_file else 3)


def test_no_component_of_a_path_is_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "file").write_text("content")
    (tmp_path / "link").symlink_to("real")
    assert read_limited(tmp_path / "link" / "file") == b"content"
    assert read_limited(tmp_path / "real" / "file", within=tmp_path) == b"content"
    assert read_limited(tmp_path / "link" / "file", within=tmp_path) is None
    with pytest.raises(OSError, match="Not a directory"):
        names_in(tmp_path / "link", within=tmp_path)


def test_a_folder_with_too_many_names_is_not_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuwork.untrusted_files.MOST_ENTRIES", 3)
    for name in "abc":
        (tmp_path / name).touch()
    assert sorted(names_in(tmp_path)) == ["a", "b", "c"]
    (tmp_path / "d").touch()
    with pytest.raises(OSError, match="has more than 3 names"):
        names_in(tmp_path)


@pytest.mark.parametrize(
    "text",
    ['{"key": 1e999}', '{"key": NaN}', "[" * 100_000, '{"a": 1, "a": 1}', b"\xff", "9" * 5000],
    ids=["infinite", "NaN", "deep", "twice", "bytes", "digits"],
)
def test_what_is_no_strict_json_is_refused(text: bytes | str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_json(text)


def test_a_number_is_given_although_a_job_took_the_highest_one(tmp_path: Path) -> None:
    for name in ("1", "7", "999999999"):
        (tmp_path / name).mkdir()
    assert next_number(tmp_path) == "8"


def test_a_lock_that_is_never_let_go_ends_a_submission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuwork.shared_folder._STORE_S", 0.1)
    with locked(tmp_path), pytest.raises(Exception, match="another process has been writing here"), locked(tmp_path):
        pass


def test_a_job_that_holds_the_next_number_holds_no_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuwork.jobs.workers._NEXT_S", 0.1)
    submission = read_submission(make_store(tmp_path) / BAD)
    place = submission.folder / "next"
    os.mkfifo(place)
    assert take_next(submission) is None
    place.unlink()
    place.write_text("0")
    with only_one(submission.folder, name="a run", log=place, lock="next"):
        assert take_next(submission) is None
    assert take_next(submission) == 0


@pytest.mark.parametrize("damage", [lambda told: told.update(chunks=told["chunks"][:1]), lambda told: told.clear()])
def test_a_submission_whose_arrays_are_not_its_runs_is_told(
    tmp_path: Path, damage: Callable[[dict[str, object]], object]
) -> None:
    folder = make_store(tmp_path) / BAD
    order = json.loads((folder / "order.json").read_text())
    (folder / "order.json").write_text(json.dumps({**order, "count": 2000}))
    told = json.loads((folder / "submitted.json").read_text())
    told |= {"system": "slurm", "chunks": [{"slurm": 1, "first": at, "size": 1000} for at in (0, 1000)]}
    (folder / "submitted.json").write_text(json.dumps(told))
    assert len(read_submission(folder).told.chunks) == 2
    damage(told)
    (folder / "submitted.json").write_text(json.dumps(told))
    with pytest.raises(Exception, match="is not a submission, or was changed"):
        read_submission(folder)


def test_only_a_regular_file_is_opened(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="is a folder"):
        open_regular(tmp_path)
