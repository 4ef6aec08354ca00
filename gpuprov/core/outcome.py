"""What a workflow did: the things it changed and how long its phases took."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, kw_only=True)
class PhaseTiming:
    """One phase that ran; `ok` is False where it ended with an error."""

    name: str
    seconds: float
    ok: bool = True


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The result of an `ensure_x`: one line for each thing that changed, such as `created node c000`."""

    changed: tuple[str, ...] = ()
    phases: tuple[PhaseTiming, ...] = ()

    @property
    def unchanged(self) -> bool:
        """Whether everything already was as asked."""
        return not self.changed

    def __add__(self, other: Outcome) -> Outcome:
        return Outcome(changed=self.changed + other.changed, phases=self.phases + other.phases)


def with_forced(change: str, name: str, forced: Mapping[str, str]) -> str:
    """A line of an outcome: `stopped c001 (killed, as it did not shut down within 10 s)`."""
    return f"{change} {name} ({forced[name]})" if name in forced else f"{change} {name}"
