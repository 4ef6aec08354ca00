"""What an examination of the host finds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

FindingStatus = Literal["ok", "info", "warn", "fail"]


@dataclass(frozen=True, kw_only=True)
class HostFinding:
    """One thing seen; `fail` means that nodes cannot be made until it is fixed."""

    id: str
    status: FindingStatus
    evidence: str
    fix: str = ""
