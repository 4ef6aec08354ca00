"""What each role needs of a host: one table (requirements.json), shown by `doctor` and held against the host."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, kw_only=True)
class Requirement:
    """What one role needs; None where it does not ask.

    Attributes:
        role: Name of the role, or `smoke`: the kernels alone, without an engine.
        kernel: The least Linux.
        engine: The least version of each engine.
        cuda: The least CUDA major that the driver must have, where the GPU is real.
        driver: The least driver of that CUDA major.
        compute_capability: The least, where the GPU is real.
        why: Where the numbers are from.
    """

    role: str
    kernel: str | None
    engine: Mapping[str, str] | None
    cuda: int | None
    driver: str | None
    compute_capability: str | None
    why: str


@cache
def load_requirements() -> Mapping[str, Requirement]:
    """Every line of the table by its role; read once."""
    document = _document()
    return MappingProxyType({role: _requirement(role, line, document) for role, line in document["roles"].items()})


def driver_for_cuda(major: int) -> str | None:
    """The first driver that runs programs of this CUDA major; None where the table does not know it."""
    line = _document()["cuda_driver"].get(str(major))
    return str(line["driver"]) if line else None


def older(version: str, least: str) -> bool:
    """Whether a version of numbers and dots is older than another; one without numbers is not known to be."""
    numbers = _numbers(version)  # what follows the numbers is not compared
    return bool(numbers) and numbers < _numbers(least)


def _numbers(version: str) -> tuple[int, ...]:
    found = re.match(r"\D*([\d.]*)", version)
    return tuple(int(part) for part in (found[1] if found else "").split(".") if part)


@cache
def _document() -> dict[str, Any]:
    text = (resources.files("gpuprov.core") / "requirements.json").read_text(encoding="utf-8")
    document: dict[str, Any] = json.loads(text)
    return document


def _requirement(role: str, line: Mapping[str, Any], document: Mapping[str, Any]) -> Requirement:
    cuda = line["cuda"]
    return Requirement(
        role=role,
        kernel=line["kernel"],
        engine=line["engine"],
        cuda=cuda,
        driver=document["cuda_driver"][str(cuda)]["driver"] if cuda else None,
        compute_capability=line["compute_capability"],
        why=line["why"],
    )
