"""How long jobs of a cluster had GPUs, as `gpuprov usage` tells it."""

from __future__ import annotations

from typing import Literal

from gpuprov.shapes.base import Document, Shape
from gpuprov.shapes.words import Count, HostName, Moment, Number, Word, Words

By = Literal["person", "account", "node", "gpu", "job"]


class UsageRow(Shape, frozen=True, kw_only=True):
    """What one person, account, node, GPU or job had.

    Attributes:
        name: Of it; `?` where nobody knows. For several nodes that a job had together, the names of all.
        gpu_seconds: GPUs times seconds.
        jobs: How many had them.
        running: How many of these go on; they count up to now.
    """

    name: Word
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
        simulated: Whether GPUs of the cluster are simulated: then these hours are of no real ones.
        accounting: Whether Slurm's accounting told it; else the records of what was submitted with gpuprov.
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
