"""The questions to NVML, which imports pynvml as mig_library alone does beside it; nvml.py makes facts of the answers.

A child process runs it (nvml.py), which is to start fast: it imports next to nothing, and its answers are plain.
"""

from __future__ import annotations

import json
import re
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

LIBRARY_NOT_FOUND = 12
_NOT_SUPPORTED = 3
_NOT_FOUND = 6
_FUNCTION_NOT_FOUND = 13
_INVALID_ARGUMENT = 2

# At the end of the name of a MIG device; `1c.` is of a part that was cut again
_PROFILE = re.compile(r" MIG ((?:[1-9]c\.)?[1-9]g\.[1-9][0-9]{0,3}gb(?:\+[a-z0-9.]{1,20})?)", re.ASCII)

Facts = dict[str, Any]


class NvmlFailed(Exception):  # not a GpuprovError: `inventory` knows what it means for the host and says so
    """A call of NVML failed.

    Attributes:
        code: NVML's return code; LIBRARY_NOT_FOUND also where pynvml itself is absent.
        call: What was asked.
        text: What NVML calls the code.
    """

    def __init__(self, *, code: int, call: str, text: str) -> None:
        super().__init__(f"{call}: {text} (NVML code {code})")
        self.code = code
        self.call = call
        self.text = text


def ask_library(
    library: object | None = None,
    *,
    left_out: Collection[int] = (),
    note: Callable[[str, int | None], object] = lambda _call, _gpu: None,
) -> Facts:
    """Ask NVML for every GPU.

    Args:
        library: Stands in for libnvidia-ml.so.1, such as a SimulatedNvml; None loads the real one.
        left_out: Indexes of GPUs that nothing is asked of.
        note: Is told each call before it is made, and the index of the GPU that it is about.

    Raises:
        NvmlFailed: A call failed that is about no single GPU.
    """
    with open_library(library) as pynvml:
        return _Reader(pynvml, left_out, note).read()


@contextmanager
def open_library(library: object | None) -> Iterator[Any]:
    """Have pynvml, with a library behind it that stands in for libnvidia-ml.so.1 until the end; None for the real one.

    Raises:
        NvmlFailed: There is no pynvml.
    """
    try:
        import pynvml
    except ImportError as exc:
        raise NvmlFailed(code=LIBRARY_NOT_FOUND, call="import pynvml", text=str(exc)) from exc
    if library is None:
        yield pynvml
        return
    _use_library(pynvml, library)
    try:
        yield pynvml
    finally:
        _use_library(pynvml, None)


def _use_library(pynvml: Any, library: object | None) -> None:  # noqa: ANN401 - pynvml has no types
    pynvml.nvmlLib = library
    # pynvml keeps every function it has looked up, of whichever library was there then
    pynvml._nvmlGetFunctionPointer_cache.clear()  # noqa: SLF001


class _Reader:
    """One conversation with NVML: each failed call is translated here and nowhere else."""

    def __init__(
        self,
        pynvml: Any,  # noqa: ANN401 - pynvml has no types
        left_out: Collection[int],
        note: Callable[[str, int | None], object],
    ) -> None:
        self._nvml = pynvml
        self._left_out = left_out
        self._note = note
        self._gpu_asked: int | None = None

    def read(self) -> Facts:
        self._ask("nvmlInit", self._nvml.nvmlInit)
        try:
            count = self._ask("nvmlDeviceGetCount", self._nvml.nvmlDeviceGetCount)
            cuda = self._ask("nvmlSystemGetCudaDriverVersion", self._nvml.nvmlSystemGetCudaDriverVersion)
            version = self._ask("nvmlSystemGetDriverVersion", self._nvml.nvmlSystemGetDriverVersion)
            gpus, lost = self._list(count)
            return {"driver_version": version, "cuda_driver_version": cuda, "gpus": gpus, "lost": lost}
        finally:
            self._ask("nvmlShutdown", self._nvml.nvmlShutdown)

    def _list(self, count: int) -> tuple[list[Facts], list[Facts]]:
        """All GPUs, and why the others cannot be read: one of them says nothing about the others."""
        gpus, lost = [], []
        for index in range(count):
            if index in self._left_out:
                continue
            self._gpu_asked = index
            try:
                gpus.append(self._gpu(index))
            except NvmlFailed as failure:
                told = {"code": failure.code, "call": failure.call, "text": failure.text}
                lost.append({"index": index, "pci": self._find_pci(index), **told})
        self._gpu_asked = None
        return gpus, lost

    def _find_pci(self, index: int) -> str:
        """Of a GPU that fails; empty where NVML does not tell even that."""
        try:
            return _text(self._nvml.nvmlDeviceGetPciInfo(self._nvml.nvmlDeviceGetHandleByIndex(index)).busId)
        except self._nvml.NVMLError:
            return ""

    def _gpu(self, index: int) -> Facts:
        nvml = self._nvml
        who = f"of GPU {index}"
        handle = self._ask(f"the handle {who}", lambda: nvml.nvmlDeviceGetHandleByIndex(index))
        memory = self._ask_optional(f"the memory {who}", lambda: nvml.nvmlDeviceGetMemoryInfo(handle).total)
        mig_mode = self._ask_optional(f"the MIG mode {who}", lambda: nvml.nvmlDeviceGetMigMode(handle)[0])
        return {
            "index": index,
            "uuid": self._ask(f"the UUID {who}", lambda: nvml.nvmlDeviceGetUUID(handle)),
            "minor": self._ask(f"the minor number {who}", lambda: nvml.nvmlDeviceGetMinorNumber(handle)),
            "pci": _text(self._ask(f"the PCI address {who}", lambda: nvml.nvmlDeviceGetPciInfo(handle).busId)),
            "model": self._ask(f"the name {who}", lambda: nvml.nvmlDeviceGetName(handle)),
            "memory_bytes": memory,
            "compute_capability": self._ask_optional(
                f"the compute capability {who}", lambda: nvml.nvmlDeviceGetCudaComputeCapability(handle)
            ),
            "mig_enabled": bool(mig_mode),
            "mig": self._mig_instances(handle, who) if mig_mode else [],
        }

    def _mig_instances(self, gpu: object, who: str) -> list[Facts]:
        nvml = self._nvml
        count = self._ask(f"the number of MIG devices {who}", lambda: nvml.nvmlDeviceGetMaxMigDeviceCount(gpu))
        found = []
        for index in range(count):
            part = f"MIG device {index} {who}"
            try:
                handle = nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, index)
            except nvml.NVMLError as exc:
                if exc.value in (_NOT_FOUND, _INVALID_ARGUMENT):  # a place with no instance in it
                    continue
                raise NvmlFailed(code=exc.value, call=f"the handle of {part}", text=str(exc)) from exc
            found.append(self._mig_instance(handle, index, part))
        return found

    def _mig_instance(self, handle: object, index: int, part: str) -> Facts:
        nvml = self._nvml
        memory = self._ask_optional(f"the memory of {part}", lambda: nvml.nvmlDeviceGetMemoryInfo(handle).total)
        name = self._ask_optional(f"the name of {part}", lambda: nvml.nvmlDeviceGetName(handle))
        return {
            "index": index,
            "profile": find_profile(_text(name or "")),
            "uuid": self._ask(f"the UUID of {part}", lambda: nvml.nvmlDeviceGetUUID(handle)),
            "gpu_instance": self._ask(f"the GPU instance of {part}", lambda: nvml.nvmlDeviceGetGpuInstanceId(handle)),
            "compute_instance": self._ask(
                f"the compute instance of {part}", lambda: nvml.nvmlDeviceGetComputeInstanceId(handle)
            ),
            "memory_bytes": memory,
        }

    def _ask(self, call: str, function: Callable[[], Any]) -> Any:  # noqa: ANN401 - as NVML answers
        self._note(call, self._gpu_asked)
        try:
            return function()
        except self._nvml.NVMLError as exc:
            raise NvmlFailed(code=exc.value, call=call, text=str(exc)) from exc

    def _ask_optional(self, call: str, function: Callable[[], Any]) -> Any:  # noqa: ANN401 - as NVML answers
        """None where this GPU or this library does not know the question."""
        try:
            return self._ask(call, function)
        except NvmlFailed as exc:
            if exc.code in (_NOT_SUPPORTED, _FUNCTION_NOT_FOUND):
                return None
            raise


def find_profile(name: str) -> str:
    """That of a MIG device, in its name: `1g.10gb` of `NVIDIA H100 80GB HBM3 MIG 1g.10gb`; empty where it is not."""
    _, between, told = name.rpartition(" MIG ")
    found = _PROFILE.fullmatch(f"{between}{told}")
    return found[1] if found else ""


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def main(notes: str, *left_out: str) -> None:
    """In the child: ask, print the answer as JSON, and keep in a file what is being asked, for a call that hangs."""

    def note(call: str, gpu: int | None) -> None:
        with open(notes, "w", encoding="utf-8") as file:  # noqa: PTH123 - pathlib is slow to import
            json.dump({"call": call, "index": gpu}, file)

    try:
        answer = ask_library(left_out=[int(index) for index in left_out], note=note)
    except NvmlFailed as failure:
        answer = {"failed": {"code": failure.code, "call": failure.call, "text": failure.text}}
    sys.stdout.write(json.dumps(answer))
