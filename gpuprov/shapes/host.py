"""`host show` and `host list`: what hosts are and have, as they say it themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import UNSET, UnsetType

from gpuprov.shapes.base import Document, PartDocument, Shape
from gpuprov.shapes.choices import Engine
from gpuprov.shapes.engine import EngineFacts
from gpuprov.shapes.error import ErrorParts
from gpuprov.shapes.gpus import BoardOfHost
from gpuprov.shapes.nodes import NodeRow
from gpuprov.shapes.words import Size, Word


class SeenEngine(Shape, frozen=True, kw_only=True):
    """An engine that is installed; `facts` or `error` is null."""

    engine: Engine
    facts: EngineFacts | None
    error: ErrorParts | None


class Host(PartDocument, frozen=True, kw_only=True, tag="gpuprov.host/v1"):
    """The document of `gpuprov host show --json`: what a host says of itself.

    Attributes:
        host: The name under which it was added.
        gpuprov: Version of gpuprov there.
        machine: Its processor, such as x86_64.
        clock_s: Its time, in seconds since 1970.
        disk_free_bytes: Where images and nodes lie.
        limits: The kernel's limits that nodes share, by check of `verify`; null where one cannot be read.
        nodes: Of all clusters and engines that respond.
        gpus: Null where there is a gpu_error.
        gpu_error: Why the GPUs are unknown.
    """

    host: Word
    gpuprov: Word
    machine: Word
    kernel: Word
    clock_s: float
    disk_free_bytes: Size
    limits: Mapping[Word, Size | None]
    engines: tuple[SeenEngine, ...]
    nodes: tuple[NodeRow, ...]
    gpus: BoardOfHost | None
    gpu_error: ErrorParts | None

    @property
    def facts(self) -> dict[Engine, EngineFacts]:
        """Of each engine that responds."""
        return {seen.engine: seen.facts for seen in self.engines if seen.facts}

    @property
    def silent(self) -> dict[Engine, ErrorParts]:
        """Why the others do not."""
        return {seen.engine: seen.error for seen in self.engines if seen.error}


class KnownHost(Shape, frozen=True, kw_only=True):
    """A host that this user has added.

    Attributes:
        user: Null where ssh chooses, as in the keys that follow.
        status: `away`: ssh did not come through; `error`: it did, and gpuprov there failed or is not there.
        away_since: When it was first found to be away, in UTC.
        look: What it says of itself.
    """

    name: str
    address: str
    user: str | None
    port: int | None
    identity_file: str | None
    proxy_jump: str | None
    status: Literal["ready", "away", "error"]
    away_since: str | None
    error: ErrorParts | None
    look: Host | None


class Hosts(Document, frozen=True, kw_only=True, tag="gpuprov.hosts/v1"):
    """The document of `gpuprov host list --json`.

    Attributes:
        error: There where some hosts, or all, did not answer.
    """

    hosts: tuple[KnownHost, ...]
    error: ErrorParts | UnsetType = UNSET
