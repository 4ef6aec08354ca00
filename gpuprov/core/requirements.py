"""What each role needs of a host: one table (requirements.json), shown by `doctor` and held against the host."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_NUMBERS: Final = re.compile(r"\D{0,40}(\d{1,18}(?:\.\d{1,18}){0,9})", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class Requirement:
    """What one role needs; None where it does not ask.

    Attributes:
        role: Name of the role, or `smoke`: the kernels alone, without an engine.
        kernel: The least Linux.
        engine: The least version of each engine.
        cuda: The least CUDA major that the driver must have, where the GPU is real.
        driver: The least driver of that CUDA major.
        compute_capability: The least that packages of that CUDA major compile for.
        why: Where the numbers are from.
    """

    role: str
    kernel: str | None
    engine: Mapping[str, str] | None
    cuda: int | None
    driver: str | None
    compute_capability: str | None
    why: str


@dataclass(frozen=True, kw_only=True)
class Cuda:
    """What Python packages of one CUDA major need.

    Attributes:
        driver: The first driver that runs their programs.
        compiled_for: Compute capabilities that the smoke kernels are compiled and checked for, the least first.
    """

    driver: str
    compiled_for: tuple[str, ...]

    @property
    def compute_capability(self) -> str:
        """The least that they compile for."""
        return self.compiled_for[0]


@cache
def load_cuda() -> Mapping[int, Cuda]:
    """Every CUDA major that has packages; read once."""
    lines = _document()["cuda"].items()
    majors = {
        int(major): Cuda(driver=line["driver"], compiled_for=tuple(line["compiled_for"])) for major, line in lines
    }
    return MappingProxyType(majors)


@cache
def load_requirements() -> Mapping[str, Requirement]:
    """Every line of the table by its role; read once."""
    return MappingProxyType({role: _requirement(role, line) for role, line in _document()["roles"].items()})


def least_kernel() -> str:
    """The oldest Linux on which any node runs: a plain one needs the least."""
    return load_requirements()["plain"].kernel or "0"


def older(version: str, least: str) -> bool:
    """Whether a version of numbers and dots is older than another; one without numbers is not known to be."""
    from packaging.version import Version  # late, for the sake of `gpuprov --help`

    found = _NUMBERS.match(version)  # what follows the numbers is not compared
    return found is not None and Version(found[1]) < Version(least)


@cache
def _document() -> dict[str, Any]:
    text = (resources.files("gpuprov.core") / "requirements.json").read_text(encoding="utf-8")
    document: dict[str, Any] = json.loads(text)
    return document


def _requirement(role: str, line: Mapping[str, Any]) -> Requirement:
    cuda = load_cuda()[line["cuda"]] if line["cuda"] else None
    return Requirement(
        role=role,
        kernel=line["kernel"],
        engine=line["engine"],
        cuda=line["cuda"],
        driver=cuda.driver if cuda else None,
        compute_capability=cuda.compute_capability if cuda else None,
        why=line["why"],
    )
