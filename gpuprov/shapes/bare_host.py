"""What the program says that is sent to a host which may have Python alone."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from gpuprov.shapes.base import Shape

PythonVersion = Annotated[str, Meta(pattern=r"^([0-9]{1,2}\.[0-9]{1,3})?\Z")]  # it becomes part of paths


class BareFacts(Shape, frozen=True, kw_only=True):
    """What can be told of a host without gpuprov.

    Attributes:
        python: Such as `3.11`; empty where there is none.
        uid: Of the user there.
        system: Such as `Linux`.
        machine: Such as `x86_64`.
        free_bytes: Where gpuprov would be installed.
        clock_s: Its time, in seconds since 1970.
        installed: Which gpuprov it has; empty where it has none.
        foreign: Whether something else is in its place.
    """

    python: PythonVersion
    uid: int = 0
    system: str = ""
    machine: str = ""
    free_bytes: int = 0
    clock_s: float = 0.0
    installed: str = ""
    foreign: bool = False


class BareFailure(Shape, frozen=True, kw_only=True):
    """Why it did not do it."""

    what: str
    evidence: str
    fix: str


class BareLine(Shape, frozen=True, kw_only=True):
    """One line: a step, or the last one, which is one of the others.

    Attributes:
        python: Its version, where that is too old for the program; empty where there is none.
        done: The verb.
    """

    step: str | UnsetType = UNSET
    python: PythonVersion | UnsetType = UNSET
    facts: BareFacts | UnsetType = UNSET
    done: str | UnsetType = UNSET
    failed: BareFailure | UnsetType = UNSET
