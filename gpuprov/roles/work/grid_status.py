"""What has become of the runs of a grid, by what they left and what the jobs of the cluster say. Pure."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from gpuprov.core.excerpt import excerpt
from gpuprov.roles.work.grid_answers import run_name
from gpuprov.roles.work.grid_jobs import UNDER_WAY
from gpuprov.shapes.grids import HEAD, Counts, GridRun, GridStatus

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuprov.shapes.grids import GridListed, RunState
    from gpuprov.shapes.jobs import Job

STATES: Final[tuple[RunState, ...]] = ("done", "failed", "running", "waiting")
_LABEL: Final = 80
_REASON: Final = 300


def judge_runs(project: str, table: GridListed, jobs: Mapping[str, Job], combinations: Sequence[str]) -> GridStatus:
    """What has become of each run.

    Args:
        jobs: The job of each run, by its name.
        combinations: The hash of the values of each combination that the project asks for now.
    """
    varied = _varied(table)
    runs = []
    for row in table.runs:
        run = _run(row, jobs.get(run_name(row)), varied)
        if run is not None:
            runs.append((table.combinations[row["param_name"]], run))
    there = {values for values, run in runs if run.state != "failed"}
    ordered = sorted((run for _, run in runs), key=lambda run: STATES.index(run.state))
    found = Counter(run.state for run in ordered)
    counts = Counts(
        done=found["done"], failed=found["failed"], running=found["running"], waiting=found["waiting"],
        missing=sum(values not in there for values in combinations),
    )  # fmt: skip
    return GridStatus(project=project, counts=counts, runs=tuple(ordered))


def _run(row: Mapping[str, str], job: Job | None, varied: Sequence[str]) -> GridRun | None:
    """None for one that has not ended and that nobody is at: the next `grid run` makes it."""
    values = excerpt(" ".join(f"{name}={row[name]}" for name in varied if row[name]), _LABEL)
    name, number = run_name(row), job.id if job else None
    if row["run.state"] != "open":
        return GridRun(
            name=name,
            values=values,
            job=number,
            state="done" if row["run.state"] == "done" else "failed",
            node=excerpt(row["run.node"], _REASON) or None,
            gpus=tuple(row["run.gpus"].split()),
            simulated=row["run.simulated"] == "True",
            seconds=_seconds(row["run.seconds"]),
            reason=excerpt(row["run.reason"], _REASON) or None,
        )
    if job is None or job.state in ("done", "cancelled"):
        return None
    state: RunState = "failed" if job.state not in UNDER_WAY else "running" if job.state == "running" else "waiting"
    return GridRun(
        name=name,
        values=values,
        job=number,
        state=state,
        node=job.node,
        gpus=job.gpus,
        simulated=job.simulated,
        seconds=None,
        reason=job.reason,
    )


def _varied(table: GridListed) -> list[str]:
    """The parameters whose values differ between runs."""
    parameters = [name for name in table.columns if name not in HEAD and not name.startswith(("run.", "last."))]
    return [name for name in parameters if len({run[name] for run in table.runs}) > 1]


def _seconds(text: str) -> float | None:
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if 0 <= seconds < 1e10 else None  # noqa: PLR2004 - and not NaN
