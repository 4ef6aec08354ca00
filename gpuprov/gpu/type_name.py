"""The short name of a GPU's model, as users of Slurm ask for it: `h100`, `rtx_3090`, `a100_mig` for its instances."""

from __future__ import annotations

import re
from typing import Final

_MAKERS: Final = frozenset({"simulated", "nvidia", "tesla", "quadro", "geforce", "grid"})
# How a GPU is built in and cooled, and for whom: two GPUs that differ in this alone do the same work.
_BUILDS: Final = frozenset(
    {"pcie", "sxm", "sxm2", "sxm3", "sxm4", "sxm5", "nvl", "hbm2", "hbm2e", "hbm3", "hbm3e", "gpu", "generation"}
    | {"edition", "server", "workstation", "blackwell", "max", "q", "design", "with", "mig"}
)
_MEMORY: Final = re.compile(r"[0-9]+[gm]i?b", re.ASCII)
_WORD: Final = re.compile(r"[a-z0-9]+", re.ASCII)
_LONGEST: Final = 40


def gpu_type(model: str, *, mig: bool = False) -> str:
    """The name of a model: a letter first, then letters, digits and `_`.

    Args:
        model: As NVML writes it: `NVIDIA A100-SXM4-40GB`.
        mig: Whether the node holds only instances of that GPU: whoever asks for all of one shall not get a part.
    """
    words = [word for word in _WORD.findall(model.lower()) if word not in _MAKERS]
    words = [word for word in words if word not in _BUILDS and not _MEMORY.fullmatch(word)]
    name = "_".join([*(words or ["unnamed"]), *(["mig"] if mig else [])])
    return (f"gpu_{name}" if name[:1].isdigit() else name)[:_LONGEST]
