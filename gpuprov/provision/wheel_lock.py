"""The versions and hashes of Python packages that a release was made with; `make locks` renews them.

Each file of `wheel_locks` is in pip's format and holds all that some requirements need, for every Python that gpuprov
supports, on x86_64 and aarch64. Nodes with CUDA 12 need other versions than nodes with CUDA 13, so each has its own.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gpuprov.core.errors import HostNotReady
from gpuprov.core.fingerprint import fingerprint

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from packaging.requirements import Requirement

LOCKS: Final = Path(__file__).parent / "wheel_locks"
OWN: Final = "gpuprov"
TESTS: Final = "tests"
PYTHONS: Final = ("3.10", "3.11", "3.12", "3.13", "3.14")
ROOT: Final = "# for: "
VIA: Final = "    # via: "
OTHER_FILES: Final = (
    "run the same command again; if it fails in the same way, the package index of this machine has other files than "
    "that with which this release was made: python3 -m pip config list"
)
_HASH: Final = "    --hash="
_MORE: Final = " \\"  # at the end of a line that goes on


@dataclass(frozen=True, kw_only=True)
class LockedPackage:
    """One version of a package.

    Attributes:
        pythons: The versions of Python that it is for, such as 3.11; empty for all.
        hashes: Of its files, as pip writes them.
        via: The packages that need it.
    """

    name: str
    version: str
    pythons: tuple[str, ...] = ()
    hashes: tuple[str, ...] = ()
    via: tuple[str, ...] = ()

    def dump(self) -> str:
        """As pip reads it."""
        marker = " or ".join(f'python_version == "{python}"' for python in self.pythons)
        lines = [
            f"{self.name}=={self.version}{f' ; {marker}' if marker else ''}",
            *(_HASH + one for one in self.hashes),
        ]
        return f"{_MORE}\n".join(lines) + "\n" + (f"{VIA}{', '.join(self.via)}\n" if self.via else "")


@dataclass(frozen=True, kw_only=True)
class WheelLock:
    """A file of locks.

    Attributes:
        roots: The requirements that it was made for, as pip writes them.
        packages: All that they need.
    """

    roots: tuple[str, ...]
    packages: tuple[LockedPackage, ...]

    def roots_include(self, requirements: Iterable[str]) -> bool:
        """Whether it was made for all of them."""
        return _parsed(requirements) <= _parsed(self.roots)

    def closure(self, requirements: Iterable[str], python: str | None = None) -> tuple[LockedPackage, ...]:
        """The packages that some of its roots need on a Python; None for all of them."""
        there = [one for one in self.packages if python is None or not one.pythons or python in one.pythons]
        from packaging.utils import canonicalize_name

        wanted: set[str] = {canonicalize_name(requirement.name) for requirement in _parsed(requirements)}
        while more := {one.name for one in there if one.name not in wanted and not wanted.isdisjoint(one.via)}:
            wanted |= more
        return tuple(package for package in there if package.name in wanted)


def _parsed(requirements: Iterable[str]) -> set[Requirement]:
    """As they are compared: pip and setuptools put blanks and versions in another order than we do."""
    from packaging.requirements import Requirement

    return {Requirement(text) for text in requirements}


def parse_lock(text: str) -> WheelLock:
    """Read a file of locks."""
    from packaging.requirements import Requirement

    roots, packages = [], []
    pin: Requirement | None = None
    hashes: list[str] = []
    for line in [*text.splitlines(), ""]:
        if line.startswith(_HASH):
            hashes.append(line.removeprefix(_HASH).removesuffix(_MORE))
        elif line.startswith(ROOT):
            roots.append(line.removeprefix(ROOT))
        else:
            via = tuple(line.removeprefix(VIA).split(", ")) if line.startswith(VIA) else ()
            if pin:
                marker, version = pin.marker, str(pin.specifier).removeprefix("==")
                pythons = tuple(python for python in PYTHONS if marker and marker.evaluate({"python_version": python}))
                packages.append(
                    LockedPackage(name=pin.name, version=version, pythons=pythons, hashes=tuple(hashes), via=via)
                )
            pin, hashes = (Requirement(line.removesuffix(_MORE)) if line.endswith(_MORE) else None), []
    return WheelLock(roots=tuple(roots), packages=tuple(packages))


@cache
def load_lock(name: str) -> WheelLock:
    """A file of locks of this release."""
    return parse_lock((LOCKS / f"{name}.txt").read_text(encoding="utf-8"))


def find_lock(requirements: Sequence[str], python: str | None = None) -> WheelLock | None:
    """The lock that was made for most of the requirements; None where none of them was locked for that Python."""
    if python is not None and python not in PYTHONS:
        return None
    locks = [load_lock(path.stem) for path in sorted(LOCKS.glob("*.txt")) if path.stem != TESTS]
    wanted = _parsed(requirements)
    best = max(locks, key=lambda lock: len(wanted & _parsed(lock.roots)), default=None)
    return best if best and not wanted.isdisjoint(_parsed(best.roots)) else None


def hash_locks(requirements: Sequence[str]) -> str:
    """A word that changes with the versions that the requirements are locked to; empty where none is."""
    lock = find_lock(requirements)
    return fingerprint([package.dump() for package in lock.closure(requirements)]) if lock else ""


def require_hashes(wheels: Iterable[Path], locked: Iterable[LockedPackage]) -> None:
    """Compare wheels with the hashes of the versions that are locked; other versions have none.

    Raises:
        HostNotReady: One is another file than that of the index with which the release was made.
    """
    from packaging.utils import parse_wheel_filename

    known = {(package.name, package.version): package.hashes for package in locked}
    for wheel in sorted(wheels):
        name, version, *_ = parse_wheel_filename(wheel.name)
        hashes = known.get((name, str(version)))
        if hashes is None:
            continue
        found = f"sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}"
        if found not in hashes:
            raise HostNotReady(
                f"{wheel.name} is not the file that this release was made with",
                evidence=f"its hash is {found}; the lock has {', '.join(hashes)}",
                fix=OTHER_FILES,
            )
