"""MIG as NVML tells it and changes it, on one GPU at a time; mig.py asks for it, in a child that can be left behind.

What the two say to each other is plain, and this module imports next to nothing, as nvml_reader does.
"""

from __future__ import annotations

import ctypes
import json
import sys
from typing import TYPE_CHECKING, Any, Final

from gpuprov.gpu.nvml_reader import Facts, NvmlFailed, open_library

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

NO_PERMISSION: Final = 4
_ABSENT: Final = (2, 3, 6)  # invalid argument, not supported, not found: this GPU has no such profile, or no MIG
_CAPACITY: Final = 64


def serve(request: Facts, library: object | None = None) -> Any:  # noqa: ANN401 - as the request wants
    """Do what is asked: `read`, or on GPU `index` one of `clear`, `mode` with `enabled`, `create` with `parts`.

    Args:
        request: `{"do": ..., ...}`; each of `parts` is the id of a profile, and where the part begins and how long it
            is, in slices of memory.
        library: Stands in for libnvidia-ml.so.1; None loads the real one.

    Returns:
        Of `read` a list of all GPUs; of `mode` whether MIG is as wanted now; else None.

    Raises:
        NvmlFailed: A call failed.
    """
    with open_library(library) as pynvml:
        return _Mig(pynvml).serve(**request)


class _Mig:
    def __init__(self, pynvml: Any) -> None:  # noqa: ANN401 - pynvml has no types
        self._nvml = pynvml

    def serve(self, *, do: str, index: int = 0, **more: Any) -> Any:  # noqa: ANN401
        self._ask("nvmlInit", self._nvml.nvmlInit)
        try:
            if do == "read":
                count = self._ask("nvmlDeviceGetCount", self._nvml.nvmlDeviceGetCount)
                return [self._read(number) for number in range(count)]
            return getattr(self, f"_{do}")(index, **more)
        finally:
            self._ask("nvmlShutdown", self._nvml.nvmlShutdown)

    def _read(self, index: int) -> Facts:
        nvml, gpu, who = self._nvml, self._handle(index), f"of GPU {index}"
        mode = self._find(f"the MIG mode {who}", nvml.nvmlDeviceGetMigMode, gpu)
        profiles = self._profiles(gpu, who) if mode else []
        told = self._ask(f"the PCI ids {who}", nvml.nvmlDeviceGetPciInfo, gpu).pciDeviceId
        return {
            "index": index,
            "device_id": f"0x{told:08X}",
            "model": self._ask(f"the name {who}", nvml.nvmlDeviceGetName, gpu),
            "mode": None if mode is None else [bool(mode[0]), bool(mode[1])],
            "profiles": profiles,
            "parts": [part for one in profiles for part in self._parts(gpu, one, who)] if mode and mode[0] else [],
            "processes": self._processes(gpu, who),
        }

    def _profiles(self, gpu: Any, who: str) -> list[Facts]:  # noqa: ANN401 - a handle
        nvml, found = self._nvml, []
        for number in range(nvml.NVML_GPU_INSTANCE_PROFILE_COUNT):
            said = self._find(f"MIG profile {number} {who}", nvml.nvmlDeviceGetGpuInstanceProfileInfo, gpu, number)
            if said is not None:
                name = said.name.decode() if isinstance(said.name, bytes) else said.name
                one = {"id": said.id, "name": name.removeprefix("MIG "), "slices": said.sliceCount}
                found.append({**one, "most": said.instanceCount, "places": self._places(gpu, said.id, who)})
        return found

    def _places(self, gpu: Any, profile: int, who: str) -> list[list[int]]:  # noqa: ANN401 - a handle
        """Where a part can begin, and how long it is; none while MIG is off, and for whom is not root."""
        nvml = self._nvml
        array, count = (nvml.c_nvmlGpuInstancePlacement_t * _CAPACITY)(), ctypes.c_uint(_CAPACITY)
        said = self._find(
            f"the places of MIG profile {profile} {who}",
            nvml.nvmlDeviceGetGpuInstancePossiblePlacements,
            gpu,
            profile,
            array,
            ctypes.byref(count),
            absent=(*_ABSENT, NO_PERMISSION),
        )
        return [] if said is None else [[place.start, place.size] for place in array[: count.value]]

    def _compute_profiles(self, part: Any, who: str) -> list[Any]:  # noqa: ANN401 - a handle
        nvml = self._nvml
        told = (
            self._find(
                f"compute profile {number} {who}",
                nvml.nvmlGpuInstanceGetComputeInstanceProfileInfo,
                part,
                number,
                0,
            )
            for number in range(nvml.NVML_COMPUTE_INSTANCE_PROFILE_COUNT)
        )
        return [one for one in told if one is not None]

    def _gpu_instances(self, gpu: Any, profile: int, who: str) -> list[Any]:  # noqa: ANN401 - handles
        nvml = self._nvml
        return self._list(
            f"the GPU instances {who}", nvml.nvmlDeviceGetGpuInstances, nvml.c_nvmlGpuInstance_t, gpu, profile
        )

    def _compute_instances(self, part: Any, profile: int, who: str) -> list[Any]:  # noqa: ANN401 - handles
        nvml = self._nvml
        kind, ask = nvml.c_nvmlComputeInstance_t, nvml.nvmlGpuInstanceGetComputeInstances
        return self._list(f"the compute instances {who}", ask, kind, part, profile)

    def _list(self, call: str, function: Callable[..., Any], kind: Any, *given: Any) -> list[Any]:  # noqa: ANN401
        """What NVML writes into an array of handles of a kind, and counts."""
        array, count = (kind * _CAPACITY)(), ctypes.c_uint(_CAPACITY)
        self._ask(call, function, *given, array, ctypes.byref(count))
        return list(array[: count.value])

    def _parts(self, gpu: Any, profile: Facts, who: str) -> list[Facts]:  # noqa: ANN401 - a handle
        """The GPU instances of a profile, each with the slices of its compute instances."""
        found = []
        for part in self._gpu_instances(gpu, profile["id"], who):
            said = self._ask(f"a GPU instance {who}", self._nvml.nvmlGpuInstanceGetInfo, part)
            compute = [
                one.sliceCount
                for one in self._compute_profiles(part, who)
                for _ in self._compute_instances(part, one.id, who)
            ]
            place = [said.placement.start, said.placement.size]
            found.append({"id": said.id, "profile": profile["name"], "place": place, "compute": compute})
        return found

    def _processes(self, gpu: Any, who: str) -> list[int]:  # noqa: ANN401 - a handle
        nvml = self._nvml
        found: set[int] = set()
        for kind in ("Compute", "Graphics"):
            ask = getattr(nvml, f"nvmlDeviceGet{kind}RunningProcesses")
            found |= {one.pid for one in self._find(f"the processes {who}", ask, gpu) or ()}
        return sorted(found)

    def _clear(self, index: int) -> None:
        """Destroy all parts: the compute instances of each first."""
        gpu, who = self._handle(index), f"of GPU {index}"
        for profile in self._profiles(gpu, who):
            for part in self._gpu_instances(gpu, profile["id"], who):
                for one in self._compute_profiles(part, who):
                    for compute in self._compute_instances(part, one.id, who):
                        self._ask(
                            f"destroy a compute instance {who}",
                            self._nvml.nvmlComputeInstanceDestroy,
                            compute,
                        )
                self._ask(f"destroy a GPU instance {who}", self._nvml.nvmlGpuInstanceDestroy, part)

    def _mode(self, index: int, *, enabled: bool) -> bool:
        nvml, gpu, who = self._nvml, self._handle(index), f"of GPU {index}"
        self._ask(f"set the MIG mode {who}", nvml.nvmlDeviceSetMigMode, gpu, int(enabled))
        return bool(self._ask(f"the MIG mode {who}", nvml.nvmlDeviceGetMigMode, gpu)[0]) == enabled

    def _create(self, index: int, *, parts: list[tuple[int, int, int]]) -> None:
        """Make GPU instances, each with one compute instance that is all of it."""
        nvml, gpu, who = self._nvml, self._handle(index), f"of GPU {index}"
        for profile, start, size in parts:
            place = nvml.c_nvmlGpuInstancePlacement_t(start, size)
            part = self._ask(
                f"create a GPU instance {who}",
                nvml.nvmlDeviceCreateGpuInstanceWithPlacement,
                gpu,
                profile,
                ctypes.byref(place),
            )
            whole = max(self._compute_profiles(part, who), key=lambda one: one.sliceCount)
            self._ask(
                f"create a compute instance {who}",
                nvml.nvmlGpuInstanceCreateComputeInstance,
                part,
                whole.id,
            )

    def _handle(self, index: int) -> Any:  # noqa: ANN401 - a handle
        return self._ask(f"the handle of GPU {index}", self._nvml.nvmlDeviceGetHandleByIndex, index)

    def _ask(self, call: str, function: Callable[..., Any], *given: Any) -> Any:  # noqa: ANN401 - as NVML answers
        try:
            return function(*given)
        except self._nvml.NVMLError as exc:
            raise NvmlFailed(code=exc.value, call=call, text=str(exc)) from exc

    def _find(
        self,
        call: str,
        function: Callable[..., Any],
        *given: Any,  # noqa: ANN401 - as NVML wants
        absent: Collection[int] = _ABSENT,
    ) -> Any:  # noqa: ANN401 - as NVML answers
        """None where this GPU has no such thing."""
        try:
            return self._ask(call, function, *given)
        except NvmlFailed as exc:
            if exc.code in absent:
                return None
            raise


def main() -> None:
    """In the child: read a request from stdin, and print the answer as JSON."""
    try:
        answer = {"said": serve(json.loads(sys.stdin.read()))}
    except NvmlFailed as failure:
        answer = {"failed": {"code": failure.code, "call": failure.call, "text": failure.text}}
    sys.stdout.write(json.dumps(answer))
