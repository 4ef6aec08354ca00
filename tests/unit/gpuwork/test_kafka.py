"""Kafka by kombu's `confluentkafka`, against librdkafka's own stand-in for a broker: what works, and what does not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

if not os.environ.get("CI"):
    pytest.importorskip("confluent_kafka")


@pytest.mark.slow
def test_runs_arrive_once_and_workers_cannot_be_asked() -> None:
    finished = subprocess.run(
        [sys.executable, ROOT / "tests/native/use_kafka.py"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert finished.returncode == 0, finished.stderr
    assert json.loads(finished.stdout) == {
        "found": [["7", 0], ["7", 1], ["7", 2]],
        "refused": "the workers cannot be listed with this kind of broker",
    }
