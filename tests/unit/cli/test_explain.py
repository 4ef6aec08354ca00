from __future__ import annotations

import json
from typing import TYPE_CHECKING

from gpuprov.cli.machine import complete_ids
from gpuprov.cli.main import main

if TYPE_CHECKING:
    import pytest


def test_a_line_in_quotes_or_not(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "Failed to initialize NVML: Unknown Error"]) == 0
    quoted = capsys.readouterr().out
    assert main(["explain", "Failed", "to", "initialize", "NVML:", "Unknown", "Error"]) == 0
    assert capsys.readouterr().out == quoted
    lines = quoted.splitlines()
    assert lines[0].startswith("gpu-taken-away: ")
    assert [line.split()[0] for line in lines[1:]] == ["cause:", "see:", "fix:", "also:"]


def test_a_line_with_options_in_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "-P", "FORWARD", "DROP"]) == 0
    assert "network-cut" in capsys.readouterr().out


def test_several_entries_are_apart(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "c001: slurm: slurm-gres: Slurm counts 0 GPUs, but the node has 1"]) == 0
    first, second = capsys.readouterr().out.split("\n\n")
    assert first.startswith("slurm-gres-count: ")
    assert second.startswith("slurm-gres: ")


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "xid 79", "--json"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)["entries"]
    assert (entry["id"], entry["kind"]) == ("xid-79", "xid")
    assert set(entry) == {"id", "kind", "title", "cause", "see", "fix", "fixes", "patterns", "also"}


def test_what_nobody_knows(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "nothing of the sort"]) == 2
    error = capsys.readouterr().err
    assert "it is neither a known log line" in error
    assert "fix: gpuprov doctor; gpuprov verify " in error
    assert main(["explain", ""]) == 2
    assert main(["explain"]) == 2


def test_ids_are_completed() -> None:
    assert complete_ids(None, None, "device-m") == ["device-mknod"]  # type: ignore[arg-type]
