"""`explain`: entries of the catalogue, and what completes words for shells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta

from gpuprov.shapes.base import Document, Shape

Shell = Literal["bash", "zsh", "fish"]


class Explained(Shape, frozen=True, kw_only=True):
    """An entry; commands have words such as NODE where they leave something open.

    Attributes:
        see: How to see it.
        fixes: A situation to its fix.
        patterns: Regular expressions that find it in a log.
        also: Ids of related entries.
    """

    id: str
    kind: Literal["verify", "doctor", "failure", "xid"]
    title: str
    cause: str
    see: str
    fix: str
    fixes: Mapping[str, str]
    patterns: tuple[str, ...]
    also: tuple[str, ...]


class Explain(Document, frozen=True, kw_only=True, tag="gpuprov.explain/v1"):
    """The document of `gpuprov explain --json`: entries of the catalogue, the best fit first."""

    entries: Annotated[tuple[Explained, ...], Meta(min_length=1)]


class Completion(Document, frozen=True, kw_only=True, tag="gpuprov.completion/v1"):
    """The document of `gpuprov completion --json`."""

    shell: Shell
    script: str
