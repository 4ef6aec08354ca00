"""CDI's files on the host that describe NVIDIA GPUs; an engine mounts what they name."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from gpuprov.gpu.access import CDI_KIND

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

# The default folders of the Container Device Interface's specification.
FOLDERS: Final = ("etc/cdi", "var/run/cdi")
_LIBCUDA: Final = re.compile(r"libcuda\.so\.(\d+\.\d+(?:\.\d+)?)")


def read_cdi_files(folders: Iterable[Path], kind: str = CDI_KIND) -> dict[Path, str]:
    """Each file of these folders that describes NVIDIA GPUs, or what else, with its text."""
    found: dict[Path, str] = {}
    for folder in folders:
        for path in sorted(folder.glob("*")):
            with suppress(OSError, UnicodeDecodeError):
                text = path.read_text() if path.suffix in (".yaml", ".yml", ".json") else ""
                if kind in text:
                    found[path] = text
    return found


def find_cdi_versions(root: Path) -> dict[str, str]:
    """File to the version of libcuda that it mounts; files that mount none are left out."""
    files = read_cdi_files(root / folder for folder in FOLDERS)
    named = {path: _LIBCUDA.search(text) for path, text in files.items()}
    return {f"/{path.relative_to(root)}": version[1] for path, version in named.items() if version}
