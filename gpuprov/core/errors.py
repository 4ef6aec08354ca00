"""Errors in three parts: what failed, the evidence, and the next command to type."""

from __future__ import annotations

from gpuprov.core.excerpt import shorten
from gpuprov.core.printable import continued


class GpuprovError(Exception):
    """Base of every error a user may see; what it quotes may be of any length, and is shortened here.

    Attributes:
        what: What failed, in one line.
        evidence: The facts that show it (an engine's answer, a path, a value); may span lines.
        fix: What to do next, including the command to type.
        exit_code: Process exit status, as documented in docs/commands.md.
    """

    exit_code = 1

    def __init__(self, what: str, *, evidence: str = "", fix: str = "") -> None:
        super().__init__(shorten(what))
        self.what = shorten(what)
        self.evidence = shorten(evidence)
        self.fix = shorten(fix)

    def __str__(self) -> str:
        lines = [self.what]
        if self.evidence:
            lines.append(f"evidence: {self.evidence}")
        if self.fix:
            lines.append(f"fix: {self.fix}")
        return "\n".join(map(continued, lines))


class ProgramFailed(GpuprovError):
    """A program of the user's failed, or cannot be built."""


class UsageError(GpuprovError):
    """The command line is invalid."""

    exit_code = 2


class HostNotReady(GpuprovError):
    """The host lacks something that a node needs."""

    exit_code = 3


class Unreachable(HostNotReady):
    """A host does not let gpuprov in over ssh, or does not answer."""


class NoEngine(HostNotReady):
    """A host has no engine for what is new; those that it has answer, and have nothing of the same name."""


class NotAllowed(HostNotReady):
    """This user may not use an engine that is there."""


class EngineError(GpuprovError):
    """The container engine refused, failed or went away."""

    exit_code = 4


class NotOurs(EngineError):
    """The name belongs to something that gpuprov did not create."""


class PlaybookError(GpuprovError):
    """An Ansible play failed."""

    exit_code = 5


class TimedOut(GpuprovError):
    """A wait ran out of time; the evidence holds the last state seen."""

    exit_code = 6


class PartDone(GpuprovError):
    """Some hosts answered and some did not, or failed; the result is that of the others."""

    exit_code = 7
