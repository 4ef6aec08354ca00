"""Lock the newest versions of all Python packages that gpuprov, its tests and nodes need; `make locks` runs this.

python -m benchmarks.renew_locks UV     path of the program uv, which resolves for every Python and processor at once
"""

from __future__ import annotations

import argparse
import configparser
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from packaging.markers import Marker
from packaging.tags import cpython_tags
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from gpuprov.provision.own_wheel import own_requirements
from gpuprov.provision.recipe import REQUIREMENTS, TOOLKIT
from gpuprov.provision.wheel_lock import LOCKS, OWN, PYTHONS, ROOT, TESTS, LockedPackage
from gpuprov.provision.wheels import wheel_platforms
from gpuprov.roles.worker.role import WorkerRole

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

MACHINES: Final = ("x86_64", "aarch64")
_TOOLS: Final = ("pip", "setuptools")
_SETUP: Final = Path(__file__).parents[1] / "setup.cfg"
_PATCHES: Final = ("0", "99")  # the first and the last of a minor
_OLDER: Final = ("2010", "1")  # pip takes them where it is told manylinux2014
_SOURCES_OF: Final = frozenset({TESTS})  # which of the locks may hold packages without a wheel


def wanted_locks() -> dict[str, tuple[str, ...]]:
    """What each lock is for."""
    config = configparser.ConfigParser()
    config.read(_SETUP, encoding="utf-8")
    tests = filter(None, config["options.extras_require"]["test"].split("\n"))
    nodes = {
        f"nodes-{cuda}": ("pip", *REQUIREMENTS[cuda], *TOOLKIT[cuda], *WorkerRole.recipe.requirements, "pytest")
        for cuda in REQUIREMENTS
    }
    return {OWN: (*own_requirements(), *_TOOLS), TESTS: (*own_requirements(), *_TOOLS, *tests), **nodes}


def main(arguments: Sequence[str]) -> int:
    """Write all locks."""
    import tomllib  # type: ignore[import-not-found]  # it needs Python 3.11, which gpuprov does not

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("uv", type=Path)
    uv = parser.parse_args(arguments).uv
    LOCKS.mkdir(exist_ok=True)
    for name, wanted in wanted_locks().items():
        roots = tuple(dict.fromkeys(wanted))
        options = () if name in _SOURCES_OF else ("--only-binary=:all:",)
        resolved = tomllib.loads(resolve(uv, roots, *options, "--format=pylock.toml"))
        via = parse_via(resolve(uv, roots, *options, "--no-header", "--annotation-style=line"))
        packages = lock_packages(resolved["packages"], via)
        text = "".join(package.dump() for package in packages)
        header = "# Made by `make locks`; not to be edited.\n" + "".join(f"{ROOT}{root}\n" for root in roots)
        (LOCKS / f"{name}.txt").write_text(header + text, encoding="utf-8")
        sys.stdout.write(f"{name}: {len(packages)} packages\n")
    return 0


def resolve(uv: Path, roots: Iterable[str], *options: str) -> str:
    """What uv says that these need, run in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        wanted = Path(folder) / "roots.in"
        wanted.write_text("".join(f"{root}\n" for root in roots), encoding="utf-8")
        asked = ("pip", "compile", "--quiet", "--universal", f"--python-version={PYTHONS[0]}")
        argv = [str(uv.absolute()), *asked, *options, wanted.name]
        return subprocess.run(argv, cwd=folder, check=True, stdout=subprocess.PIPE, encoding="utf-8").stdout


def parse_via(text: str) -> dict[str, tuple[str, ...]]:
    """Which packages need each, as uv says."""
    found: dict[str, set[str]] = {}
    for line in text.splitlines():
        if match := re.match(r"([a-z0-9-]+)==\S+.*?# via (.*)", line):
            names = {canonicalize_name(name) for name in match[2].split(", ") if not name.startswith("-r ")}
            found.setdefault(match[1], set()).update(names)
    return {name: tuple(sorted(names)) for name, names in found.items()}


def lock_packages(resolved: Iterable[Mapping[str, Any]], via: Mapping[str, tuple[str, ...]]) -> list[LockedPackage]:
    """What was resolved, without what Linux, our Pythons and our processors do not need.

    Raises:
        SystemExit: A package has no file for one of them.
    """
    packages = []
    for found in resolved:
        name, version = found["name"], found["version"]
        needed = [python for python in PYTHONS if any(_needs(found.get("marker"), python, one) for one in MACHINES)]
        hashes: set[str] = set()
        for python in needed:
            for machine in MACHINES:
                if _needs(found.get("marker"), python, machine):
                    fitting = fitting_hashes(found, python, machine)
                    if not fitting:
                        raise SystemExit(f"error: {name} {version} has no file for Python {python} on {machine}")
                    hashes.update(fitting)
        if needed:
            pythons = () if len(needed) == len(PYTHONS) else tuple(needed)
            packages.append(
                LockedPackage(
                    name=name, version=version, pythons=pythons, hashes=tuple(sorted(hashes)), via=via.get(name, ())
                )
            )
    return sorted(packages, key=lambda package: (package.name, package.pythons))


def _needs(marker: str | None, python: str, machine: str) -> bool:
    environment = {
        "implementation_name": "cpython",
        "os_name": "posix",
        "platform_machine": machine,
        "platform_python_implementation": "CPython",
        "platform_system": "Linux",
        "python_version": python,
        "sys_platform": "linux",
    }
    return marker is None or any(
        Marker(marker).evaluate({**environment, "python_full_version": f"{python}.{patch}"}) for patch in _PATCHES
    )


def fitting_hashes(package: Mapping[str, Any], python: str, machine: str) -> list[str]:
    """The hashes of the wheels that a Python on Linux takes; of the source where the package has no wheel at all."""
    major, minor = map(int, python.split("."))
    older = [f"manylinux{year}_{machine}" for year in _OLDER]
    platforms = [*wheel_platforms(machine), *older, f"linux_{machine}", "any"]
    tags = {*cpython_tags((major, minor), platforms=platforms)}
    pure = {f"py{major}{least}" for least in range(minor + 1)} | {f"py{major}"}
    hashes = []
    for wheel in package.get("wheels", ()):
        file = wheel["url"].rpartition("/")[2].replace("%2B", "+")
        try:
            named = parse_wheel_filename(file)[3]
        except InvalidWheelFilename:
            continue
        fits_any = any(tag.interpreter in pure and tag.abi == "none" and tag.platform in platforms for tag in named)
        if fits_any or not tags.isdisjoint(named):
            hashes.append(f"sha256:{wheel['hashes']['sha256']}")
    if "sdist" in package and not package.get("wheels"):
        hashes.append(f"sha256:{package['sdist']['hashes']['sha256']}")
    return hashes


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
