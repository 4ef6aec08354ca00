"""What came of what hosts were asked to do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.core.errors import GpuprovError
    from gpuprov.core.outcome import Outcome


@dataclass(frozen=True, kw_only=True)
class Done:
    """What was done, and why hosts did not do their part.

    Attributes:
        asked: How many hosts were to.
        lack: What it means that some did not.
    """

    outcome: Outcome
    failed: Mapping[str, GpuprovError] = field(default_factory=dict)
    asked: int = 1
    lack: str = ""

    @property
    def error(self) -> GpuprovError | None:
        """That of the hosts that did not; None where all did."""
        if not self.failed:
            return None
        from gpuprov.host.remote.several import part_error

        return part_error(self.failed, of=max(self.asked, len(self.failed)), what=self.lack)
