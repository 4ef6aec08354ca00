"""Files that a spec file names: read, or found, where the file says that they are."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from gpuprov.shapes.base import changed
from gpuprov.spec.python_packages import read_requirements

if TYPE_CHECKING:
    from pathlib import Path

    from gpuprov.shapes.cluster_spec import ImageSpec


def place_of(path: str, folder: Path) -> str:
    """The absolute path of a file that a spec file of that folder names."""
    return os.path.normpath(folder.absolute() / path)


def take_in_files(image: ImageSpec, folder: Path, *, root: Path) -> tuple[ImageSpec, list[str]]:
    """The image by itself, as it is recorded with a cluster, whose spec file nobody needs to keep.

    Args:
        image: As a spec file has it.
        folder: Of that file; other paths begin there.
        root: Where the host's file system begins.

    Returns:
        The image with the packages of its requirements file, and with absolute paths of its roles; and everything that
        is wrong with the requirements file.
    """
    roles = tuple(place_of(path, folder) for path in image.roles)
    more: tuple[str, ...] = ()
    problems: list[str] = []
    if image.requirements is not None and not image.requirements.isprintable():
        problems = [f"{image.requirements[:80]!r} is not a path"]
    elif image.requirements is not None:
        more, problems = read_requirements(root / place_of(image.requirements, folder).lstrip("/"))
    own = changed(image, python=(*image.python, *more), requirements=None, roles=roles)
    return own, problems
