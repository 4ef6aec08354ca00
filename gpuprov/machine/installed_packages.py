"""Which Debian packages a machine has, as dpkg recorded it."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

STATUS: Final = "var/lib/dpkg/status"
_INSTALLED: Final = re.compile(r"^Package: (\S+)\nStatus: \S+ \S+ installed$", re.MULTILINE)


def find_installed(root: Path, packages: Iterable[str]) -> tuple[str, ...]:
    """Those of these packages that are installed, in the order given; none where dpkg is not used."""
    recorded: set[str] = set()
    with suppress(OSError):
        recorded |= set(_INSTALLED.findall((root / STATUS).read_text(encoding="utf-8", errors="replace")))
    return tuple(package for package in packages if package in recorded)
