"""The driver's user-space files, found on the host."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from gpuprov.gpu.models import SONAMES, TRIPLETS

_LINKS_MAX: Final = 8
# Where distributions, NVIDIA's installer and container hosts put them; the first that has a file wins.
_FOLDERS: Final = (
    "usr/lib/{triplet}",
    "usr/lib/{triplet}/nvidia/current",
    "usr/lib64",
    "usr/lib",
    "usr/local/nvidia/lib64",
)
_PROGRAM: Final = ("usr/bin/nvidia-smi", "usr/local/nvidia/bin/nvidia-smi")


def find_libraries(root: Path) -> tuple[str, ...]:
    """Host paths of the driver's libraries, of whatever version, without symbolic links."""
    found: dict[str, None] = {}
    for folder in _folders(root):
        for stem in SONAMES:
            for path in sorted((root / folder).glob(f"{stem}.so.*.*")):
                if not path.is_symlink():
                    found[f"/{folder}/{path.name}"] = None
    return tuple(found)


def find_nvidia_smi(root: Path) -> str | None:
    """Host path of nvidia-smi behind all symbolic links (an LXD from snap cannot follow absolute ones), or None.

    A script is passed over: it starts the program from a path that no node has, as where the driver is on a disk of its
    own at /usr/local/nvidia (seen on a virtual machine with an H100, 2026-11-26).
    """
    for place in _PROGRAM:
        path = Path(place)
        for _ in range(_LINKS_MAX):
            if not (root / path).is_symlink():
                break
            target = (root / path).readlink()
            path = target.relative_to("/") if target.is_absolute() else path.parent / target
        if (root / path).is_file() and not _is_script(root / path):
            return f"/{path}"
    return None


def _is_script(path: Path) -> bool:
    """Whether it is one, as far as this user may look: root, who makes nodes, may."""
    try:
        with path.open("rb") as file:
            return file.read(2) == b"#!"
    except PermissionError:
        return False


def _folders(root: Path) -> tuple[str, ...]:
    triplets = [triplet for triplet in TRIPLETS if (root / "usr/lib" / triplet).is_dir()] or [TRIPLETS[0]]
    return tuple(dict.fromkeys(folder.format(triplet=triplet) for folder in _FOLDERS for triplet in triplets))
