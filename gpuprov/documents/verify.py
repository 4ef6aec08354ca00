"""`verify`: a report; docs/verify.md describes it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from gpuprov.documents.envelope import document

if TYPE_CHECKING:
    from gpuprov.verify.measured import Measured
    from gpuprov.verify.models import Check, NodeReport, Report


def verify_document(report: Report) -> dict[str, Any]:
    """A report; its key `host`, or `hosts` over several, holds the checks of the host; each place names its host."""
    told = document(
        "verify",
        cluster=report.cluster,
        level=report.level,
        verdict=report.verdict,
        passed=report.passed,
        simulated=report.simulated,
        duration_s=round(report.seconds, 3),
        host=_place_document(report.host) if report.host else None,
        nodes=[_place_document(node) for node in report.nodes],
    )
    return {**told, "hosts": [_place_document(host) for host in report.hosts]} if report.hosts else told


def _place_document(node: NodeReport) -> dict[str, Any]:
    return {
        "node": node.node,
        "host": node.host,
        "verdict": node.verdict,
        "simulated": node.simulated,
        "access": node.access,
        "gpus": list(node.gpus),
        "duration_s": round(node.seconds, 3),
        "counts": {status: node.counts.get(status, 0) for status in ("pass", "warn", "fail", "skip", "unknown")},
        "first_problem": node.first_problem.id if node.first_problem else None,
        "checks": [check_document(check) for check in node.checks],
        "measured": measured_document(node.measured) if node.measured else None,
    }


def check_document(check: Check) -> dict[str, Any]:
    """One check that was asked."""
    return {
        "id": check.id,
        "layer": check.layer,
        "status": check.status,
        "severity": check.severity,
        "evidence": check.evidence,
        "fix": check.fix or None,
        "cause": check.cause or None,
    }


def measured_document(measured: Measured) -> dict[str, Any]:
    """What was measured in a node while its kernels ran."""
    return {
        "runs": [asdict(run) for run in measured.runs],
        "rates": [asdict(rate) for rate in measured.rates],
        "gpus": [asdict(gpu) | {"samples": [asdict(sample) for sample in gpu.samples]} for gpu in measured.gpus],
        "problem": measured.problem or None,
    }
