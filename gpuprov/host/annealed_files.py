"""Results of annealing that a node gave, in a folder of this machine that is new: nothing is ever overwritten."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpuprov.core.errors import HostNotReady, UsageError
from gpuprov.core.printable import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

FILES: Final = ("all.npz", "best.npz", "trace.npz")
_DEPTH: Final = 2


def refuse_old_results(folder: Path) -> None:
    """Refuse a folder that is there, or cannot be made.

    Raises:
        UsageError: Something is at its path.
        HostNotReady: The folders above it cannot be made.
    """
    shown = printable(str(folder), lines=False)
    try:
        if folder.is_symlink() or folder.exists():
            raise UsageError(
                "results are never overwritten; nothing was run",
                evidence=f"{shown} is there",
                fix="name another folder with --out",
            )
        folder.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise HostNotReady(
            f"results cannot be written to {shown}", evidence=str(error), fix=f"ls -ld {shown}/.."
        ) from error


def only_results(runs: Collection[str]) -> Callable[[tuple[str, ...]], bool]:
    """Tells whether a path below a folder of runs is a result of one of these, or leads to it."""

    def wants(parts: tuple[str, ...]) -> bool:
        if not parts:
            return True
        return parts[0] in runs and len(parts) <= _DEPTH and (len(parts) < _DEPTH or parts[1] in FILES)

    return wants
