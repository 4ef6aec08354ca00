"""Packs the proof's Python packages into one file: `python -m benchmarks.gpu_proof.pack FILE.tar.xz --cuda 13`.

For a machine without a network, which unpacks it into the site-packages of a virtual environment (docs/gpu-proof.md).
Runs on a machine with a network and a processor of the same kind. What the kernels never open is left out; so is, but
with --complete, what a machine with numpy and a CUDA toolkit of that major has.
"""

from __future__ import annotations

import argparse
import platform
import sys
import tarfile
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final
from zipfile import ZipFile

from gpuprov.core.errors import GpuprovError
from gpuprov.provision.recipe import REQUIREMENTS
from gpuprov.provision.role_recipe import SHAPES
from gpuprov.provision.rootfs import default_cache
from gpuprov.provision.wheels import ensure_wheels

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpuprov.gpu.wheels import CudaWheels

MIB: Final = 1 << 20
_MAJORS: Final[dict[str, CudaWheels]] = {"12": "cu12", "13": "cu13"}
# pip asks its own Python, not the machine's, whether these are needed.
_BEFORE_3_11: Final = ("backports.strenum", "exceptiongroup", "tomli")
# Needed of NVIDIA's packages: NVVM with libdevice, NVRTC, nvJitLink, and the runtime with the barrier of a grid.
_DEVICE_RUNTIME: Final = "libcudadevrt.a"
_NEVER: Final = ("pip", "nvidia_cuda_cccl", "nvidia_cuda_crt")
# Of one release all together: an nvJitLink of 13.0 refuses the runtime library of 13.5 as bad input.
_COMPILERS: Final = ("nvidia_cuda_nvcc", "nvidia_cuda_nvrtc", "nvidia_cuda_runtime", "nvidia_nvjitlink", "nvidia_nvvm")
_OFTEN_THERE: Final = ("numpy", *_COMPILERS)
_SUPERFLUOUS: Final = (".pxd", ".pyi", ".pyx", ".h", ".hpp")


def main(arguments: list[str] | None = None) -> int:
    """Fetch the wheels, and pack what is needed of them."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu_proof.pack", description=__doc__)
    parser.add_argument("out", type=Path, metavar="FILE.tar.xz")
    parser.add_argument("--cuda", choices=sorted(_MAJORS), required=True, help="major that the machine's driver runs")
    parser.add_argument(
        "--python", default=".".join(platform.python_version_tuple()[:2]), metavar="3.X", help="of the machine"
    )
    parser.add_argument("--complete", action="store_true", help="for a machine without numpy or a CUDA toolkit")
    wanted = parser.parse_args(arguments)
    older = _BEFORE_3_11 if wanted.python == "3.10" else ()
    requirements = (*REQUIREMENTS[_MAJORS[wanted.cuda]], SHAPES, "pytest", *older)
    try:
        wheels = ensure_wheels(requirements, python=wanted.python, cache=default_cache())
    except GpuprovError as error:
        sys.stderr.write(f"error: {error.what}\n  evidence: {error.evidence}\n  next:     {error.fix}\n")
        return error.exit_code
    packed = choose_wheels(wheels, complete=wanted.complete)
    pack(packed, wanted.out, cuda=wanted.cuda)
    names = ", ".join("-".join(wheel.name.split("-")[:2]) for wheel in packed)
    sys.stdout.write(f"{wanted.out}: {wanted.out.stat().st_size / MIB:.1f} MiB: {names}\n")
    return 0


def choose_wheels(wheels: Sequence[Path], *, complete: bool) -> list[Path]:
    """Return those to carry."""
    left_out = _NEVER if complete else (*_NEVER, *_OFTEN_THERE)
    return [wheel for wheel in wheels if _distribution(wheel) not in left_out]


def _distribution(wheel: Path) -> str:
    """Return the name of a wheel's package; those for CUDA 12 have the major behind it."""
    return wheel.name.partition("-")[0].lower().removesuffix("_cu12")


def pack(wheels: Sequence[Path], out: Path, *, cuda: str) -> None:
    """Write the files of wheels as they lie in site-packages; the same wheels give the same bytes."""
    with tarfile.open(out, "w:xz") as archive:
        for path, content in _files(wheels, cuda):
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(content), 0o644
            archive.addfile(entry, BytesIO(content))


def _files(wheels: Sequence[Path], cuda: str) -> Iterator[tuple[str, bytes]]:
    for wheel in wheels:
        with ZipFile(wheel) as files:
            for name in sorted(files.namelist()):
                path = find_place(name)
                if path and is_needed(path, cuda=cuda):
                    yield path, files.read(name)


def find_place(name: str) -> str:
    """Return the path in site-packages of a file of a wheel; empty for a folder, a script and what lies elsewhere."""
    if name.endswith("/"):
        return ""
    first, *rest = PurePosixPath(name).parts
    if not first.endswith(".data"):
        return name
    return "/".join(rest[1:]) if rest[0] in ("purelib", "platlib") else ""


def is_needed(path: str, *, cuda: str) -> bool:
    """Whether the kernels may open a file, with CUDA of that major."""
    parts = PurePosixPath(path).parts
    name = parts[-1]
    if name.endswith(".a"):
        return name == _DEVICE_RUNTIME
    if parts[0] == "nvidia":
        # Without a file of its own in it, the folder is one with that of the machine's own packages.
        return not {"bin", "include"} & set(parts) and name != "__init__.py"
    other_major = parts[:2] == ("cuda", "core") and parts[2].startswith("cu1") and parts[2] != f"cu{cuda}"
    return not other_major and "tests" not in parts and not name.endswith(_SUPERFLUOUS)


if __name__ == "__main__":
    sys.exit(main())
