"""Known holes in what gives GPUs to containers: one dated table (advisories.json), held against what a host has."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Final

from gpuprov.core.debian_version import older_version

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_REBUILT: Final = re.compile(r"\+b[0-9]+\Z", re.ASCII)  # the same source, compiled again
_NUMBERS: Final = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})*", re.ASCII)
_NO_FIX: Final = "<="


@dataclass(frozen=True, kw_only=True)
class Advisory:
    """A hole, or several that were closed together.

    Attributes:
        product: What has it.
        ids: Of the CVEs.
        what: What somebody can do by it.
        upstream: Branch to the first version of it that is fixed.
        debian: Release of Debian to the first revision that is fixed, or `<=` and the last that was known not to be.
    """

    product: str
    ids: tuple[str, ...]
    what: str
    upstream: Mapping[str, str]
    debian: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Advisories:
    """The table.

    Attributes:
        date: Of what is known.
    """

    date: str
    entries: tuple[Advisory, ...]


@dataclass(frozen=True, kw_only=True)
class Installed:
    """What a host has of a product.

    Attributes:
        package: By which apt upgrades it; empty where it is none.
        debian: Release of Debian, such as 12, whose revision this is; empty where the version is the maker's own.
    """

    product: str
    version: str
    package: str = ""
    debian: str = ""


@dataclass(frozen=True, kw_only=True)
class Hole:
    """An advisory that is about what a host has.

    Attributes:
        fixed: Versions that have it no more; empty where there was none on the table's date.
    """

    advisory: Advisory
    installed: Installed
    fixed: tuple[str, ...]


@cache
def load_advisories() -> Advisories:
    """The table; read once."""
    text = (resources.files("gpuprov.core") / "advisories.json").read_text(encoding="utf-8")
    document = json.loads(text)
    entries = tuple(Advisory(**{**line, "ids": tuple(line["ids"])}) for line in document["advisories"])
    return Advisories(date=document["date"], entries=entries)


def find_holes(table: Advisories, found: Sequence[Installed]) -> Iterator[Hole]:
    """What is known to be open, by what is installed; of releases that the table does not have, nothing is told."""
    for one in found:
        for advisory in table.entries:
            if advisory.product != one.product:
                continue
            fixed = _fixed_of_debian(one, advisory) if one.debian else _fixed_upstream(one.version, advisory.upstream)
            if fixed is not None:
                yield Hole(advisory=advisory, installed=one, fixed=fixed)


def _fixed_of_debian(one: Installed, advisory: Advisory) -> tuple[str, ...] | None:
    """Revisions to upgrade to, none where there is none yet; None where the hole is closed or nothing is known."""
    known = advisory.debian.get(one.debian)
    version = _REBUILT.sub("", one.version)
    if known is None:
        return None
    if known.startswith(_NO_FIX):
        return None if older_version(known.removeprefix(_NO_FIX), version) else ()
    return (known,) if older_version(version, known) else None


def _fixed_upstream(version: str, branches: Mapping[str, str]) -> tuple[str, ...] | None:
    """The same of versions of the maker."""
    has = _numbers(version.rpartition(":")[2])
    if not has or not branches:
        return None
    own = [branch for branch in branches if has[: len(_numbers(branch))] == _numbers(branch)]
    closed = _numbers(branches[max(own, key=len)]) if own else max(map(_numbers, branches.values()))
    return None if has >= closed else tuple(branches.values())


def _numbers(version: str) -> tuple[int, ...]:
    match = _NUMBERS.match(version)
    return tuple(map(int, match[0].split("."))) if match else ()
