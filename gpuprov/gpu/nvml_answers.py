"""What a simulated NVML answers, as the lines that gpuprov/runtime/simulated_nvml.c reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gpuprov.gpu.simulate import gpu_answers, mig_answers
from gpuprov.gpu.simulated_gpus import LIBRARY

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_OF_WHOLE: Final = ("MinorNumber", "PciInfo", "CudaComputeCapability")  # what an instance says of its GPU


def list_answers(document: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """By the UUID of each GPU and MIG instance, `NAME VALUE...` without the index; and by LIBRARY, of the library."""
    answers = {
        LIBRARY: tuple(f"{name} {document[name]}" for name in ("driver_version", "nvml_version", "cuda_driver_version"))
    }
    for gpu in document["gpus"]:
        own = gpu_answers(gpu)
        answers[gpu["uuid"]] = tuple(_lines(own))
        for part in gpu.get("mig", []):
            whole: dict[str, Any] = {name: own[name] for name in _OF_WHOLE if name in own}
            answers[part["uuid"]] = tuple(_lines({**whole, **mig_answers(part, gpu)}))
    return answers


def _lines(answers: Mapping[str, Any]) -> Iterator[str]:
    for name, value in answers.items():
        if isinstance(value, dict):
            yield from (f"{name}.{key} {one}" for key, one in value.items())
        elif isinstance(value, list):
            yield f"{name} {' '.join(map(str, value))}"
        elif name != "Index":  # which is the container's
            yield f"{name} {' '.join(str(value).split())}"
