"""What the programs of the table of hostile kinds print, where the amount matters; nothing else of it is run here."""

from __future__ import annotations

import subprocess

import pytest

from gpuprov.roles.slurm.jobs import ends_with
from gpuprov.roles.slurm.words import parse_jobs, parse_words
from tests.e2e.hostile import LONG_STATE, LONG_WORD, MANY_JOBS

READ_BYTES = 16_000_000  # a command that prints more is ended


def printed(script: str) -> str:
    """What it prints with this machine's own `yes` in place of the kept one."""
    here = script.partition("\n")[2].replace("/root/kept-yes", "yes")
    assert "/root" not in here
    return subprocess.run(["sh", "-c", here], check=True, capture_output=True, text=True, timeout=60).stdout


@pytest.mark.parametrize("script", [LONG_STATE, LONG_WORD])
def test_a_word_is_long_and_is_read(script: str) -> None:
    said = printed(script)
    assert 5_000_000 <= len(said) < READ_BYTES
    assert parse_words(said) == {}


@pytest.mark.slow
def test_jobs_are_more_than_are_looked_at_and_would_end_with_any_node() -> None:
    said = printed(MANY_JOBS)
    jobs = parse_jobs(said)
    assert len(said) < READ_BYTES
    assert len(jobs) > 10_000
    assert all(ends_with(job, ["c001"]) for job in (jobs[0], jobs[-2]))
