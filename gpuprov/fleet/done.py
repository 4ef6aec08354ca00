"""What came of verbs, on one host or several."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpuprov.core.rollback import AGAIN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.core.errors import GpuprovError
    from gpuprov.core.outcome import Outcome
    from gpuprov.shapes.cluster_spec import ClusterSpec
    from gpuprov.shapes.nodes import NodeRow
    from gpuprov.shapes.verify import Report


@dataclass(frozen=True, kw_only=True)
class Done:
    """What was done, and why hosts did not do their part.

    Attributes:
        asked: How many hosts were to.
        lack: What it means that some did not.
    """

    outcome: Outcome
    failed: Mapping[str, GpuprovError] = field(default_factory=dict)
    asked: int = 1
    lack: str = ""

    @property
    def error(self) -> GpuprovError | None:
        """That of the hosts that did not; None where all did."""
        return _error(self.failed, asked=max(self.asked, len(self.failed)), lack=self.lack)


@dataclass(frozen=True, kw_only=True)
class VerifiedHosts:
    """What was found, and why hosts were not asked or did not answer; their nodes are `unknown`.

    Attributes:
        asked: How many hosts the report is about.
        notes: What is to be said of nodes that is no fault.
    """

    report: Report
    failed: Mapping[str, GpuprovError]
    asked: int
    notes: tuple[str, ...] = ()

    @property
    def error(self) -> GpuprovError | None:
        """That of the hosts that did not answer."""
        return _error(self.failed, asked=self.asked, lack="nodes on these hosts were not verified")


@dataclass(frozen=True, kw_only=True)
class BroughtUp:
    """What was done.

    Attributes:
        spec: What was asked for; over hosts, with all that was left open filled in.
        rows: The nodes of all hosts.
        report: What `verify` says; None where it was not asked, or nothing but the record was changed.
        before: The nodes as they were, where that was asked.
        failed: Hosts that did not do their part, and why.
        away: Since when hosts are unreachable.
        lost_service: What `tell_lost_service` says.
    """

    outcome: Outcome
    spec: ClusterSpec
    rows: tuple[NodeRow, ...]
    report: Report | None = None
    before: tuple[NodeRow, ...] = ()
    failed: Mapping[str, GpuprovError] = field(default_factory=dict)
    away: Mapping[str, str] = field(default_factory=dict)
    lost_service: str = ""

    @property
    def passed(self) -> bool:
        """Whether `verify` found nothing wrong."""
        return self.report is None or self.report.passed

    @property
    def error(self) -> GpuprovError | None:
        """That of the hosts that did not do their part."""
        asked, lack = len(self.spec.hosts), "hosts did not do their part"
        error = _error(self.failed, asked=asked, lack=lack, besides=self.lost_service)
        if error is None:
            return None
        fix = error.fix if AGAIN in error.fix else f"{error.fix}; then {AGAIN}"
        return type(error)(error.what, evidence=error.evidence, fix=fix)


@dataclass(frozen=True, kw_only=True)
class PlannedUp:
    """What would be done; over hosts, each line with its host.

    Attributes:
        lines: One for each change.
        kept: Nodes that would stay though the spec does not have them, one line for each.
        older: Nodes that would keep an older image, and what it lacks.
        unlimited: Nodes that would stay without limits of processes and memory.
        shared: That nodes would share GPUs, in words; empty where each would have its own.
        before: The nodes as they are, where that was asked.
        failed: Hosts that do not answer, and why.
        busy: Why it would be refused, where jobs would end that nobody has said are to.
    """

    lines: tuple[str, ...]
    spec: ClusterSpec
    kept: tuple[str, ...] = ()
    older: tuple[str, ...] = ()
    unlimited: tuple[str, ...] = ()
    shared: str = ""
    before: tuple[NodeRow, ...] = ()
    failed: Mapping[str, GpuprovError] = field(default_factory=dict)
    busy: GpuprovError | None = None

    @property
    def error(self) -> GpuprovError | None:
        """That of jobs, or of the hosts that did not answer."""
        return self.busy or _error(self.failed, asked=len(self.spec.hosts))


def _error(failed: Mapping[str, GpuprovError], *, asked: int, lack: str = "", besides: str = "") -> GpuprovError | None:
    if not failed:
        return None
    from gpuprov.link.several import part_error  # which loads much

    return part_error(failed, of=asked, what=lack, besides=besides)
