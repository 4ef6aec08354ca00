"""What names a program: the SHA-256 of its name, version, sources and code, as JSON that can be written in one way."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from gpuwork.programs.config import ProgramConfig


def name_program(config: ProgramConfig, folder: Path, files: Sequence[str]) -> str:
    """64 hexadecimal digits, the same wherever the program lies and however its `config.yaml` is written.

    Args:
        config: What `config.yaml` says.
        folder: Of the program.
        files: That belong to it.
    """
    code = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in files if name != "config.yaml"}
    told = {"name": config.name, "version": config.version, "sources": config.sources, "code": code}
    return hashlib.sha256(canonical_json(told)).hexdigest()


def canonical_json(told: object) -> bytes:
    """A document in the one way in which it can be written: sorted keys, no spaces, ASCII."""
    return json.dumps(told, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode("ascii")
