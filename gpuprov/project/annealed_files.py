"""Results of annealing that a node gave, in a folder of this machine that is new: nothing is ever overwritten."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from gpuprov.core.errors import HostNotReady, UsageError
from gpuprov.core.printable import printable
from gpuprov.shapes.anneal import BEST_FILE

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

FILES: Final = ("all.npz", "best.npz", "trace.npz", BEST_FILE)
_DEPTH: Final = 2


def refuse_old_results(folder: Path) -> None:
    """Refuse a folder that is there, or cannot be made; nothing is made yet.

    Raises:
        UsageError: Something is at its path.
        HostNotReady: It cannot be made.
    """
    shown = printable(str(folder), lines=False)
    if folder.is_symlink() or folder.exists():
        raise UsageError(
            "results are never overwritten; nothing was run",
            evidence=f"{shown} exists",
            fix="name another folder with --out",
        )
    above = next(one for one in folder.parents if one.exists())
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        raise _unwritable(folder, f"{printable(str(above), lines=False)} is not a folder that you can write to")


def make_place(folder: Path) -> None:
    """Make the folders above one that results come to.

    Raises:
        HostNotReady: They cannot be made.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(folder, str(error)) from error


def _unwritable(folder: Path, evidence: str) -> HostNotReady:
    shown = printable(str(folder), lines=False)
    return HostNotReady(
        f"results cannot be written to {shown}", evidence=evidence, fix="name another folder with --out"
    )


def only_results(runs: Collection[str]) -> Callable[[tuple[str, ...]], bool]:
    """Tells whether a path below a folder of runs is a result of one of these, or leads to it."""

    def wants(parts: tuple[str, ...]) -> bool:
        if not parts:
            return True
        return parts[0] in runs and len(parts) <= _DEPTH and (len(parts) < _DEPTH or parts[1] in FILES)

    return wants
