"""What the role cuda brings to a host that it reaches by ssh: wheels and smoke kernels, fetched and packed here.

python -m gpuprov.provision.payload stamp cu12           one word that identifies the required packages
python -m gpuprov.provision.payload fetch cu12 3.11      the same, fetched; prints where it is as JSON
"""

from __future__ import annotations

import json
import sys
import tarfile
from typing import TYPE_CHECKING, cast

from gpuprov.assets import find_asset
from gpuprov.core.errors import GpuprovError
from gpuprov.core.fingerprint import fingerprint, short
from gpuprov.provision.recipe import REQUIREMENTS, hash_folder, source_files
from gpuprov.provision.rootfs import default_cache
from gpuprov.provision.wheels import ensure_wheels

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from gpuprov.gpu.wheels import CudaWheels


def payload_stamp(requirements: Sequence[str], smoke_kernels: Path) -> str:
    """A word that changes with the Python packages or the kernels; a host keeps it to say what it has."""
    return short(fingerprint([list(requirements), hash_folder(smoke_kernels)]))


def pack_kernels(smoke_kernels: Path, cache: Path) -> Path:
    """The smoke kernels as an archive with the folder `smoke_kernels`; made once and kept."""
    kept = cache / f"smoke_kernels-{short(hash_folder(smoke_kernels))}.tar.gz"
    if not kept.is_file():
        cache.mkdir(parents=True, exist_ok=True)
        unfinished = kept.with_suffix(".part")
        with tarfile.open(unfinished, "w:gz") as archive:
            for path in source_files(smoke_kernels):
                archive.add(path, f"smoke_kernels/{path.relative_to(smoke_kernels)}")
        unfinished.replace(kept)
    return kept


def fetch(requirements: Sequence[str], *, python: str, cache: Path, smoke_kernels: Path) -> dict[str, object]:
    """Everything the role copies, with its place on this machine.

    Raises:
        HostNotReady: The package index does not answer.
        TimedOut: It took too long.
    """
    wheels = ensure_wheels(requirements, python=python, cache=cache)
    return {
        "requirements": list(requirements),
        "wheels": f"{wheels[0].parent}/",
        "kernels": str(pack_kernels(smoke_kernels, cache)),
    }


def main(arguments: Sequence[str]) -> int:
    """Answer the role; errors go to standard error in three parts."""
    verb, variant, *python = arguments
    requirements = REQUIREMENTS[cast("CudaWheels", variant)]
    try:
        kernels = find_asset("smoke_kernels")
        if verb == "stamp":
            sys.stdout.write(payload_stamp(requirements, kernels))
        else:
            found = fetch(requirements, python=python[0], cache=default_cache(), smoke_kernels=kernels)
            sys.stdout.write(json.dumps(found))
    except GpuprovError as error:
        sys.stderr.write(f"{error.what}\nevidence: {error.evidence}\nfix: {error.fix}\n")
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
