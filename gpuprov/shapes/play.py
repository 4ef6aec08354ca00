"""`play`: what a playbook did on each host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import UNSET, UnsetType

from gpuprov.shapes.base import Document, Shape
from gpuprov.shapes.error import ErrorParts
from gpuprov.shapes.words import Count

PlayStatus = Literal["ok", "changed", "failed", "unreachable"]


class PlayedHost(Shape, frozen=True, kw_only=True):
    """What it did on one host; counts are Ansible's.

    Attributes:
        task: The task that failed.
        message: Why.
    """

    status: PlayStatus
    ok: Count
    changed: Count
    failed: Count
    unreachable: Count
    skipped: Count
    task: str | None
    message: str | None


class PlayChange(Shape, frozen=True, kw_only=True):
    """A task that changed something."""

    host: str
    task: str
    diff: str | None


class Played(Shape, frozen=True, kw_only=True):
    """A run that has ended.

    Attributes:
        hosts: By name.
        changes: In order.
        log: What Ansible said; kept where a host failed.
    """

    playbook: str
    hosts: Mapping[str, PlayedHost]
    changes: tuple[PlayChange, ...]
    log: str | None


class Play(Document, frozen=True, kw_only=True, tag="gpuprov.play/v1"):
    """The document of `gpuprov play --json`.

    Attributes:
        host: Name of the host on which Ansible ran.
        error: There where a host failed or was not reached.
    """

    host: str
    play: Played
    error: ErrorParts | UnsetType = UNSET
