"""What roles bring to a host that they reach by ssh: wheels and a package of gpuprov's, fetched and packed here.

A payload is `none`, `cu12` or `cu13` (CUDA's packages, the smoke kernels), or `work` (what workers need, gpuwork).

python -m gpuprov.provision.payload stamp cu12           one word that identifies the required packages
python -m gpuprov.provision.payload fetch cu12 3.11      the same, fetched; prints where it is as JSON
"""

from __future__ import annotations

import json
import sys
import tarfile
from typing import TYPE_CHECKING, Final, Literal

from gpuprov.assets import get_brought
from gpuprov.core.errors import GpuprovError
from gpuprov.core.fingerprint import fingerprint, short
from gpuprov.provision.recipe import REQUIREMENTS, hash_folder, source_files
from gpuprov.provision.role_recipe import WORKERS
from gpuprov.provision.rootfs import default_cache
from gpuprov.provision.wheels import ensure_wheels

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from gpuprov.assets import Brought

PAYLOADS: Final[dict[str, tuple[tuple[str, ...], tuple[Brought, ...]]]] = {
    **{variant: (requirements, ("smoke_kernels",)) for variant, requirements in REQUIREMENTS.items()},
    "work": (WORKERS, ("gpuwork", "shapes")),
}


def payload_stamp(requirements: Sequence[str], packages: Sequence[Path]) -> str:
    """A word that changes with the Python packages or gpuprov's own; a host keeps it to say what it has."""
    return short(fingerprint([list(requirements), *map(hash_folder, packages)]))


def pack_packages(packages: Sequence[Path], cache: Path) -> Path:
    """Packages of gpuprov's as an archive with a folder of each one's name; made once and kept."""
    kept = cache / f"{packages[0].name}-{short(fingerprint([*map(hash_folder, packages)]))}.tar.gz"
    if not kept.is_file():
        cache.mkdir(parents=True, exist_ok=True)
        files = {f"{one.name}/{path.relative_to(one)}": path for one in packages for path in source_files(one)}
        _pack(kept, files, "w:gz")
    return kept


def pack_wheels(wheels: Sequence[Path]) -> Path:
    """Wheels of one folder as an archive beside it, made once and kept: Ansible takes a second for each single file."""
    folder = wheels[0].parent
    kept = folder.with_name(f"{folder.name}.tar")
    if not kept.is_file():
        _pack(kept, {wheel.name: wheel for wheel in wheels}, "w")
    return kept


def _pack(kept: Path, files: Mapping[str, Path], mode: Literal["w", "w:gz"]) -> None:
    unfinished = kept.with_suffix(".part")
    with tarfile.open(unfinished, mode) as archive:
        for name, path in files.items():
            archive.add(path, name)
    unfinished.replace(kept)


def fetch(requirements: Sequence[str], *, python: str, cache: Path, packages: Sequence[Path]) -> dict[str, object]:
    """Everything the role copies, with its place on this machine.

    Raises:
        HostNotReady: The package index does not answer.
        TimedOut: It took too long.
    """
    wheels = ensure_wheels(requirements, python=python, cache=cache)
    return {
        "requirements": list(requirements),
        "wheels": str(pack_wheels(wheels)),
        "package": str(pack_packages(packages, cache)),
    }


def main(arguments: Sequence[str]) -> int:
    """Answer the role; errors go to standard error in three parts."""
    verb, payload, *python = arguments
    requirements, assets = PAYLOADS[payload]
    try:
        packages = [*map(get_brought, assets)]
        if verb == "stamp":
            sys.stdout.write(payload_stamp(requirements, packages))
        else:
            found = fetch(requirements, python=python[0], cache=default_cache(), packages=packages)
            sys.stdout.write(json.dumps(found))
    except GpuprovError as error:
        sys.stderr.write(f"{error.what}\nevidence: {error.evidence}\nfix: {error.fix}\n")
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
