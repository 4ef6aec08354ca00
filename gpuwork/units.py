"""Units of size."""

from __future__ import annotations

from typing import Final

MIB: Final = 1024**2
GIB: Final = 1024**3
