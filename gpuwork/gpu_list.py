"""The GPUs of a node of workers, as root lists them: a UUID in each line, and maybe words about its worker."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from gpuwork.untrusted_files import read_limited

GPUS: Final = Path("/etc/gpuwork/gpus")


def read_gpus(file: Path) -> dict[str, tuple[str, ...]]:
    """The words after each UUID, such as `scrub`; what is no UUID is the worker's to refuse."""
    lines = (read_limited(file) or b"").decode(errors="replace").splitlines()
    return {gpu: tuple(words) for gpu, *words in map(str.split, filter(str.strip, lines))}
