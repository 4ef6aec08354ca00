"""What goes wrong, and what to do: one entry for each check of verify, each finding of doctor and each known failure.

The entries are data (catalogue.json), so that `explain`, checks, errors and documents can say the same.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from gpuprov.shapes.choices import DEFAULT_BRIDGE

if TYPE_CHECKING:
    from collections.abc import Mapping

_LINE_MOST = 2000

# What a fix may leave open, and what stands there while it is not known
FIELDS = {
    "node": "NODE",
    "host": "HOST",
    "uuid": "UUID",
    "xid": "NUMBER",
    "give": "/usr/lib/gpuprov/settle-people",
    "given": "see the evidence",
    "chain": "DOCKER-USER",
    "bridge": DEFAULT_BRIDGE,
    "link": "LINK",
    "engine": "lxd",
    "minors": "-c 0",
    "path": "/etc/cdi/nvidia.yaml",
    "pci": "PCI-ADDRESS",
    "unit": "nvidia-persistenced",
    "links": "sudo ln -s /dev/nvidia0 /dev/char/195:0",
}

CatalogueKind = Literal["verify", "doctor", "failure", "xid"]


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One thing that can be wrong.

    Attributes:
        id: The check's id, or the name of the failure.
        kind: A check of `verify`, a finding of `doctor`, a failure that users meet, or an error number of the driver.
        title: What is checked, or what is wrong; one line.
        cause: Why it is so when it is wrong.
        see: How to see it.
        fix: What to do; begins with a command wherever one helps. `{node}` and the like are filled in where known.
        fixes: What to do in a situation that has a name, instead of `fix`.
        patterns: Regular expressions, case ignored, that find it in a line of a log.
        also: Ids of entries that lie near.
    """

    id: str
    kind: CatalogueKind
    title: str
    cause: str
    see: str
    fix: str
    fixes: Mapping[str, str] = field(default_factory=dict)
    patterns: tuple[str, ...] = ()
    also: tuple[str, ...] = ()

    def matches(self, line: str) -> bool:
        """Whether a line of a log says this."""
        return any(_compiled(pattern).search(line) for pattern in self.patterns)

    def advise(self, situation: str = "", **known: object) -> str:
        """What to do, with what is known filled in."""
        return self.fixes.get(situation, self.fix).format(**FIELDS | known)


@cache
def load_catalogue() -> Mapping[str, Entry]:
    """Every entry by its id; read once."""
    text = (resources.files("gpuprov.core") / "catalogue.json").read_text(encoding="utf-8")
    return MappingProxyType({name: _entry(name, fields) for name, fields in json.loads(text).items()})


def find_fix(place: str, default_id: str, **known: object) -> str:
    """What to do about a check: `situation` of its own entry, or `id/situation` of another one's."""
    owner, _, situation = place.rpartition("/")
    return load_catalogue()[owner or default_id].advise(situation, **known)


def find_entries(text: str, catalogue: Mapping[str, Entry]) -> tuple[Entry, ...]:
    """The entry with that id, or else all entries that a line of the text matches or names, each once.

    Failures come first, and the others in the order in which the text has them.
    """
    exact = catalogue.get(text.strip().lower())
    if exact is not None:
        return (exact,)
    found: dict[str, Entry] = {}
    for line in dict.fromkeys(part.strip()[:_LINE_MOST] for part in text.splitlines()):
        # Ids of one word, such as `kernel`, are words of any log.
        named = {word for word in re.findall(r"[a-z0-9-]+", line.lower()) if "-" in word}
        found |= {entry.id: entry for entry in catalogue.values() if entry.id in named or entry.matches(line)}
    return tuple(sorted(found.values(), key=lambda entry: entry.kind not in ("failure", "xid")))


@cache  # re itself remembers fewer
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


def _entry(name: str, fields: Mapping[str, Any]) -> Entry:
    lists = {key: tuple(fields.get(key, ())) for key in ("patterns", "also")}
    return Entry(id=name, **{**fields, **lists})
