"""Which user of the host a user of an unprivileged node is, in a folder that is mounted read-write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from gpuprov.core.errors import EngineError
from gpuprov.drivers.lxd.members import list_here

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gpuprov.drivers.lxd.api import Document, LxdApi

_MAPS = ("volatile.idmap.next", "volatile.last_state.idmap")
_FIELDS = 3  # of a line of /etc/subuid
_LEAST = 65536  # ids that an unprivileged instance needs


def owner_without_shift(api: LxdApi, uid: int, *, root: Path = Path("/")) -> int:
    """The user of the host whom a mount shows whose owners are not mapped: all unprivileged nodes have one id map.

    Raises:
        EngineError: The engine does not report it.
    """
    found = find_in_instances(uid, list_here(api))
    if found is None:
        found = find_in_subuid(uid, _read(root / "etc/subuid"))
    if found is None:
        engine = api.engine
        raise EngineError(
            f"{engine} does not report which user of the host is user {uid} of its nodes",
            evidence="no unprivileged instance has an id map, and /etc/subuid does not give root exactly one range",
            fix=f"create an instance that shows it: gpuprov image build --engine {engine}; "
            "then run the same command again",
        )
    return found


def find_in_instances(uid: int, documents: Iterable[Document]) -> int | None:
    """By the id map of the first unprivileged instance that shares the engine's; None where none tells."""
    for document in documents:
        config = document["config"]
        if config.get("security.privileged") == "true" or config.get("security.idmap.isolated") == "true":
            continue
        if config.get("volatile.idmap.base", "0") != "0":
            continue
        for key in _MAPS:
            found = parse_id_map(config.get(key), uid)
            if found is not None:
                return found
    return None


def parse_id_map(text: str | None, uid: int) -> int | None:
    """Where an id map, JSON as LXD and Incus keep it, leads a user; None where it does not say."""
    try:
        entries = json.loads(text or "[]")
    except (ValueError, RecursionError):
        return None
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and entry.get("Isuid") is True:
            found = _lead(entry, uid)
            if found is not None:
                return found
    return None


def _lead(entry: Mapping[str, object], uid: int) -> int | None:
    first, host, size = (entry.get(key) for key in ("Nsid", "Hostid", "Maprange"))
    if type(first) is int and type(host) is int and type(size) is int and first <= uid < first + size:
        return host + uid - first
    return None


def find_in_subuid(uid: int, text: str) -> int | None:
    """By root's range in /etc/subuid; None where there is none or more than one, for then the engine chooses."""
    lines = [line.split(":") for line in text.splitlines()]
    ranges = [line[1:] for line in lines if len(line) == _FIELDS and line[0] in ("root", "0")]
    if len(ranges) != 1 or not all(number.isascii() and number.isdecimal() for number in ranges[0]):
        return None
    first, size = map(int, ranges[0])
    return first + uid if uid < size and size >= _LEAST else None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
