"""Errors for people: what failed, the evidence, what to do next."""

from __future__ import annotations


class SmokeError(Exception):
    """An error with its three parts and the exit code it ends the program with."""

    exit_code = 1

    def __init__(self, what: str, *, evidence: str, remedy: str) -> None:
        """Keep the three parts apart, so that a caller can render each."""
        super().__init__(what)
        self.what = what
        self.evidence = evidence
        self.remedy = remedy

    def to_json(self) -> dict[str, str]:
        """Return the parts under the names the JSON document uses."""
        return {"what": self.what, "evidence": self.evidence, "remedy": self.remedy}


class KernelError(SmokeError):
    """A kernel could not be run to its end."""

    exit_code = 1


class UsageError(SmokeError):
    """An argument that no kernel can take."""

    exit_code = 2


class DeviceError(SmokeError):
    """No GPU that kernels can run on."""

    exit_code = 3
