"""How the engines of a host are reached."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuprov.drivers.base import Driver


@dataclass(frozen=True, kw_only=True)
class EngineDoor:
    """How an engine of a host is reached.

    Attributes:
        installed: Whether it is there at all, so that its silence means something.
    """

    name: str
    open: Callable[[], Driver]
    installed: Callable[[], bool]
