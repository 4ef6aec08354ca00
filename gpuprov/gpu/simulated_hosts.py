"""The GPUs of a simulated host: of a kind that profiles.json names, or as another host was recorded."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gpuprov.core.errors import UsageError
from gpuprov.core.excerpt import excerpt
from gpuprov.core.nearest import ask_back, find_nearest
from gpuprov.gpu.pci import parse_pci
from gpuprov.gpu.simulate import SEED, Document, load_profiles, pci_address, simulated_gpu
from gpuprov.gpu.type_name import gpu_type

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpuprov.shapes.record import RecordedGpu

SIMULATED_MAX: Final = 64
SOCKETS: Final = {"h100x8": 2}  # of hosts whose GPUs are told to be near to some cores; all others have one
_USUAL: Final = ("h100-sxm-80gb",) * 4
_RECORD_BYTES_MAX: Final = 4 * 2**20
_MINORS: Final = 64  # those that nobody's GPU can have are used to try what is denied
_INSTANCES_MAX: Final = 7 * 7
_FIX: Final = "gpuprov gpus --gpu-profile {0}    # in every command: export GPUPROV_GPU_PROFILE={0}"
_SUCH: Final = "h100x8"


@dataclass(frozen=True, kw_only=True)
class SimulatedHost:
    """Which GPUs are to be simulated.

    Attributes:
        profile: Name of a kind of host, or path of the file that `gpuprov record` wrote; empty for the usual host.
        count: Number of GPUs, which begin anew with the first where the profile has fewer; None for the profile's own.
        seed: What their UUIDs begin with.
    """

    profile: str = ""
    count: int | None = None
    seed: str = SEED


def make_host(wanted: SimulatedHost, *, first_minor: int = 0) -> Document:
    """What the NVML of such a host answers; every model's name says that it is simulated.

    Raises:
        UsageError: There is no such profile, the file is no record of GPUs, or the number is out of range.
    """
    if wanted.count is not None and not 1 <= wanted.count <= SIMULATED_MAX:
        raise UsageError(
            f"cannot simulate {wanted.count} GPUs",
            evidence=f"allowed: 1 to {SIMULATED_MAX}",
            fix="export GPUPROV_SIMULATED_GPUS=4",
        )
    with resources.as_file(resources.files("gpuprov.gpu") / "profiles.json") as path:  # a copy, where we run from a zip
        profiles = load_profiles(path)
    driver, known = _find(wanted.profile, profiles)
    number = len(known) if wanted.count is None else wanted.count
    gpus = [
        simulated_gpu(model, index=index, minor=minor, seed=wanted.seed)
        for index, (model, minor) in enumerate(islice(_repeat(known, first_minor), number))
    ]
    return {**driver, "simulated": True, "gpus": gpus}


def _repeat(known: Sequence[Document], first_minor: int) -> Iterator[tuple[Document, int]]:
    """Each GPU with its minor, again and again; a repeated one has an address and a number of its own."""
    minors = [gpu.get("minor", number) for number, gpu in enumerate(known)]
    free = (minor for minor in count() if minor not in minors)
    for gpu, minor in zip(known, minors, strict=True):
        yield gpu, first_minor + minor
    taken = {gpu.get("pci") for gpu in known}
    addresses = filter(lambda pci: pci not in taken, map(pci_address, count(len(known))))
    for number in count():
        yield {**known[number % len(known)], "pci": next(addresses)}, first_minor + next(free)


def _find(profile: str, profiles: Document) -> tuple[Document, list[Document]]:
    """The driver of a profile, and what each of its GPUs answers."""
    hosts: dict[str, list[str]] = profiles["hosts"]
    if profile in hosts or not profile:
        return profiles["driver"], [profiles["gpus"][name] for name in hosts.get(profile, _USUAL)]
    if "/" in profile or Path(profile).suffix == ".json":
        return _read_record(Path(profile), profiles)
    raise UsageError(
        f"there is no GPU profile {excerpt(profile)}",
        evidence=f"profiles: {', '.join(hosts)}; or the file of a recorded host{ask_back([profile], hosts)}",
        fix=_FIX.format(find_nearest(profile, hosts) or _SUCH),
    )


def _read_record(path: Path, profiles: Document) -> tuple[Document, list[Document]]:
    from msgspec import UNSET

    from gpuprov.shapes.base import read
    from gpuprov.shapes.record import Record

    try:
        with path.open("rb") as file:
            nvml = read(Record, file.read(_RECORD_BYTES_MAX)).nvml  # one that is longer is cut off, and no record
    except (OSError, ValueError) as error:
        raise _refuse(path, excerpt(str(error))) from error
    if nvml is None or nvml.gpus is UNSET or not nvml.gpus:
        raise _refuse(path, "NVML listed no GPU on that host")
    wrong = _find_wrong(nvml.gpus)
    if wrong:
        raise _refuse(path, wrong)
    driver = dict(profiles["driver"])
    if nvml.driver_version is not UNSET:
        driver |= {"driver_version": nvml.driver_version, "nvml_version": nvml.driver_version}
    if nvml.cuda_driver_version is not UNSET:
        driver |= {"cuda_driver_version": nvml.cuda_driver_version}
    return driver, [_as_recorded(gpu, profiles) for gpu in nvml.gpus]


def _find_wrong(gpus: Sequence[RecordedGpu]) -> str:
    """Why such GPUs cannot be simulated; empty where they can."""
    from msgspec import UNSET

    if len(gpus) > SIMULATED_MAX:
        return f"it has {len(gpus)} GPUs; at most {SIMULATED_MAX} can be simulated"
    if len({gpu.minor for gpu in gpus}) < len(gpus) or max(gpu.minor for gpu in gpus) >= _MINORS:
        return f"minors of GPUs are distinct numbers below {_MINORS}"
    if any(parse_pci(gpu.pci) != gpu.pci for gpu in gpus):
        return "PCI addresses are like 0000:65:00.0"
    if any(gpu.mig is not UNSET and len(gpu.mig) > _INSTANCES_MAX for gpu in gpus):
        return f"a GPU has at most {_INSTANCES_MAX} MIG instances"
    return ""


def _as_recorded(gpu: RecordedGpu, profiles: Document) -> Document:
    """What is known of a recorded GPU, with the readings of an idle one of the same type, where we have them."""
    from msgspec import json

    kind = gpu_type(gpu.model)
    alike: Document = next((one for one in profiles["gpus"].values() if gpu_type(one["model"]) == kind), {})
    known: Document = {**json.decode(json.encode(gpu)), "answers": dict(alike.get("answers", {}))}
    if "mig" in known:
        known["answers"].pop("MigMode", None)  # that of an idle one is off
    return known | {"fields": alike.get("fields", {})}


def _refuse(path: Path, evidence: str) -> UsageError:
    return UsageError(f"{path} is no record of a host with GPUs", evidence=evidence, fix=_FIX.format(_SUCH))
