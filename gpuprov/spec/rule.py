"""What a rule for the values of a spec is, and the commonest ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Collection
    from pathlib import Path

    from gpuprov.spec.models import ClusterSpec

Found = Iterator[tuple[str, str, str]]


@dataclass(frozen=True, kw_only=True)
class SpecRule:
    """One rule; it is asked only where none of the values it reads is already broken.

    Attributes:
        reads: Paths of the values, `nodes.count`.
        find: Yields path, message and what is allowed.
    """

    reads: tuple[str, ...]
    find: Callable[[ClusterSpec, Path], Found]


def pattern(path: str, form: re.Pattern[str], allowed: str, get: Callable[[ClusterSpec], str]) -> SpecRule:
    """The value has this form."""

    def find(spec: ClusterSpec, _root: Path) -> Found:
        if not form.fullmatch(get(spec)):
            yield path, f"{get(spec)[:80]!r} is not valid", allowed

    return SpecRule(reads=(path,), find=find)


def any_of(path: str, allowed: Collection[str], get: Callable[[ClusterSpec], str]) -> SpecRule:
    """The value is one of these."""

    def find(spec: ClusterSpec, _root: Path) -> Found:
        if get(spec) not in allowed:
            yield path, f"is {get(spec)[:60]!r}", ", ".join(allowed)

    return SpecRule(reads=(path,), find=find)


def at_least(path: str, least: int, get: Callable[[ClusterSpec], int | None]) -> SpecRule:
    """The number is not smaller, where there is one."""

    def find(spec: ClusterSpec, _root: Path) -> Found:
        value = get(spec)
        if value is not None and value < least:
            yield path, f"is {value}", f"{least} or more"

    return SpecRule(reads=(path,), find=find)


def in_range(path: str, least: int, most: int, get: Callable[[ClusterSpec], int | None]) -> SpecRule:
    """The number is in a range, where there is one."""

    def find(spec: ClusterSpec, _root: Path) -> Found:
        value = get(spec)
        if value is not None and not least <= value <= most:
            yield path, f"is {value}", f"{least} to {most}"

    return SpecRule(reads=(path,), find=find)
