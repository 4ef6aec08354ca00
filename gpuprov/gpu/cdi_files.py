"""The version of the driver that CDI's files on the host speak of; an engine mounts what they name."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

# The default folders of the Container Device Interface's specification, and the kind that NVIDIA's files have.
_FOLDERS: Final = ("etc/cdi", "var/run/cdi")
_KIND: Final = "nvidia.com/"
_LIBCUDA: Final = re.compile(r"libcuda\.so\.(\d+\.\d+(?:\.\d+)?)")


def find_cdi_versions(root: Path) -> dict[str, str]:
    """File to the version of libcuda that it mounts; files that describe no NVIDIA GPU are left out."""
    found: dict[str, str] = {}
    for folder in _FOLDERS:
        for path in sorted((root / folder).glob("*")):
            with suppress(OSError, UnicodeDecodeError):
                text = path.read_text() if path.suffix in (".yaml", ".yml", ".json") else ""
                named = _LIBCUDA.search(text) if _KIND in text else None
                if named:
                    found[f"/{folder}/{path.name}"] = named[1]
    return found
