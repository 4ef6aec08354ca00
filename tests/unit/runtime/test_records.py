"""Records of containers count as long as something of the container lives."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuprov.core.errors import HostNotReady
from gpuprov.core.process import describe_owner
from gpuprov.runtime import records
from gpuprov.runtime.records import FOLDER, Record, drop_record, find_orphans, read_records, write_record

if TYPE_CHECKING:
    from collections.abc import Mapping

GONE = describe_owner(os.getpid()).rpartition(" ")[0] + " 1"


def record(tmp_path: Path, **fields: str) -> Record:
    one = Record(
        id="c1",
        name="train",
        engine="docker",
        gpus=("GPU-1",),
        sharing="exclusive",
        minors=(0,),
        state="/run/runc/c1",
        process=GONE,
    )
    write_record(one, root=tmp_path)
    return replace(one, **fields)  # type: ignore[arg-type]


def keep_state(tmp_path: Path, name: str, said: Mapping[str, object] | str) -> None:
    folder = tmp_path / "run/runc/c1"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(said if isinstance(said, str) else json.dumps(said))


def began() -> int:
    return int(Path(f"/proc/{os.getpid()}/stat").read_text().rpartition(")")[2].split()[19])


def names(tmp_path: Path) -> list[str]:
    return [one.name for one in read_records(root=tmp_path)]


def test_it_counts_while_the_process_lives_that_becomes_runc(tmp_path: Path) -> None:
    one = record(tmp_path)
    assert names(tmp_path) == []
    assert find_orphans(root=tmp_path) == ("c1",)
    write_record(replace(one, process=describe_owner(os.getpid())), root=tmp_path)
    assert names(tmp_path) == ["train"]
    assert find_orphans(root=tmp_path) == ()
    assert read_records(root=tmp_path)[0].lease.gpus == ("GPU-1",)


def test_a_runc_that_ends_between_two_looks_is_not_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It writes the state before it ends, so the state is looked at last."""
    record(tmp_path)

    def ends_now(_: str) -> bool:
        keep_state(tmp_path, "state.json", {"init_process_pid": os.getpid(), "init_process_start": began()})
        return True

    monkeypatch.setattr(records, "is_gone", ends_now)
    assert names(tmp_path) == ["train"]


@pytest.mark.parametrize(
    ("file", "pid", "start"),
    [("state.json", "init_process_pid", "init_process_start"), ("status", "pid", "process-start-time")],
)
def test_it_counts_while_the_container_has_its_first_process(tmp_path: Path, file: str, pid: str, start: str) -> None:
    record(tmp_path)
    keep_state(tmp_path, file, {pid: os.getpid(), start: began()})
    assert names(tmp_path) == ["train"]
    keep_state(tmp_path, file, {pid: os.getpid(), start: 1})
    assert names(tmp_path) == []


def test_it_counts_while_something_is_left_in_its_control_group(tmp_path: Path) -> None:
    group = tmp_path / "group"
    group.mkdir()
    (group / "cgroup.procs").write_text("7\n")
    record(tmp_path)
    keep_state(
        tmp_path, "state.json", {"init_process_pid": 1, "init_process_start": 0, "cgroup_paths": {"": str(group)}}
    )
    assert names(tmp_path) == ["train"]
    (group / "cgroup.procs").write_text("")
    assert names(tmp_path) == []


@pytest.mark.parametrize("text", ["", "[]", "{}", "[" * 100_000])
def test_a_state_that_nobody_can_read_takes_no_gpu_away(tmp_path: Path, text: str) -> None:
    record(tmp_path)
    keep_state(tmp_path, "state.json", text)
    assert names(tmp_path) == ["train"]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"name": 1}', "[" * 100_000])
def test_what_is_no_record_is_left_out(tmp_path: Path, text: str) -> None:
    record(tmp_path)
    (tmp_path / FOLDER / "c2").write_text(text)
    assert names(tmp_path) == []


def test_a_removed_record_is_gone(tmp_path: Path) -> None:
    record(tmp_path)
    drop_record("c1", root=tmp_path)
    drop_record("c1", root=tmp_path)
    assert find_orphans(root=tmp_path) == ()
    assert read_records(root=tmp_path / "nowhere") == ()


def test_leases_that_nobody_can_trust_are_unknown_and_not_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_records(root=tmp_path) == ()
    (tmp_path / FOLDER).mkdir(parents=True)
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    if (tmp_path / FOLDER).stat().st_uid == 0:
        os.chown(tmp_path / FOLDER, 12346, -1)
    with pytest.raises(HostNotReady, match="cannot be read"):
        read_records(root=tmp_path)
