"""What a rule for the values of a spec is, and the commonest ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

    from gpuprov.shapes.cluster_spec import ClusterSpec

Found = Iterator[tuple[str, str, str]]


@dataclass(frozen=True, kw_only=True)
class SpecRule:
    """One rule; it is asked only where none of the values it reads is already broken.

    Attributes:
        reads: Paths of the values, `nodes.count`; with `[]` for each place in a list, `slurm.qos[].name`.
        find: Yields path, message and what is allowed.
    """

    reads: tuple[str, ...]
    find: Callable[[ClusterSpec, Path], Found]


def any_of(path: str, allowed: Collection[str], get: Callable[[ClusterSpec], str]) -> SpecRule:
    """The value is one of these."""

    def find(spec: ClusterSpec, _root: Path) -> Found:
        if get(spec) not in allowed:
            yield path, f"is {get(spec)[:60]!r}", ", ".join(allowed)

    return SpecRule(reads=(path,), find=find)
