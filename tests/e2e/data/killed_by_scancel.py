"""Cancels a job, and one of an array, and prints how submitit learns that they will return nothing."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

import submitit


def state_at_end(job: submitit.Job[Any]) -> str:
    try:
        return f"returned {job.result()}"
    except submitit.core.utils.UncompletedJobError:
        return str(job.state)


executor = submitit.AutoExecutor(folder="runs")
executor.update_parameters(name="killed", timeout_min=10)
single = executor.submit(time.sleep, 600)
first, second = executor.map_array(time.sleep, [600, 600])
while {single.state, first.state, second.state} != {"RUNNING"}:
    time.sleep(1)
subprocess.run(["scancel", single.job_id, first.job_id], check=True)
sys.stdout.write(f"{state_at_end(single)}\n{state_at_end(first)}\n{second.state}\n")
subprocess.run(["scancel", second.job_id], check=True)
while subprocess.run(["squeue", "--noheader"], check=True, capture_output=True).stdout:
    time.sleep(1)  # its node takes no job before it has ended
