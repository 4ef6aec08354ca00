"""What `make gpu-proof` writes: everything that only a machine with a GPU can show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, Literal

from msgspec import UNSET, Meta, UnsetType

from gpuprov.shapes import record
from gpuprov.shapes.base import Record, Shape, Version
from gpuprov.shapes.choices import AccessName, Engine
from gpuprov.shapes.doctor import Doctor
from gpuprov.shapes.verify import Check, Measured, Verdict
from gpuprov.shapes.watch import Change
from gpuprov.shapes.words import Count, Seconds

Text = Annotated[str, Meta(min_length=1)]
PartName = Literal["host", "container", "node", "record", "doctor", "watch", "loaded", "tests"]
_LOOKED: Final = {"why", "checks"}
_NEEDS: Final[Mapping[str, set[str]]] = {
    "host": _LOOKED,
    "container": _LOOKED,
    "node": _LOOKED,
    "record": {"why", "machine", "record"},
    "doctor": {"lacking", "doctor"},
    "watch": {"why", "seconds", "rounds", "look_seconds", "verdict", "changes"},
    "loaded": {"why", "device", "frames", "kernels"},
    "tests": {"why", "counts", "said"},
}
_MAY: Final[Mapping[str, set[str]]] = {
    "host": {"verdict", "access", "gpus", "counts"},
    "container": {"verdict", "access", "gpus", "counts"},
    "node": {"verdict", "engine", "role", "up", "measured"},
}


def _keys_of(part: str) -> dict[str, Any]:
    """What JSON Schema says of the keys of a part."""
    every = {key for keys in (*_NEEDS.values(), *_MAY.values()) for key in keys}
    others = sorted(every - _NEEDS[part] - _MAY.get(part, set()))
    there = {"required": sorted(_NEEDS[part]), "properties": dict.fromkeys(others, False)}
    return {"if": {"properties": {"part": {"const": part}}}, "then": there}


class ProvingMachine(Shape, frozen=True, kw_only=True):
    """What runs the proof.

    Attributes:
        packages: Versions of the packages that the kernels need, of those that are there.
    """

    python: str
    executable: str
    processors: int | None
    root: bool
    cuda_home: str
    packages: Mapping[str, str]


class LookSeconds(Shape, frozen=True, kw_only=True):
    """How long one look at the GPUs took."""

    least: Seconds
    most: Seconds


class LoadedKernel(Shape, frozen=True, kw_only=True):
    """What the driver says of a kernel."""

    registers: Count
    local_bytes: Count
    shared_bytes: Count
    most_threads: Count
    cooperative: bool
    blocks_at_once: Count


class GpuProofPart(Record, frozen=True, kw_only=True, tag="gpuprov.gpu-proof-part/v1"):
    """What `python3 -m benchmarks.gpu_proof.part NAME` prints: the result of one part of the GPU proof.

    Attributes:
        passed: Null where it could not be judged, or could not be run here.
        why: What went wrong, or was lacking.
        verdict: Of host, container, node and watch; null where no node could be verified.
        access: Of host and container, as `gpus` and `counts`.
        gpus: UUIDs.
        counts: Number of checks by status; of the part `tests`, number of tests by outcome.
        checks: As `gpuprov verify` tells them; none where it did not come so far.
        engine: Of the part `node`, as `role`, `up` and `measured`.
        up: What `cluster up` printed, as cluster-up.schema.json says; empty where that was no document.
        machine: Of the part `record`, as `record`.
        lacking: Of the part `doctor`: ids of findings that fail; no failure of a GPU.
        seconds: Of the part `watch`, as `rounds`, `look_seconds` and `changes`.
        device: Of the part `loaded`: as in smoke.schema.json, with what a cooperative launch needs.
        frames: Kernels whose local memory need not be spilled registers.
        kernels: By name.
        said: What pytest says of tests that did not pass.
    """

    held_to: ClassVar[Mapping[str, Any]] = {"allOf": [_keys_of(part) for part in _NEEDS]}
    version: Version | UnsetType = UNSET  # type: ignore[assignment]
    part: PartName
    passed: bool | None
    why: str | UnsetType = UNSET
    verdict: Verdict | UnsetType | None = UNSET
    access: AccessName | UnsetType = UNSET
    gpus: tuple[str, ...] | UnsetType = UNSET
    counts: Mapping[str, Count] | UnsetType = UNSET
    checks: tuple[Check, ...] | UnsetType = UNSET
    engine: Engine | UnsetType = UNSET
    role: Text | UnsetType = UNSET
    up: Mapping[str, Any] | UnsetType = UNSET
    measured: Measured | UnsetType | None = UNSET
    machine: ProvingMachine | UnsetType = UNSET
    record: record.Record | UnsetType = UNSET
    lacking: tuple[str, ...] | UnsetType = UNSET
    doctor: Doctor | UnsetType = UNSET
    seconds: Seconds | UnsetType = UNSET
    rounds: Annotated[int, Meta(ge=1)] | UnsetType = UNSET
    look_seconds: LookSeconds | UnsetType = UNSET
    changes: tuple[Change, ...] | UnsetType = UNSET
    device: Mapping[str, str | int | bool | tuple[Any, ...] | None] | UnsetType = UNSET
    frames: tuple[str, ...] | UnsetType = UNSET
    kernels: Mapping[str, LoadedKernel] | UnsetType = UNSET
    said: tuple[str, ...] | UnsetType = UNSET

    def __post_init__(self) -> None:
        """Refuse keys of another part, and a lack of its own."""
        there = {name for name in self.__struct_fields__ if getattr(self, name) is not UNSET}
        there -= {"version", "part", "passed"}
        needs = _NEEDS[self.part]
        if lacks := needs - there:
            raise ValueError(f"the part {self.part} lacks {', '.join(sorted(lacks))}")
        if others := there - needs - _MAY.get(self.part, set()):
            raise ValueError(f"the part {self.part} has no {', '.join(sorted(others))}")


class PartOfProof(Shape, frozen=True, kw_only=True):
    """One part, and how it ended.

    Attributes:
        document: What it printed; null where that is no result.
    """

    held_to: ClassVar[Mapping[str, Any]] = {
        "allOf": [
            {
                "properties": {
                    "document": {
                        "anyOf": [
                            {"type": "null"},
                            *({"$ref": f"{name}.schema.json"} for name in ("gpu-proof-part", "smoke", "kernel-rates")),
                        ]
                    }
                }
            }
        ]
    }
    name: Text
    title: Text
    status: Literal["passed", "failed", "unknown", "not run"]
    why: str
    seconds: Seconds
    document: Mapping[str, Any] | None


class GpuProof(Record, frozen=True, kw_only=True, tag="gpuprov.gpu-proof/v1"):
    """What `make gpu-proof` writes as gpu-proof.json; docs/gpu-proof.md explains it. It names no host: it can be sent.

    Attributes:
        gpuprov: Version of gpuprov.
        passed: Whether a part passed and none failed.
        not_run: Part to reason.
        unknown: Part to reason.
    """

    version: Version | UnsetType = UNSET  # type: ignore[assignment]
    gpuprov: str
    simulated: bool
    passed: bool
    seconds: Seconds
    parts: tuple[PartOfProof, ...]
    not_run: Mapping[str, str]
    unknown: Mapping[str, str]
