"""A row of Slurm's for a try of a job, as sacct prints it, or the record of jobs without accounting: pure functions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gpuprov.core.errors import UsageError
from gpuprov.core.names import expand_names
from gpuprov.roles.usage import Use

if TYPE_CHECKING:
    from collections.abc import Mapping

FIELDS: Final = "JobIDRaw,JobID,User,Account,State,Submit,End,ElapsedRaw,AllocTRES,NodeList"
TIME: Final = r"[0-9]{1,12}|N/A|NONE|None|Unknown"
GOING_ON: Final = frozenset({"RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "RESIZING"})
PENDING: Final = "PENDING"
_MOST_JOBS: Final = 200_000  # and no driver takes in more than 16 MB
_JOB = r"[0-9]{1,10}[0-9_+\[\]%,.-]{0,200}"
_NAME = r"[A-Za-z0-9_.@$-]{0,64}"
_ROW: Final = re.compile(
    rf"([0-9]{{1,10}})\|({_JOB})\|({_NAME})\|({_NAME})\|([A-Z_]{{1,20}})(?: by [0-9]+)?\|([0-9]{{1,10}})\|({TIME})\|"
    r"([0-9]{1,10})\|([A-Za-z0-9=,/._:-]{0,20000})\|([A-Za-z0-9\[\],. -]{0,20000})",
    re.ASCII,
)
_GPUS: Final = re.compile(r"gres/gpu(?::([A-Za-z0-9._+-]{1,64}))?=([0-9]{1,6})", re.ASCII)
_UNTYPED: Final = "gpu"
_BY_VERIFY: Final = "(verify)"  # a name that no account has
_NOWHERE: Final = ("", "None assigned")


@dataclass(frozen=True, kw_only=True)
class Row:
    """A try of a job on record, in seconds; its end is no later than that of the window."""

    raw: str
    job: str
    person: str
    account: str
    state: str
    submitted: int
    end: int
    seconds: int
    gpus: Mapping[str, int]
    nodes: str


def read_row(line: str) -> Row:
    """Read a line; raises ValueError for one that is none."""
    found = _ROW.fullmatch(line)
    if found is None:
        raise ValueError(line)
    raw, job, person, account, state, submitted, end, seconds, tres, nodes = found.groups()
    return Row(
        raw=raw,
        job=job,
        person=person,
        account=account,
        state=state,
        submitted=int(submitted),
        end=seconds_of(end),
        seconds=int(seconds),
        gpus=read_gpus(tres),
        nodes=nodes,
    )


def seconds_of(text: str) -> int:
    """A time as Slurm prints it; 0 where it is none yet."""
    return int(text) if text.isdecimal() else 0


def use_of(row: Row, *, by_verify: bool) -> Use:
    """What a row tells; raises ValueError where its nodes are none."""
    try:
        names = () if row.nodes in _NOWHERE else expand_names(row.nodes)
    except UsageError as error:
        raise ValueError(row.nodes) from error
    return Use(
        job=row.job,
        person=_BY_VERIFY if by_verify else row.person,
        account=row.account,
        nodes=names,
        gpus=row.gpus,
        seconds=row.seconds,
        submitted=row.submitted,
        running=row.state in GOING_ON,
    )


def read_gpus(tres: str) -> dict[str, int]:
    """How many GPUs of each type are in a list such as `cpu=1,gres/gpu:h100=2,gres/gpu=2`; those of none are `gpu`.

    Of a type that is there several times, the highest number.
    """
    counts: dict[str, int] = {}
    for part in tres.split(","):
        if found := _GPUS.fullmatch(part):
            name = found[1] or _UNTYPED
            counts[name] = max(counts.get(name, 0), int(found[2]))
    whole = counts.pop(_UNTYPED, 0)
    rest = whole - sum(counts.values())
    return {**{name: count for name, count in counts.items() if count}, **({_UNTYPED: rest} if rest > 0 else {})}


def refuse_too_many(text: str, controller: str, window: tuple[str, str]) -> None:
    """Raises UsageError where what a node printed has too many lines to read."""
    if text.count("\n") > _MOST_JOBS:
        raise UsageError(
            "there are too many jobs to count at once",
            evidence=f"{controller} has more than {_MOST_JOBS} jobs from {window[0]} to {window[1]}",
            fix="ask for less: gpuprov usage --since DATE --until DATE",
        )
