"""Many real processes of the runtime at once, with a stand-in for runc, for the last GPUs of a machine."""

from __future__ import annotations

import json
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from gpuprov.runtime import records
from gpuprov.runtime.records import read_records
from tests.unit.runtime.copied import copy_runtime

if TYPE_CHECKING:
    from pathlib import Path

GPUS = 4
RUNC = """#!/bin/sh
# --root ROOT create --bundle BUNDLE ID
mkdir -p "$2/$6"
read -r _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ began _ </proc/$$/stat
echo "{\\"init_process_pid\\": $$, \\"init_process_start\\": $began}" >"$2/.$6"
mv "$2/.$6" "$2/$6/state.json"
exec sleep 1000
"""


@pytest.mark.slow
@pytest.mark.parametrize("starts", [30, pytest.param(200, marks=pytest.mark.long)])
def test_as_many_win_as_there_are_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, starts: int) -> None:
    monkeypatch.setattr(records, "FOLDER", tmp_path / "leases")
    runc = tmp_path / "runc"
    runc.write_text(RUNC)
    runc.chmod(0o755)
    program, _ = copy_runtime(tmp_path, gpus=GPUS, runc=runc)
    for number in range(starts):
        bundle = tmp_path / f"b{number}"
        (bundle / "rootfs").mkdir(parents=True)
        (bundle / "config.json").write_text(json.dumps({"process": {"env": ["HOUDINI_GPU_REQUESTED=1"]}}))
    front = (program.places["gpuprov"], "--root", str(tmp_path / "state"), "create", "--bundle")
    said = [tmp_path / f"said{number}" for number in range(starts)]
    runs: list[subprocess.Popen[bytes]] = []
    for number, path in enumerate(said):
        with path.open("wb") as file:
            runs.append(subprocess.Popen([*front, str(tmp_path / f"b{number}"), f"c{number}"], stderr=file))
    try:
        while sum(run.poll() is None for run in runs) > GPUS:
            time.sleep(0.1)
        winners = {f"c{number}": run for number, run in enumerate(runs) if run.poll() is None}
        found = read_records()
        assert {record.id for record in found} == winners.keys()
        assert sorted(minor for record in found for minor in record.minors) == [*range(GPUS)]
        refused = [path.read_text() for path, run in zip(said, runs, strict=True) if run not in winners.values()]
        assert all("not enough GPUs" in text for text in refused), refused
    finally:
        for run in runs:
            run.kill()
            run.wait()
    assert read_records() == ()
