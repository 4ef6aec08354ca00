"""Trains with four learning rates, each in a Slurm job of its own, and prints what they return."""

from __future__ import annotations

import os
import platform

import submitit


def train(rate: float, steps: int) -> dict[str, object]:
    """Stand for a training: minimise (x - 3)^2 from 0 by gradient descent."""
    x = 0.0
    for _ in range(steps):
        x -= rate * 2 * (x - 3)
    return {
        "rate": rate,
        "x": round(x, 4),
        "node": platform.node(),
        "gpu": os.environ.get("CUDA_VISIBLE_DEVICES"),
    }


if __name__ == "__main__":
    executor = submitit.AutoExecutor(folder="runs")
    executor.update_parameters(name="sweep", timeout_min=10, gpus_per_node=1)
    jobs = executor.map_array(train, [0.01, 0.03, 0.1, 0.3], [50] * 4)
    print("jobs", *(job.job_id for job in jobs))
    for job in jobs:
        print(job.result())
