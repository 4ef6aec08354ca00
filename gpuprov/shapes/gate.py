"""The runtime that gives GPUs to any container, as Docker has it."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, UnsetType

from gpuprov.shapes.base import Document, Shape
from gpuprov.shapes.gate_policy import GatePolicy
from gpuprov.shapes.words import Word, Words

GpusOption = Literal["works", "after a restart", "of NVIDIA", "absent"]


class GateContainer(Shape, frozen=True, kw_only=True):
    """A container that names the runtime.

    Attributes:
        gpus: UUIDs of the GPUs that it holds.
    """

    name: Word
    runtime: Word
    status: Word
    gpus: tuple[Word, ...] = ()


class GateCheck(Shape, frozen=True, kw_only=True):
    """One thing that has to hold for the runtime to work.

    Attributes:
        fix: What to type where it does not.
    """

    name: Word
    passed: bool
    evidence: Words
    fix: Words


class Gate(Document, frozen=True, kw_only=True, tag="gpuprov.gate/v1"):
    """The document of `gpuprov gate status --json`, and of `gate check`.

    Attributes:
        host: Name of the host.
        socket: Of the daemon.
        config: Its daemon.json.
        registered: Whether the running daemon knows the runtime.
        default: Whether it runs containers that name no runtime.
        program: The program; empty where there is none.
        current: Whether the program is that of this gpuprov.
        gpus_option: Whether `docker run --gpus` reaches the runtime.
        policy: What containers get and may not have; null without one.
        policy_fault: Why nobody can say what it is; empty otherwise.
        containers: Those that name the runtime, running or not.
        checks: There in `gate check`.
    """

    host: str
    socket: Word
    config: Word
    registered: bool
    default: bool
    program: str
    current: bool
    gpus_option: GpusOption
    policy: GatePolicy | None
    policy_fault: Words
    containers: tuple[GateContainer, ...]
    checks: tuple[GateCheck, ...] | UnsetType = UNSET


class GateStep(Shape, frozen=True, kw_only=True):
    """What the runtime does to a container.

    Attributes:
        rule: Its key in the policy; `gpus` for what is leased.
        refused: Whether the container is not started for it.
    """

    rule: Word
    what: Words
    refused: bool


class GateExplanation(Document, frozen=True, kw_only=True, tag="gpuprov.gate-explanation/v1"):
    """The document of `gpuprov gate explain`.

    Attributes:
        host: Name of the host.
        runtime: With which Docker starts the container.
        registered: Whether Docker knows the gate's.
        passes: Whether it is the gate's.
        touched: Whether the policy is about it.
        starts: Whether nothing refuses it; null where another runtime has to say.
        left: What only a start shows.
    """

    host: str
    runtime: Word
    registered: bool
    passes: bool
    touched: bool
    starts: bool | None
    steps: tuple[GateStep, ...]
    left: tuple[Words, ...]
