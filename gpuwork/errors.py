"""Errors for people: what failed, the evidence, what to type next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.shapes.error import ErrorParts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuprov.shapes.faults import Fault


class WorkError(Exception):
    """An error with its three parts and the exit code it ends a program with."""

    exit_code = 1

    def __init__(self, what: str, *, evidence: str, fix: str) -> None:
        """Keep the three parts apart, so that a caller can render each."""
        super().__init__(what)
        self.what = what
        self.evidence = evidence
        self.fix = fix

    @property
    def parts(self) -> ErrorParts:
        """The error in a document."""
        return ErrorParts(what=self.what, evidence=self.evidence, fix=self.fix, exit_code=self.exit_code)

    def __str__(self) -> str:
        lines = self.evidence.splitlines() or [""]
        return "\n".join([f"error: {self.what}", *(f"  {line}" for line in lines), f"  next: {self.fix}"])


class Refused(WorkError):
    """What was handed in cannot be run as it is; nothing was written."""

    exit_code = 2


class StoreError(WorkError):
    """The folder that holds runs cannot be read or written, or is not as it was left."""

    exit_code = 3


class HostLacks(WorkError):
    """This machine lacks what is needed."""

    exit_code = 3


class BatchError(WorkError):
    """What runs are handed to does not answer, or refused."""

    exit_code = 4


class SlurmError(BatchError):
    """Slurm does not answer, or refused."""


class BrokerError(BatchError):
    """The broker of the workers' queue does not answer, or refused."""


class TimedOut(WorkError):
    """What was waited for did not happen in time."""

    exit_code = 6


class Elsewhere(WorkError):
    """Another process is at this run; whoever started this one may try again later (EX_TEMPFAIL)."""

    exit_code = 75


def refusal(faults: Sequence[Fault], *, of: str, page: str) -> Refused:
    """All faults of what was handed in as one error; `page` of the docs says what would be right."""
    many = "a fault" if len(faults) == 1 else f"{len(faults)} faults"
    files = list(dict.fromkeys(fault.file for fault in faults))
    return Refused(
        f"{many} in {of}; nothing was written",
        evidence="\n".join(map(str, faults)),
        fix=f"correct {files[0] if len(files) == 1 else 'these'}; {page}",
    )


def shown(value: object, most: int) -> str:
    """The beginning of a value as Python writes it; its type where Python does not, as of a number too long."""
    try:
        return ascii(value)[:most]
    except (ValueError, RecursionError):
        return type(value).__name__
