"""How long jobs of a cluster and containers of `gpuprov run` had GPUs, as `gpuprov usage` tells it."""

from __future__ import annotations

from typing import Literal

from gpuprov.shapes.base import Document, Shape
from gpuprov.shapes.words import Count, HostName, Moment, Number, Word, Words

By = Literal["person", "account", "node", "gpu", "job"]


class UsageRow(Shape, frozen=True, kw_only=True):
    """What one person, account, node, GPU or job had.

    Attributes:
        name: Of it; `?` where nobody knows. For several nodes that a job had together, the names of all.
        cluster: Whose jobs these are; `(jobs)` for containers of `gpuprov run` on this host.
        person: Whose job it is, where a row is a job; else null.
        gpu_seconds: GPUs times seconds.
        jobs: How many had them.
        running: How many of these go on; they count up to now.
    """

    name: Word
    cluster: Word
    person: Word | None = None
    gpu_seconds: Count
    jobs: Number
    running: Number = 0


class Usage(Document, frozen=True, kw_only=True, tag="gpuprov.usage/v1"):
    """The document of `gpuprov usage --json`.

    Attributes:
        host: Name of the host.
        since: From when time counts.
        until: Until when.
        by: What a row is.
        rows: The most GPU time first.
        gpu_seconds: Of all rows.
        cluster: Its name, also where there is none: then the notes say so.
        simulated: Whether some of the GPUs are simulated: then these hours are of no real ones.
        accounting: Whether Slurm's accounting told of the cluster's jobs; else a simpler record of Slurm's, and the
            records of what was submitted with gpuprov.
        notes: What is missing.
    """

    host: HostName
    cluster: HostName
    since: Moment
    until: Moment
    by: By
    rows: tuple[UsageRow, ...]
    gpu_seconds: Count
    simulated: bool
    accounting: bool
    notes: tuple[Words, ...] = ()
