"""The versions on a host that the table of advisories is about."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from gpuprov.core.advisories import Installed
from gpuprov.machine.installed_packages import find_package_versions

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Packages of Debian, to what they are
_DEBIANS: Final = {"runc": "runc", "docker.io": "docker", "lxd": "lxd", "incus-base": "incus", "incus": "incus"}
# Packages of the makers, whose versions are the makers' own on every distribution
_MAKERS: Final = {"docker-ce": "docker", "nvidia-container-toolkit": "nvidia-container-toolkit"}
_OWN_BUILD: Final = re.compile(r"\+deb[0-9]+u|-[0-9.]+(\+b[0-9]+)?\Z", re.ASCII)


def find_judged_versions(root: Path, *, driver: str) -> tuple[Installed, ...]:
    """What is installed; `driver` is the version of the loaded one, or empty.

    Other distributions than Debian close holes in revisions of their own, of which the table knows nothing.
    """
    return tuple(_find(root, driver))


def _find(root: Path, driver: str) -> Iterator[Installed]:
    if driver:
        yield Installed(product="driver", version=driver)
    release = _debian_release(root)
    packages = find_package_versions(root, (*(_DEBIANS if release else ()), *_MAKERS))
    told = set()
    for package, version in packages.items():
        product = _DEBIANS.get(package) or _MAKERS[package]
        if product not in told and (package in _MAKERS or _OWN_BUILD.search(version)):
            told.add(product)
            yield Installed(
                product=product, version=version, package=package, debian="" if package in _MAKERS else release
            )


def _debian_release(root: Path) -> str:
    """Such as 12; empty where it is another distribution, or unknown."""
    told: dict[str, str] = {}
    with suppress(OSError):
        text = (root / "etc/os-release").read_text(encoding="utf-8", errors="replace")
        told = dict(re.findall(r'^([A-Z_]+)="?([^"\n]*)"?$', text, re.MULTILINE))
    return told.get("VERSION_ID", "") if told.get("ID") == "debian" else ""
