"""Read how people and NVIDIA_VISIBLE_DEVICES name GPUs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuprov.core.errors import UsageError
from gpuprov.gpu.pci import parse_pci

if TYPE_CHECKING:
    from gpuprov.gpu.models import Gpu, HostGpus

_PREFIX_MIN = 4
_COUNT = re.compile(r"[0-9]{1,4}", re.ASCII)
_LABEL = re.compile(r"[0-9]+(:[0-9]+)?", re.ASCII)
_ONE = re.compile(r"gpu(?=[0-9])")  # `gpu0` is GPU 0 alone, where a bare 0 would be a count


@dataclass(frozen=True, kw_only=True)
class Visible:
    """What NVIDIA_VISIBLE_DEVICES asks for.

    Attributes:
        driver: Whether the driver's files are wanted; not for `void`, empty and unset.
        gpus: The GPUs; none for `none`.
    """

    driver: bool
    gpus: tuple[Gpu, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Selection:
    """What a person asks for: so many, or these."""

    count: int
    gpus: tuple[Gpu, ...] = ()


def parse_visible(text: str | None, host: HostGpus) -> Visible:
    """Read NVIDIA_VISIBLE_DEVICES as the NVIDIA container toolkit does: all, none, void, or a list of index, UUID, MIG.

    Raises:
        UsageError: It names something that is not there.
    """
    if text is None or text.strip() in ("", "void"):
        return Visible(driver=False)
    if text.strip() == "none":
        return Visible(driver=True)
    if text.strip() == "all":
        return Visible(driver=True, gpus=host.units)
    return Visible(driver=True, gpus=_pick(text, host, people=False))


def parse_selection(text: str, host: HostGpus) -> Selection:
    """Read a person's choice: `all`, `none`, a count such as `2`, or a list.

    A list has indexes `0,1` (one alone: `gpu0`), MIG `0:1`, UUIDs or their starts, PCI addresses.

    Raises:
        UsageError: The text is none of these, or names a GPU twice or one that does not exist.
    """
    chosen = text.strip()
    if chosen == "none":
        return Selection(count=0)
    if chosen == "all":
        return Selection(count=len(host.units), gpus=host.units)
    count = _COUNT.fullmatch(chosen)
    if count is not None:
        if int(chosen) > len(host.units):
            raise _refusal(f"there are fewer than {int(chosen)} GPUs", host)
        return Selection(count=int(chosen))
    gpus = _pick(chosen, host, people=True)
    return Selection(count=len(gpus), gpus=gpus)


def _pick(text: str, host: HostGpus, *, people: bool) -> tuple[Gpu, ...]:
    picked: list[Gpu] = []
    for name in text.split(","):
        plain = _ONE.sub("", name.strip(), count=1) if people else name.strip()
        unit = _find(plain, host, people=people)
        if unit in picked:
            raise _refusal(f"GPU {unit.label} is named twice in {text!r}", host)
        picked.append(unit)
    return tuple(picked)


def _find(name: str, host: HostGpus, *, people: bool) -> Gpu:
    if _LABEL.fullmatch(name):
        found = [unit for unit in host.units if unit.label == name]
    elif people and parse_pci(name) is not None:
        found = [unit for unit in host.units if unit.pci == parse_pci(name)]
    else:
        found = [unit for unit in host.units if unit.uuid.lower() == name.lower()]
        if people and not found and len(name) >= _PREFIX_MIN:
            found = [unit for unit in host.units if _starts(unit.uuid.lower(), name.lower())]
    if len(found) > 1:
        raise _refusal(f"{name!r} matches {len(found)} GPUs", host)
    if not found:
        raise _refusal(f"there is no GPU {name!r}", host)
    return found[0]


def _starts(uuid: str, prefix: str) -> bool:
    return uuid.startswith(prefix) or uuid.partition("-")[2].startswith(prefix)


def _refusal(what: str, host: HostGpus) -> UsageError:
    listing = "; ".join(f"{unit.label} = {unit.uuid} at {unit.pci}" for unit in host.units)
    return UsageError(
        what,
        evidence=f"this host has {listing or 'no GPU to lease'}",
        fix="use indexes, UUIDs or PCI addresses, such as 0,1 or gpu0, or a count, all or none",
    )
