"""The compilers of this machine: g++, and nvcc from the Python wheels of CUDA or as the system has it."""

from __future__ import annotations

import importlib.util
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpuwork.errors import HostLacks
from gpuwork.packages import pip_command

NATIVE: Final = Path(__file__).parent / "native"
STANDIN: Final = "standin"
_WHEEL: Final = "cu13/bin/nvcc"
_ELSEWHERE: Final = Path("/usr/local/cuda/bin/nvcc")
_OLD: Final = ("cuda_nvrtc/lib/libnvrtc.so.12", "cuda_runtime/lib/libcudart.so.12")
_OLD_HEADERS: Final = ("cuda_runtime/include", "cuda_nvcc/include")


@dataclass(frozen=True, kw_only=True)
class OldCuda:
    """CUDA 12 of the wheels, for GPUs that nvcc 13 does not know."""

    nvrtc: Path
    cudart: Path
    includes: tuple[Path, ...]


@dataclass(frozen=True, kw_only=True)
class Toolkit:
    """What there is; None for what is not there."""

    gxx: Path | None
    nvcc: Path | None
    old: OldCuda | None = None

    def require_gxx(self) -> str:
        """The path of g++.

        Raises:
            HostLacks: There is none.
        """
        if self.gxx is None:
            raise HostLacks(
                "there is no C++ compiler here",
                evidence="g++ is not in PATH",
                fix="apt-get install g++; in nodes: `image: {toolkit: true}` in the spec of the cluster",
            )
        return str(self.gxx)

    def require_nvcc(self) -> str:
        """The path of nvcc.

        Raises:
            HostLacks: There is none.
        """
        if self.nvcc is None:
            raise HostLacks(
                "there is no nvcc here",
                evidence=f"neither in the wheels of CUDA 13 nor in PATH nor {_ELSEWHERE}",
                fix=f"{pip_command(['nvcc'])}; in nodes: `image: {{toolkit: true}}` in the spec of the cluster",
            )
        return str(self.nvcc)


def find_toolkit() -> Toolkit:
    """Look for each."""
    gxx = shutil.which("g++")
    return Toolkit(gxx=Path(gxx) if gxx else None, nvcc=_find_nvcc(), old=_find_old())


def _wheels() -> list[Path]:
    found = importlib.util.find_spec("nvidia")
    places = found.submodule_search_locations if found is not None else None
    return [Path(place) for place in places or ()]


def _find_nvcc() -> Path | None:
    for place in _wheels():
        if (place / _WHEEL).is_file():
            return place / _WHEEL
    found = shutil.which("nvcc")
    if found:
        return Path(found)
    return _ELSEWHERE if _ELSEWHERE.is_file() else None


def _find_old() -> OldCuda | None:
    for place in _wheels():
        nvrtc, cudart = (place / path for path in _OLD)
        includes = tuple(place / path for path in _OLD_HEADERS)
        if all(path.exists() for path in (nvrtc, cudart, *includes)):
            return OldCuda(nvrtc=nvrtc, cudart=cudart, includes=includes)
    return None
