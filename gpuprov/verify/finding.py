"""Short ways to say what a check found."""

from __future__ import annotations

from gpuprov.verify.models import Finding


def passed(evidence: str) -> Finding:
    """It is as it must be."""
    return Finding(status="pass", evidence=evidence)


def failed(evidence: str, fix: str = "", **known: object) -> Finding:
    """It is not; `fix` names a situation of the catalogue."""
    return Finding(status="fail", evidence=evidence, fix=fix, known=known)


def warned(evidence: str, fix: str = "", **known: object) -> Finding:
    """It is worth a look, but no failure."""
    return Finding(status="warn", evidence=evidence, fix=fix, known=known)


def unknown(evidence: str, fix: str = "", **known: object) -> Finding:
    """It could not be found out; the node does not pass."""
    return Finding(status="unknown", evidence=evidence, fix=fix, known=known)


def not_asked(reason: str) -> Finding:
    """The check does not apply to this node."""
    return Finding(status="skip", evidence=reason)
