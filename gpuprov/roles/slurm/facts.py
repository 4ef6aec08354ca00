"""What gpuprov and the Ansible role `slurm` both need to know of Slurm, from one data file, and what slurmd runs."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from gpuprov.assets import get_asset
from gpuprov.drivers.base import File

NAME = "slurm"
ACCOUNTING_SCRIPT = "/usr/local/lib/slurm-accounting/accounting.sh"


@cache
def slurm_facts() -> dict[str, Any]:
    """The facts of templates/slurm/facts.json."""
    facts: dict[str, Any] = json.loads((get_asset("templates") / "slurm" / "facts.json").read_text(encoding="utf-8"))
    return facts


@cache
def settling_script() -> str:
    """What a controller runs before its daemon restarts."""
    return (get_asset("templates") / "slurm" / "settle.sh").read_text(encoding="utf-8")


def slurm_path(fact: str) -> str:
    """A path in nodes, by its name in the data file."""
    return str(slurm_facts()[fact])


def ready_states() -> frozenset[str]:
    """Slurm's words for a node that takes or runs jobs; `*` behind one marks a node that does not answer."""
    return frozenset(slurm_facts()["ready_states"])


def job_programs() -> tuple[File, ...]:
    """What slurmd runs around jobs, on every node."""
    epilog = (get_asset("gpuwork") / "jobs" / "leftovers.py").read_bytes()
    prolog = (get_asset("templates") / NAME / "task-prolog.sh").read_bytes()
    return (
        File(path=slurm_path("epilog"), content=b"#!/usr/bin/python3 -I\n" + epilog, mode=0o755),
        File(path=slurm_path("task_prolog"), content=prolog, mode=0o755),
    )
