"""The words of a log that a job's reason repeats."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuwork.errors import WorkError
from gpuwork.record import end_of_log, why_failed

if TYPE_CHECKING:
    from pathlib import Path

ERROR = str(WorkError("part 0 of a was killed", evidence="first\nout of memory (limit 1 GiB)", fix="less log.txt"))


@pytest.mark.parametrize(
    ("log", "words"),
    [
        ("", ""),
        ("one\n\n  two \n\n", "two"),
        (f"one\n{ERROR}\n", "part 0 of a was killed: out of memory (limit 1 GiB)"),
        (f"error: old\n{ERROR}\n", "part 0 of a was killed: out of memory (limit 1 GiB)"),
        ("error: it broke\n  next: repair it\n", "it broke"),
        (f"{ERROR}\nand more\n", "and more"),
        ("next: an epoch\n", "next: an epoch"),
    ],
)
def test_an_error_in_three_parts_is_told_by_what_failed_and_not_by_what_to_type(
    tmp_path: Path, log: str, words: str
) -> None:
    (tmp_path / "log.txt").write_text(log)
    assert end_of_log(tmp_path / "log.txt") == words
    assert why_failed(tmp_path / "log.txt", 1) == f"exit status 1: {words}".removesuffix(": ")
