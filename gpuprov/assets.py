"""Finds what is not Python code of this package: roles, templates, and the packages that nodes get.

A checkout's own folders come first, so that an editable install runs what is being edited; an installed wheel
carries copies under `gpuprov/_assets`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from gpuprov.core.errors import HostNotReady

Asset = Literal["gpuwork", "inventories", "roles", "smoke_kernels", "templates"]
Brought = Asset | Literal["shapes"]

PACKAGE = Path(__file__).resolve().parent


def get_brought(name: Brought) -> Path:
    """The folder of a package that images get: one that ships with gpuprov, or the shapes, which are part of it."""
    return PACKAGE / "shapes" if name == "shapes" else get_asset(name)


def get_asset(name: Asset, *, package: Path = PACKAGE) -> Path:
    """The absolute path of a folder that ships with gpuprov.

    Args:
        name: Which folder.
        package: Where the gpuprov package lies.

    Raises:
        HostNotReady: The installation lacks it.
    """
    checkout = package.parent
    places = [package / "_assets" / name]
    if (checkout / "setup.cfg").is_file():  # else site-packages, where a folder of that name is somebody else's
        places.insert(0, checkout / name)
    for place in places:
        if place.is_dir():
            return place
    raise HostNotReady(
        f"this installation of gpuprov lacks its {name}",
        evidence=f"not found: {', '.join(map(str, places))}",
        fix="install gpuprov again, from its wheel or with `make up` in a checkout",
    )
