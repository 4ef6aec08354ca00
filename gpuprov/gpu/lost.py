"""GPUs that a host has and cannot use, told one by one, so that one of them does not take the others away. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from gpuprov.gpu.models import DriverFiles, ProcGpu


@dataclass(frozen=True, kw_only=True)
class LostGpu:
    """A GPU that is there and cannot be used.

    Attributes:
        why: In the driver's words.
        code: NVML's, where NVML says it.
        index: NVML's; None where NVML does not list it.
        minor: The number in /dev/nvidia<minor>; None if unknown.
        pci: Its address; empty if unknown.
        uuid: Empty if unknown.
        model: Empty if unknown.
    """

    why: str
    code: int | None = None
    index: int | None = None
    minor: int | None = None
    pci: str = ""
    uuid: str = ""
    model: str = ""

    @property
    def name(self) -> str:
        """How it is told from others: `GPU 3 at 0000:41:00.0 (/dev/nvidia2)`."""
        number = "" if self.index is None else f" {self.index}"
        place = f" at {self.pci}" if self.pci else ""
        return f"GPU{number}{place}{'' if self.minor is None else f' (/dev/nvidia{self.minor})'}"

    def __str__(self) -> str:
        return f"{self.name}: {self.why}"


def find_lost_gpus(
    driver: DriverFiles,
    *,
    seen: Collection[str],
    unread: Sequence[LostGpu],
    has_device: Callable[[int], bool],
) -> tuple[LostGpu, ...]:
    """The GPUs that the host has and cannot use, by PCI address.

    Args:
        driver: What /proc and /sys show.
        seen: UUIDs and PCI addresses of the GPUs that NVML tells.
        unread: Those that NVML lists and cannot tell.
        has_device: Whether there is a device of that minor. A container shows GPUs in /proc that it was not given.
    """
    missing = [gpu for gpu in driver.gpus if gpu.uuid not in seen and gpu.pci not in seen]
    unready = [gpu for gpu in driver.lost if gpu.pci not in seen]
    named = _name_unread(unread, missing, unready)
    known = {gpu.pci for gpu in named}
    unlisted = [
        LostGpu(
            why="the driver lists it, but NVML does not", minor=gpu.minor, pci=gpu.pci, uuid=gpu.uuid, model=gpu.model
        )
        for gpu in missing
    ]
    more = [
        gpu for gpu in (*unlisted, *unready) if gpu.pci not in known and (gpu.minor is None or has_device(gpu.minor))
    ]
    return tuple(sorted((*named, *more), key=lambda gpu: (gpu.pci, -1 if gpu.index is None else gpu.index)))


def _name_unread(
    unread: Sequence[LostGpu], missing: Sequence[ProcGpu], unready: Sequence[LostGpu]
) -> tuple[LostGpu, ...]:
    """Those that NVML cannot tell, with what /proc knows: both are in the order of addresses, so they fit together."""
    places: dict[str, LostGpu | ProcGpu] = {gpu.pci: gpu for gpu in unready}
    places |= {gpu.pci: gpu for gpu in missing}
    found = [_filled(gpu, places.pop(gpu.pci)) if gpu.pci in places else gpu for gpu in unread]
    nameless = [gpu for gpu in found if not gpu.pci]
    if len(nameless) != len(places):  # nobody can tell which of them is which
        return tuple(found)
    order = dict(zip((gpu.index for gpu in nameless), sorted(places), strict=True))
    return tuple(
        _filled(replace(gpu, pci=order[gpu.index]), places[order[gpu.index]]) if not gpu.pci else gpu for gpu in found
    )


def _filled(gpu: LostGpu, known: LostGpu | ProcGpu) -> LostGpu:
    minor = known.minor if gpu.minor is None else gpu.minor
    return replace(gpu, minor=minor, uuid=gpu.uuid or known.uuid, model=gpu.model or known.model)


def describe_lost(lost: Sequence[LostGpu], *, usable: int) -> str:
    """All of them in a sentence: `1 of 8 GPUs is lost: GPU 3 at 0000:41:00.0 (/dev/nvidia2): GPU is lost`."""
    verb = "is" if len(lost) == 1 else "are"
    return f"{len(lost)} of {usable + len(lost)} GPUs {verb} lost: {'; '.join(map(str, lost))}"
