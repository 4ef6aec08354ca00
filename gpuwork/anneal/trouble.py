"""Something that is wrong with a chain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

MOST_TOLD: Final = 100  # of a part; the others are counted
TroubleKind = Literal["error", "warning"]


@dataclass(frozen=True, kw_only=True)
class Trouble:
    """Something that is wrong with a chain.

    Attributes:
        chain: Its number in the whole run.
        step: When it was noticed.
        kind: After an error the chain did not go on, or its value is not to be used.
        message: In words.
    """

    chain: int
    step: int
    kind: TroubleKind
    message: str
