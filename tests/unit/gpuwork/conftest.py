from __future__ import annotations

import io
import json
import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuwork.freeze import remove_copy
from gpuwork.jobs.cli import main
from tests.fakes.slurm_commands import SlurmCommands
from tests.schemas import validate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.fakes.worker_bed import WorkerBed

PARAMS = """
param2requests = {
    "num_hidden_units": [64, 128, 256],
    "lr": [0.1, 0.01],
}
param2default = {"lr": 0.1, "num_hidden_units": 32, "epochs": 3}
param2debug = {"epochs": 1}
"""
# A stand-in for pandas, of which the contract uses one class; nodes, and most tests' programs, have no pandas.
PANDAS = """
class Series:
    def __init__(self, data, index=None, name=None):
        self.data, self.index, self.name = data, index or range(len(data)), name

    def items(self):
        return zip(self.index, self.data)
"""
JOB = """
import pandas as pd

def main(param2val):
    print(param2val)
    return [
        pd.Series([0.5, 0.5, 0.8], index=[1, 2, 3], name="precision"),
        pd.Series([0.4, 0.6, 0.7], index=[1, 2, 3], name="recall"),
    ]
"""

Make = "Callable[..., Path]"


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Path]:
    """Makes a project of files by name; without any, the lab's template."""

    def project(files: dict[str, str] | None = None, *, name: str = "Project") -> Path:
        template = {"src/params.py": PARAMS, "src/job.py": JOB, "pandas.py": PANDAS}
        for path, text in (template if files is None else files).items():
            (tmp_path / name / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name / path).write_text(text)
        return tmp_path / name

    return project


class Jobs:
    """Types `python3 -m gpuwork.jobs` in this process; each answer is held to its schema."""

    def __init__(
        self, folder: Path, broker: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.folder = folder
        self._broker = broker
        self._capsys = capsys
        self._monkeypatch = monkeypatch

    def __call__(self, *arguments: str, code: int = 0, stdin: bytes = b"") -> dict[str, Any]:
        self._monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        status = main(["--folder", str(self.folder), "--broker", str(self._broker), *arguments])
        out = self._capsys.readouterr().out
        assert status == code, out
        document: dict[str, Any] = json.loads(out)
        validate(document)
        return document

    def submit(self, *command: str, code: int = 0, **order: object) -> dict[str, Any]:
        """Hand an order in; the answer."""
        return self("submit", code=code, stdin=render_order(*command, **order))

    def submitted(self, *command: str, **order: object) -> Path:
        """Hand an order in; the folder of the submission."""
        return self.folder / str(self("submit", stdin=render_order(*command, **order))["id"])

    def wait(self, *ids: str, code: int = 0) -> list[dict[str, Any]]:
        """The rows of jobs that have ended."""
        rows: list[dict[str, Any]] = self("wait", *ids, "--limit", "60", code=code)["jobs"]
        return rows

    def rows(self, *ids: str) -> list[dict[str, Any]]:
        """The rows of jobs as they are now."""
        rows: list[dict[str, Any]] = self(*(["show", *ids] if ids else ["list"]))["jobs"]
        return rows


def render_order(*command: str, **order: object) -> bytes:
    """An order for one run without GPUs, unless it says otherwise."""
    told = {"schema": "gpuprov.job-order/v1", "version": 1, "gpus": 0, **order}
    return json.dumps({**told, "command": list(command)} if command else told).encode()


@pytest.fixture
def in_bare_python(bare_python: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is started with this Python has no packages but PyYAML."""
    monkeypatch.setattr(sys, "executable", bare_python)


@pytest.fixture
def slurm(in_bare_python: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SlurmCommands]:  # noqa: ARG001
    """sbatch, squeue and scancel on PATH."""
    commands = SlurmCommands(tmp_path / "slurm")
    monkeypatch.setenv("PATH", f"{commands.bin}:{os.environ['PATH']}")
    yield commands
    commands.finish()


@pytest.fixture
def jobs(
    slurm: SlurmCommands, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Jobs]:
    """The program, with a shared folder of its own."""
    assert slurm.bin.is_dir()
    (tmp_path / "shared").mkdir()
    yield Jobs(tmp_path / "shared/jobs", tmp_path / "no/broker", capsys, monkeypatch)
    for copy in (tmp_path / "shared/jobs/.code").glob("*"):
        remove_copy(copy)


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[WorkerBed]:
    """Real workers, with a shared folder and a broker of their own."""
    from tests.fakes.worker_bed import WorkerBed

    made = WorkerBed(tmp_path)
    yield made
    made.finish()
    for copy in (made.jobs / ".code").glob("*"):
        remove_copy(copy)


@pytest.fixture
def queued(bed: WorkerBed, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Jobs:
    """The program, where jobs are for workers."""
    return Jobs(bed.jobs, bed.url_file, capsys, monkeypatch)


@pytest.fixture
def held(jobs: Jobs, slurm: SlurmCommands) -> Jobs:
    """The program, with a Slurm that starts nothing."""
    slurm.hold()
    return jobs


def wait_until(true: Callable[[], object], what: str, *, limit_s: float = 30) -> None:
    """Until something holds that is bound to."""
    until = time.monotonic() + limit_s
    while not true():
        assert time.monotonic() < until, what
        time.sleep(0.02)


def lives(pid: str | int) -> bool:
    """Whether a process does something still."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False
