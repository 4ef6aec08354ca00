"""What a node says that it lacks."""

from __future__ import annotations

from gpuprov.shapes.base import Shape, Version
from gpuprov.shapes.words import Word


class Lacks(Shape, frozen=True, kw_only=True):
    """Of the names that it was asked for: modules, or programs."""

    version: Version = 1
    lacks: tuple[Word, ...]
