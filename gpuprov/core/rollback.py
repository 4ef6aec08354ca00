"""Undo, when a run fails, exactly what this run made."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from gpuprov.core.errors import GpuprovError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from gpuprov.core.reporter import Reporter


AGAIN = "run the same command again"
REPEAT = "repeat the command"
KEPT_BY = "`--keep-on-failure` of `cluster up` leaves it for a look"


class Rollback:
    """A stack of undo steps, run in reverse when the block fails and forgotten when it ends normally.

        with Rollback(reporter, left_over=AGAIN) as rollback:
            driver.create_network(request)
            rollback.add("network gpbr0", lambda: driver.delete_network("gpbr0"))

    Leave the block only after all threads that add to it have stopped.

    Args:
        reporter: Is told what was undone, and what could not be.
        left_over: What to type about things that are kept or could not be undone.
        keep: Undo nothing, and report what is kept (`--keep-on-failure`).
    """

    def __init__(self, reporter: Reporter, *, left_over: str, keep: bool = False) -> None:
        self._reporter = reporter
        self._left_over = left_over
        self._keep = keep
        self._steps: list[tuple[str, Callable[[], object], bool]] = []

    def add(self, thing: str, undo: Callable[[], object], *, needed: bool = False) -> None:
        """Remember how to undo the making of `thing`; safe to call from several threads.

        With `needed`, what was made after it cannot do without it: it stays where any of that could not be undone.
        """
        self._steps.append((thing, undo, needed))

    def __enter__(self) -> Rollback:  # noqa: PYI034 - Self needs Python 3.11
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Literal[False]:
        if kind is not None and self._keep:
            for thing, *_ in self._steps:
                self._reporter.note(f"kept {thing}")
            if self._steps:
                self._reporter.note(f"to continue, {self._left_over}")
        elif kind is not None:
            undone = self._undo_all()
            if isinstance(error, GpuprovError):
                error.fix = fix_without(error.fix, undone)
        self._steps.clear()
        return False

    def _undo_all(self) -> list[str]:
        """Returns what is gone."""
        failed, undone = False, list[str]()
        while self._steps:
            thing, undo, needed = self._steps.pop()
            if needed and failed:
                self._reporter.warn(f"kept {thing}: something that needs it still exists")
                continue
            try:
                undo()
            except Exception as problem:  # noqa: BLE001 - one step that fails must not keep the others from being undone
                failed = True
                self._reporter.warn(f"could not undo {thing}: {problem}")
            except BaseException:
                left = ", ".join([thing, *(name for name, *_ in reversed(self._steps))])
                self._reporter.warn(f"interrupted while undoing; not undone: {left}; to continue, {self._left_over}")
                raise
            else:
                undone.append(thing)
                self._reporter.note(f"undid {thing}")
        if failed:
            self._reporter.warn(f"some changes of this run are left; to continue, {self._left_over}")
        return undone


def fix_without(fix: str, undone: Sequence[str]) -> str:
    """What to do next, where nodes that it names are gone by now. Pure."""
    nodes = [thing.partition("node ")[2] for thing in undone if thing.startswith("node ")]
    gone = sorted(name for name in nodes if re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", fix))
    return f"{gone[0]} is gone, as this run was undone; {KEPT_BY}; then {fix}" if gone else fix
