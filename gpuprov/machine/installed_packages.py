"""Which Debian packages a machine has, as dpkg recorded it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

STATUS: Final = "var/lib/dpkg/status"
_INSTALLED: Final = re.compile(r"^Package: (\S+)\nStatus: \S+ \S+ installed$", re.MULTILINE)
_VERSION: Final = re.compile(r"^Version: (\S+)$", re.MULTILINE)


def find_installed(root: Path, packages: Iterable[str]) -> tuple[str, ...]:
    """Those of these packages that are installed, in the order given; none where dpkg is not used."""
    recorded = set(_INSTALLED.findall(_read_status(root)))
    return tuple(package for package in packages if package in recorded)


def find_package_versions(root: Path, packages: Iterable[str]) -> dict[str, str]:
    """Those that are installed, with their versions, in the order given."""
    stanzas = {}
    for stanza in _read_status(root).split("\n\n"):
        installed, version = _INSTALLED.match(stanza.lstrip("\n")), _VERSION.search(stanza)
        if installed and version:
            stanzas[installed[1]] = version[1]
    return {package: stanzas[package] for package in packages if package in stanzas}


def _read_status(root: Path) -> str:
    try:
        return (root / STATUS).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
