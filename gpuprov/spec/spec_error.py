"""What is wrong with a spec, as an error that tells all of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.core.errors import UsageError

if TYPE_CHECKING:
    from gpuprov.shapes.faults import Fault


class SpecError(UsageError):
    """A spec has problems; all of them are listed, not only the first."""

    def __init__(self, what: str, *, problems: tuple[Fault, ...], fix: str) -> None:
        super().__init__(what, evidence="\n".join(map(in_spec, problems)), fix=fix)
        self.problems = problems


def in_spec(fault: Fault) -> str:
    """A fault in one line: its key, and where that stands."""
    line = "" if fault.line is None else f"line {fault.line}: "
    tail = f" (allowed: {fault.allowed})" if fault.allowed else ""
    return f"{fault.where or fault.file}: {line}{fault.message}{tail}"
