"""What NVML says of this host's GPUs, asked within a limit."""

from __future__ import annotations

import importlib.util
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any, Final

from gpuprov.core.errors import GpuprovError, TimedOut
from gpuprov.core.execution import run
from gpuprov.gpu.lost import LostGpu
from gpuprov.gpu.models import Gpu, MigInstance
from gpuprov.gpu.nvml_reader import LIBRARY_NOT_FOUND, NvmlFailed, ask_library
from gpuprov.gpu.pci import normalise_pci

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["LIBRARY_NOT_FOUND", "NvmlFailed", "NvmlReading", "read_nvml", "read_nvml_in_time"]

TIMEOUT: Final = 10  # NVML's own code for it
UNKNOWN: Final = 999
# For eight GPUs that the driver has to start first, as it does for every program without persistence mode.
ANSWER_S: Final = 30.0
_AGAIN_S: Final = 10.0  # for the others without a GPU that hangs: they have been started
_START: Final = (
    "import sys; sys.path[:0] = sys.argv[1:3]; from gpuprov.gpu.nvml_reader import main; main(*sys.argv[3:])"
)
_LINES: Final = 3


@dataclass(frozen=True, kw_only=True)
class NvmlReading:
    """What NVML says of the host; GPUs in NVML's order, and those that it lists and cannot tell."""

    driver_version: str
    cuda_driver_version: int
    gpus: tuple[Gpu, ...]
    lost: tuple[LostGpu, ...] = ()


def read_nvml(library: object) -> NvmlReading:
    """Ask something that stands in for libnvidia-ml.so.1 for every GPU, such as a SimulatedNvml; it does not hang.

    Raises:
        NvmlFailed: A call failed that is about no single GPU.
    """
    return parse_reading(ask_library(library))


def read_nvml_in_time(*, timeout_s: float = ANSWER_S) -> NvmlReading:
    """Ask NVML for every GPU in a child, for so long at most: where the driver hangs, the call cannot even be killed.

    Where a call about one GPU hangs, the others are asked again without it.

    Raises:
        NvmlFailed: A call failed or hangs that is about no single GPU, two GPUs hang, or the library crashed.
    """
    try:
        return _ask_child(timeout_s=timeout_s)
    except _Hangs as hanging:
        if hanging.index is None:
            raise
        return _ask_child(hanging, timeout_s=min(timeout_s, _AGAIN_S))


class _Hangs(NvmlFailed):
    """The child was still waiting for a call, about the GPU with that index, when its time was over."""

    def __init__(self, *, call: str, index: int | None, timeout_s: float) -> None:
        super().__init__(code=TIMEOUT, call=call, text=f"no response within {timeout_s:g} s")
        self.index = index


def _ask_child(hanging: _Hangs | None = None, *, timeout_s: float) -> NvmlReading:
    """What a child finds that asks of all GPUs but that which hangs, if one does."""
    found = importlib.util.find_spec("pynvml")
    if found is None or found.origin is None:
        raise NvmlFailed(code=LIBRARY_NOT_FOUND, call="import pynvml", text="No module named 'pynvml'")
    # gpuprov and pynvml alone: without looking for other packages Python starts in a fraction of the time
    places = [str(Path(__file__).parents[2]), str(Path(found.origin).parent)]
    with NamedTemporaryFile(prefix="gpuprov-nvml-") as notes:
        more = [*places, notes.name, *([str(hanging.index)] if hanging else [])]
        try:
            answer = run([sys.executable, "-I", "-S", "-c", _START, *more], timeout_s=timeout_s, check=False)
        except TimedOut as error:
            raise _Hangs(**_read_notes(Path(notes.name)), timeout_s=timeout_s) from error
        except GpuprovError as error:
            raise NvmlFailed(code=UNKNOWN, call="NVML", text=error.evidence) from error
    try:
        said = json.loads(answer.stdout)
        if "failed" not in said:
            return parse_reading(_with_hanging(said, hanging) if hanging else said)
        failure = NvmlFailed(**said["failed"])
    except (ValueError, KeyError, TypeError) as error:
        lines = "; ".join(answer.stderr.strip().splitlines()[-_LINES:]) or "no output"
        text = f"the query ended with status {answer.exit_code}: {lines}"
        raise NvmlFailed(code=UNKNOWN, call="NVML", text=text) from error
    raise failure


def _read_notes(notes: Path) -> dict[str, Any]:
    """What the child was waiting for."""
    try:
        noted = json.loads(notes.read_text(encoding="utf-8"))
        return {"call": str(noted["call"]), "index": noted["index"]}
    except (OSError, ValueError, TypeError, KeyError):  # it had not yet begun
        return {"call": "NVML", "index": None}


def _with_hanging(said: Mapping[str, Any], hanging: _Hangs) -> dict[str, Any]:
    """The answers, with the GPU that was left out among those that are lost, in NVML's order."""
    told = {"index": hanging.index, "pci": "", "code": hanging.code, "call": hanging.call, "text": hanging.text}
    return {**said, "lost": sorted([*said["lost"], told], key=lambda gpu: gpu["index"])}


def parse_reading(said: Mapping[str, Any]) -> NvmlReading:
    """The answers of nvml_reader."""
    return NvmlReading(**{**said, "gpus": tuple(map(_gpu, said["gpus"])), "lost": tuple(map(_lost, said["lost"]))})


def _lost(told: Mapping[str, Any]) -> LostGpu:
    why = f"{told['call']}: {told['text']} (NVML code {told['code']})"
    return LostGpu(index=told["index"], code=told["code"], why=why, pci=normalise_pci(told["pci"]))


def _gpu(told: Mapping[str, Any]) -> Gpu:
    capability = told["compute_capability"]
    return Gpu(
        **{
            **told,
            "pci": normalise_pci(told["pci"]),
            "compute_capability": tuple(capability) if capability else None,
            "mig": tuple(MigInstance(**part) for part in told["mig"]),
        }
    )
