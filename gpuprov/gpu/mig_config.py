"""Which GPU is to be cut how, by a file of mig-parted, and what that takes: pure functions."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from shlex import quote
from typing import TYPE_CHECKING, Final

from msgspec import UNSET

from gpuprov.core.errors import HostNotReady, UsageError
from gpuprov.core.excerpt import excerpt
from gpuprov.core.nearest import ask_back, find_nearest
from gpuprov.core.redact import hide_secrets
from gpuprov.shapes.faults import Fault, find_faults
from gpuprov.shapes.mig import MigEntry, MigFile
from gpuprov.shapes.written import Manner, read_yaml
from gpuprov.spec.spec_error import SpecError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

CURRENT: Final = "current"  # as mig-parted names what it exports
_BYTES_MAX: Final = 2**20
_COMPUTE: Final = "c."  # within `1c.2g.10gb`, of a part with several compute instances
_FORM: Final = "gpuprov host mig export    # writes such a file"


@dataclass(frozen=True, kw_only=True)
class MigProfile:
    """A way to cut a part off a GPU.

    Attributes:
        id: By which NVML knows it.
        name: `1g.10gb`.
        slices: Of computing.
        most: How many of it there can be.
        places: Where one can begin and how long it is, in slices of memory; empty while MIG is off.
    """

    id: int
    name: str
    slices: int
    most: int
    places: tuple[tuple[int, int], ...]


@dataclass(frozen=True, kw_only=True)
class MigPart:
    """A GPU instance.

    Attributes:
        compute: Slices of each of its compute instances.
    """

    profile: str
    place: tuple[int, int]
    compute: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class MigGpu:
    """What MIG is on a GPU.

    Attributes:
        device_id: `0x233010DE`.
        enabled: None where the GPU has no MIG.
        pending: What it will be after the next reset.
        processes: Ids of those that use it.
    """

    index: int
    device_id: str
    model: str
    enabled: bool | None
    pending: bool | None
    profiles: tuple[MigProfile, ...]
    parts: tuple[MigPart, ...]
    processes: tuple[int, ...]

    @property
    def devices(self) -> dict[str, int]:
        """By profile how many devices there are, as mig-parted counts: `1c.2g.10gb` where a part is cut again."""
        slices = {profile.name: profile.slices for profile in self.profiles}
        named = [
            part.profile if one == slices[part.profile] else f"{one}{_COMPUTE}{part.profile}"
            for part in self.parts
            for one in part.compute
        ]
        return dict(sorted(Counter(named).items()))

    @property
    def whole(self) -> bool:
        """Whether each part can be computed with."""
        return all(part.compute for part in self.parts)


@dataclass(frozen=True, kw_only=True)
class MigWish:
    """How a GPU is to be."""

    enabled: bool
    devices: Mapping[str, int]

    def __str__(self) -> str:
        return describe(enabled=self.enabled, devices=self.devices)

    def is_met(self, gpu: MigGpu) -> bool:
        """Whether the GPU is so, and will be so after its next reset."""
        if not self.enabled:
            return not gpu.enabled and not gpu.pending
        return bool(gpu.enabled and gpu.pending) and gpu.whole and gpu.devices == dict(self.devices)


def describe(*, enabled: bool, devices: Mapping[str, int]) -> str:
    """`MIG on, 7 x 1g.10gb`."""
    parts = ", ".join(f"{count} x {name}" for name, count in devices.items())
    return f"MIG on, {parts or 'no devices'}" if enabled else "MIG off"


def read_mig_file(text: bytes, *, name: str) -> MigFile:
    """A file of mig-parted; `name` is what errors call it.

    Raises:
        SpecError: Listing all that is wrong.
    """
    if len(text) > _BYTES_MAX:
        raise _refused(name, [Fault(file=name, message=f"is longer than {_BYTES_MAX} bytes")])
    told, faults = read_yaml(text, file=name, manner=Manner(tag="the tag {tag} is not allowed"))
    if told is None:
        raise _refused(name, faults or [Fault(file=name, message="is empty", allowed="version: v1")])
    values, wrong = find_faults(MigFile, told, file=name, hide=hide_secrets)
    faults += wrong
    if not faults:
        faults += _find_contradictions(name, values["mig_configs"])
    if faults:
        raise _refused(name, faults)
    return MigFile(**values)


def _find_contradictions(name: str, configs: Mapping[str, Sequence[MigEntry]]) -> Iterator[Fault]:
    if not configs:
        yield Fault(file=name, where="mig-configs", message="is empty", allowed="at least one configuration")
    for label, entries in configs.items():
        if not entries:
            yield Fault(file=name, where=f"mig-configs.{label}", message="is empty", allowed="at least one entry")
        for number, entry in enumerate(entries):
            at = f"mig-configs.{label}[{number}]"
            if entry.mig_enabled and entry.mig_devices is UNSET:
                yield Fault(file=name, where=f"{at}.mig-devices", message="is missing", allowed="{} for none")
            if not entry.mig_enabled and any((_devices(entry)).values()):
                yield Fault(file=name, where=f"{at}.mig-devices", message="is not empty, and mig-enabled is false")
            cut = [profile for profile in _devices(entry) if _COMPUTE in profile]
            if cut:
                yield Fault(
                    file=name,
                    where=f"{at}.mig-devices",
                    message=f"{', '.join(cut)}: gpuprov does not cut parts into compute instances",
                    allowed="profiles such as 1g.10gb",
                )


def _refused(name: str, faults: Sequence[Fault]) -> SpecError:
    many = f"{len(faults)} problems" if len(faults) > 1 else "a problem"
    return SpecError(f"{many} in the MIG configuration {name}", problems=tuple(faults), fix=_FORM)


def choose_config(file: MigFile, wanted: str, *, name: str, again: str) -> tuple[str, tuple[MigEntry, ...]]:
    """The configuration of that name; where none is said, the only one.

    Args:
        file: With all of them.
        wanted: Its name; empty where none is said.
        name: Of the file.
        again: The command that asks for one, without the name of one.

    Raises:
        UsageError: There is no such one, or there are several and none is said.
    """
    configs = file.mig_configs
    if not wanted and len(configs) == 1:
        return next(iter(configs.items()))
    if wanted in configs:
        return wanted, configs[wanted]
    there = excerpt(", ".join(configs))
    choice = find_nearest(wanted, configs) or next(iter(configs), "")
    fix = f"{again} -c {quote(choice)}" if choice else _FORM
    if not wanted:
        raise UsageError(f"{name} has {len(configs)} configurations", evidence=there, fix=fix)
    raise UsageError(
        f"{name} has no configuration {excerpt(wanted)}",
        evidence=f"it has {there}{ask_back([wanted], configs)}",
        fix=fix,
    )


def wishes(entries: Sequence[MigEntry], gpus: Sequence[MigGpu], *, config: str) -> dict[int, MigWish]:
    """By index how each GPU is to be that the configuration is about.

    Raises:
        UsageError: It is about none of these GPUs, or wants two things of one.
    """
    found: dict[int, MigWish] = {}
    for entry in entries:
        wish = MigWish(enabled=entry.mig_enabled, devices=_devices(entry))
        for gpu in gpus:
            if not _is_about(entry, gpu):
                continue
            if found.setdefault(gpu.index, wish) != wish:
                raise UsageError(
                    f"configuration {config} wants two things of GPU {gpu.index}",
                    evidence=f"{found[gpu.index]}; {wish}",
                    fix="name each GPU in one entry: devices: [0], devices: [1, 2]",
                )
    if not found:
        models = ", ".join(f"{gpu.index} {gpu.device_id} {gpu.model}" for gpu in gpus)
        raise UsageError(f"configuration {config} is about no GPU of this host", evidence=models, fix=_FORM)
    return found


def _is_about(entry: MigEntry, gpu: MigGpu) -> bool:
    told = entry.device_filter
    filters = () if told is UNSET else (told,) if isinstance(told, str) else told
    if filters and gpu.device_id.lower() not in [one.lower() for one in filters]:
        return False
    return entry.devices == "all" or gpu.index in entry.devices


def _devices(entry: MigEntry) -> dict[str, int]:
    told = {} if entry.mig_devices is UNSET else entry.mig_devices
    return {profile: count for profile, count in sorted(told.items()) if count}


def find_differences(wanted: Mapping[int, MigWish], gpus: Sequence[MigGpu]) -> dict[int, str]:
    """By index, in words, what is not as it is wanted."""
    return {
        gpu.index: f"GPU {gpu.index}: {_describe_now(gpu)}; wanted: {wanted[gpu.index]}"
        for gpu in gpus
        if gpu.index in wanted and not wanted[gpu.index].is_met(gpu)
    }


def _describe_now(gpu: MigGpu) -> str:
    if gpu.enabled is None:
        return f"{gpu.model} has no MIG"
    later = "" if gpu.pending == gpu.enabled else f" until its next reset, then {'on' if gpu.pending else 'off'}"
    half = "" if gpu.whole else ", and parts that nothing can compute with"
    return f"{describe(enabled=gpu.enabled, devices=gpu.devices)}{later}{half}"


def place_parts(gpu: MigGpu, wish: MigWish) -> list[tuple[int, int, int]] | None:
    """Profile's id, beginning and length of each part that the wish has, the largest first; None while MIG is off.

    Raises:
        UsageError: The GPU has no such profile, or the parts do not fit on it.
    """
    known = {profile.name: profile for profile in gpu.profiles}
    unknown = [name for name in wish.devices if name not in known]
    if unknown:
        has = f"it has {', '.join(known)}" if known else "it has none"
        raise UsageError(
            f"GPU {gpu.index} has no MIG profile {', '.join(unknown)}",
            evidence=f"{gpu.model}: {has}",
            fix="correct mig-devices in the file; nvidia-smi mig -lgip lists profiles",
        )
    parts = [known[name] for name, count in wish.devices.items() for _ in range(count)]
    parts.sort(key=lambda profile: (-_length(profile), -profile.slices, profile.name))
    most = max((profile.slices for profile in gpu.profiles), default=0)
    too_many = sum(profile.slices for profile in parts) > most or any(
        count > known[name].most for name, count in wish.devices.items()
    )
    if not too_many and parts and not all(profile.places for profile in parts):
        return None
    placed = None if too_many else _fit(parts, frozenset())
    if placed is None:
        limits = ", ".join(f"{one.most} x {one.name}" for one in gpu.profiles)
        raise UsageError(
            f"GPU {gpu.index} has no room for {wish}",
            evidence=f"{gpu.model}: {most} slices; at most {limits}",
            fix="correct mig-devices in the file; nvidia-smi mig -lgip lists profiles",
        )
    return placed


def _length(profile: MigProfile) -> int:
    return max((size for _, size in profile.places), default=profile.slices)


def _fit(parts: Sequence[MigProfile], taken: frozenset[int]) -> list[tuple[int, int, int]] | None:
    """The first way to put all of them where nothing is; None where there is none."""
    if not parts:
        return []
    for start, size in parts[0].places:
        own = frozenset(range(start, start + size))
        if not own & taken:
            rest = _fit(parts[1:], taken | own)
            if rest is not None:
                return [(parts[0].id, start, size), *rest]
    return None


def export(gpus: Sequence[MigGpu]) -> MigFile:
    """What is there, as mig-parted writes it: GPUs that are alike are in one entry.

    Raises:
        HostNotReady: There is no GPU.
    """
    if not gpus:
        raise HostNotReady("there is no GPU that MIG could cut", evidence="NVML lists none", fix="nvidia-smi -L")
    alike: dict[tuple[bool, tuple[tuple[str, int], ...]], list[MigGpu]] = {}
    for gpu in gpus:
        alike.setdefault((bool(gpu.enabled), tuple(gpu.devices.items())), []).append(gpu)
    return MigFile(
        version="v1",
        mig_configs={
            CURRENT: tuple(
                MigEntry(
                    devices="all" if len(alike) == 1 else tuple(gpu.index for gpu in found),
                    mig_enabled=enabled,
                    mig_devices=dict(devices),
                )
                for (enabled, devices), found in alike.items()
            )
        },
    )
