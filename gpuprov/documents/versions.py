"""What runs here: gpuprov, what it needs, and the system below it."""

from __future__ import annotations

import platform
import sys
from importlib import metadata
from typing import Any

from gpuprov import __version__
from gpuprov.documents.envelope import document

PACKAGES = ("pylxd", "docker", "ansible-core", "ansible-runner", "click", "jinja2", "pyyaml", "nvidia-ml-py")


def versions_document(system: str | None, *, host: str) -> dict[str, Any]:
    """`gpuprov.versions/v1`, of this process; `system` is what the host's release calls itself."""
    return document(
        "versions",
        host=host,
        gpuprov=__version__,
        python=sys.version,
        packages={package: _version(package) for package in PACKAGES},
        kernel=platform.release(),
        machine=platform.machine(),
        system=system,
    )


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
