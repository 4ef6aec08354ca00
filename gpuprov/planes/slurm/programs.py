"""The programs that slurmd runs around jobs, as files of the nodes."""

from __future__ import annotations

from gpuprov.assets import get_asset
from gpuprov.drivers.base import File
from gpuprov.planes.slurm.facts import NAME, slurm_path


def job_programs() -> tuple[File, ...]:
    """What slurmd runs around jobs, on every node."""
    epilog = (get_asset("gpuwork") / "jobs" / "leftovers.py").read_bytes()
    prolog = (get_asset("templates") / NAME / "task-prolog.sh").read_bytes()
    return (
        File(path=slurm_path("epilog"), content=b"#!/usr/bin/python3 -I\n" + epilog, mode=0o755),
        File(path=slurm_path("task_prolog"), content=prolog, mode=0o755),
    )
