"""Which of an engine's packages a machine had before gpuprov first prepared it: those are not gpuprov's to remove."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from gpuprov.machine.installed_packages import STATUS, find_installed

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

KEPT: Final = "var/lib/gpuprov/packages.json"  # by package: whether it was there


def note_earlier(root: Path, packages: Iterable[str]) -> None:
    """Write down which are there, before any is installed; what is known of a package that is there stays.

    What cannot be written is not known later, and then nothing is proposed.
    """
    if not (root / STATUS).is_file():
        return
    wanted = tuple(packages)
    there, known = find_installed(root, wanted), _read(root)
    noted = {**known, **{name: known.get(name, True) if name in there else False for name in wanted}}
    path = root / KEPT
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        made = path.with_suffix(".new")
        made.write_text(json.dumps(noted, indent=1, sort_keys=True) + "\n", encoding="ascii")
        made.replace(path)


def find_added(root: Path, packages: Iterable[str], *, needed: Iterable[str]) -> tuple[str, ...]:
    """Those that are there now, were not before gpuprov, and are not needed by anything else."""
    known, others = _read(root), set(needed)
    there = find_installed(root, packages)
    return tuple(name for name in there if known.get(name) is False and name not in others)


def _read(root: Path) -> dict[str, object]:
    try:
        known = json.loads((root / KEPT).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}
