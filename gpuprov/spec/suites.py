"""The suites that a node image can be built from: the one list of them."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, kw_only=True)
class Suite:
    """One release of a distribution.

    Attributes:
        python: Version of its interpreter, so that wheels can be fetched before there is a node to ask.
        ubuntu: Whether it is Ubuntu's; else it is Debian's.
    """

    python: str
    ubuntu: bool = False


SUITES: Final = MappingProxyType(
    {
        "bookworm": Suite(python="3.11"),
        "trixie": Suite(python="3.13"),
        "jammy": Suite(python="3.10", ubuntu=True),
        "noble": Suite(python="3.12", ubuntu=True),
    }
)


def python_of(base: str) -> str | None:
    """The interpreter's version in an image of that base; None where only a node can tell."""
    suite = SUITES.get(base)
    return suite.python if suite else None
