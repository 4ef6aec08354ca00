"""Arrays in a file of numpy's (npz), written whole or not at all, and read with limits: jobs can write there too."""

from __future__ import annotations

import os
import zipfile
import zlib
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from gpuprov.shapes.limits import GIB
from gpuwork.untrusted_files import open_regular

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    # By name: the kinds of numpy's types that an array may have, and its dimensions
    ArrayKinds = Mapping[str, tuple[str, int]]

MOST_BYTES: Final = 16 * GIB
_BROKEN: Final = (zipfile.BadZipFile, zlib.error, EOFError, KeyError, NotImplementedError, RuntimeError, MemoryError)


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write a file whole; what had its name is replaced."""
    part = path.with_name(f".{path.name}.part")
    try:
        with part.open("wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]  # numpy's own names of arguments are none of ours
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def read_arrays(path: Path, wanted: ArrayKinds, *, most_bytes: int = MOST_BYTES) -> dict[str, NDArray[Any]]:
    """The arrays of a file, which has these and no others.

    Raises:
        ValueError: It is no such file, or too large.
        OSError: It cannot be read.
    """
    with os.fdopen(open_regular(path), "rb") as file:
        try:
            with zipfile.ZipFile(file) as packed:
                names = {one.filename.removesuffix(".npy"): one.file_size for one in packed.infolist()}
                if names.keys() != wanted.keys() or sum(names.values()) > most_bytes:
                    raise ValueError(f"has {', '.join(sorted(names))[:200]} and {sum(names.values())} bytes")
            file.seek(0)
            with np.load(file, allow_pickle=False) as loaded:
                arrays = {name: loaded[name] for name in wanted}
        except _BROKEN as error:
            raise ValueError(f"is not a file of arrays: {error}") from error
    for name, (kinds, dimensions) in wanted.items():
        if arrays[name].dtype.kind not in kinds or arrays[name].ndim != dimensions:
            raise ValueError(f"{name} is {arrays[name].dtype} in {arrays[name].ndim} dimensions")
    return arrays
