"""How many jobs a queue has is asked by lines of shell: a service that does not answer has not none."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from gpuprov.roles.registry import ROLES

if TYPE_CHECKING:
    from pathlib import Path

PROGRAMS = {"slurm": "squeue", "worker": "rabbitmqctl"}


@pytest.mark.parametrize(
    ("role", "answers", "counted"),
    [
        ("slurm", "exit 1", ""),
        ("slurm", "exit 0", "0"),
        ("slurm", "printf '17 lab a\\n18 lab b\\n'", "2"),
        ("worker", "exit 69", ""),
        ("worker", "exit 0", "0"),
        ("worker", "printf 'messages\\n3\\n4\\n'", "7"),
    ],
)
def test_a_queue_is_counted_only_where_its_service_answers(
    role: str, answers: str, counted: str, tmp_path: Path
) -> None:
    program = tmp_path / PROGRAMS[role]
    program.write_text(f"#!/bin/sh\n{answers}\n")
    program.chmod(0o755)
    queue = ROLES[role].queue
    assert queue is not None
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["sh", "-c", queue.count], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == counted
