"""How long jobs had GPUs: what a role knows of each job, cut to a window of time, and sums of it; pure functions."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Final, Literal

from gpuprov.core.names import fold
from gpuprov.shapes.usage import UsageRow

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

By = Literal["person", "account", "node", "gpu", "job"]
UNKNOWN: Final = "?"


@dataclass(frozen=True, kw_only=True)
class Use:
    """What a try of a job had within a window of time.

    Attributes:
        job: Its id.
        submitted: When it was submitted, in seconds since 1970, or 0: a later cluster of the name begins to count jobs
            anew, and a job that was requeued has a time of its own for each try.
        person: Whose it is.
        account: To which it is charged.
        nodes: On which it ran.
        gpus: By what is known of each GPU, its UUID or its type, how many of them.
        seconds: For how long, whole ones, without the time for which it was suspended.
        running: Whether it goes on.
        submission: The number of gpuprov's submission that it belongs to, where that is known.
    """

    job: str
    person: str
    account: str
    nodes: tuple[str, ...]
    gpus: Mapping[str, int]
    seconds: int
    submitted: int = 0
    running: bool = False
    submission: str = ""


@dataclass(frozen=True, kw_only=True)
class Uses:
    """What is known of the jobs of a cluster, or of containers of `gpuprov run`.

    Attributes:
        uses: Those that ran in the window.
        notes: What is missing from them, in sentences.
        late: How many jobs have ended and are not on record yet; they are among what is missing.
        simulated: Whether GPUs of theirs are known to be simulated.
        accounting: Whether Slurm's accounting tells.
    """

    uses: tuple[Use, ...]
    notes: tuple[str, ...] = ()
    late: int = 0
    simulated: bool = False
    accounting: bool = False


def overlap_s(start_s: float, end_s: float, window: tuple[float, float]) -> int:
    """Seconds of a span that lie within a window."""
    return max(0, int(min(end_s, window[1]) - max(start_s, window[0])))


def sum_uses(uses: Iterable[Use], by: By, cluster: str) -> tuple[UsageRow, ...]:
    """A row for each person, account, node, GPU or job of a cluster, the most GPU time first.

    What a job had on several nodes is in a row of these nodes together: which of its GPUs were on which of them, nobody
    records.
    """
    seconds: Counter[str] = Counter()
    jobs: dict[str, set[tuple[str, int]]] = {}
    running: dict[str, set[tuple[str, int]]] = {}
    persons: dict[str, str] = {}
    there = tuple(uses)
    several = _several(there) if by == "job" else frozenset()
    for use in there:
        for name, gpus in _shares(use, by, several).items():
            seconds[name] += gpus * use.seconds
            jobs.setdefault(name, set()).add((use.job, use.submitted))
            persons[name] = use.person or UNKNOWN
            if use.running:
                running.setdefault(name, set()).add((use.job, use.submitted))
    rows = (
        UsageRow(
            name=name,
            cluster=cluster,
            person=persons[name] if by == "job" else None,
            gpu_seconds=seconds[name],
            jobs=len(ids),
            running=len(running.get(name, ())),
        )
        for name, ids in jobs.items()
    )
    return sort_rows(rows)


def sort_rows(rows: Iterable[UsageRow]) -> tuple[UsageRow, ...]:
    """The most GPU time first."""
    return tuple(sorted(rows, key=lambda row: (-row.gpu_seconds, row.name, row.cluster)))


def _several(uses: Iterable[Use]) -> frozenset[str]:
    """Numbers that more than one job has."""
    counts = Counter(job for job, _ in {(use.job, use.submitted) for use in uses})
    return frozenset(job for job, count in counts.items() if count > 1)


def _shares(use: Use, by: By, several: Collection[str]) -> Mapping[str, int]:
    """By the name of a row, how many GPUs of a job count there."""
    if by == "gpu":
        return use.gpus
    job = f"{use.job} of {datetime.fromtimestamp(use.submitted, timezone.utc):%Y-%m-%dT%H:%M:%SZ}"
    names = {
        "person": use.person,
        "account": use.account,
        "job": job if use.job in several else use.job,
        "node": fold(list(use.nodes)),
    }
    return {names[by] or UNKNOWN: sum(use.gpus.values())}
