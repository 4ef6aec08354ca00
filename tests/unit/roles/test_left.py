"""What `verify` takes for left behind by jobs, of what a node lists."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

from gpuprov.roles.leftovers import ask_left, parse_left

if TYPE_CHECKING:
    from pathlib import Path


def line(*processes: tuple[int, str, bool]) -> str:
    return json.dumps([{"pid": pid, "of": of, "owned": owned, "command": "x"} for pid, of, owned in processes])


def test_only_what_is_there_twice_without_a_job_is_left() -> None:
    first = line((1, "7", False), (2, "8", False), (3, "70", False), (4, "9", True), (5, "6", False))
    second = line((1, "7", False), (3, "70", False), (4, "9", True), (6, "5", False), (5, "60", False))
    said = f"{first}\n7 10\n{second}\n"
    assert [process.pid for process in parse_left(said)] == [3]  # 1: its job runs; 2 has ended; 5 is another; 6 began


def test_no_job_at_all_runs() -> None:
    assert [process.pid for process in parse_left(f"{line((1, '7', False))}\n\n{line((1, '7', False))}\n")] == [1]


def test_a_line_break_in_a_command_is_no_line_of_the_answer(tmp_path: Path) -> None:
    """Nodes' sh writes `\\n` as a line break by its echo."""
    told = [{"pid": 1, "of": "7", "owned": False, "command": "python3 -c import time\ntime.sleep(9)"}]
    program = tmp_path / "told.py"
    program.write_text(f"import json; print(json.dumps({told!r}))")
    argv = ask_left("X", timeout_s=1)["argv"]
    assert isinstance(argv, list)
    argv[4] = program.read_text()
    said = subprocess.run(["/bin/dash", *argv[1:]], check=True, stdout=subprocess.PIPE, text=True).stdout
    assert [process.command for process in parse_left(said)] == [told[0]["command"]]
