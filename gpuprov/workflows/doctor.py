"""Examine the host: for people (`gpuprov doctor`), and before anything is made (`cluster up`)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gpuprov.core.errors import HostNotReady
from gpuprov.drivers.registry import open_driver
from gpuprov.spec.models import ClusterSpec
from gpuprov.workflows.host_facts import gather_facts
from gpuprov.workflows.host_findings import judge_host

if TYPE_CHECKING:
    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver
    from gpuprov.workflows.finding import Finding


def examine_host(reporter: Reporter, *, spec: ClusterSpec | None = None) -> tuple[Finding, ...]:
    """Look at this machine as a host for a cluster (the default one); changes nothing and never fails."""
    wanted = spec or ClusterSpec()
    with reporter.phase("look at the host"):
        facts = gather_facts(lambda: open_driver(wanted.engine), gpu_mode=wanted.gpus.mode)
        return judge_host(facts, wanted)


def check_host(driver: Driver, spec: ClusterSpec, *, reporter: Reporter, root: Path = Path("/")) -> None:
    """Prove that this host can carry the cluster, before anything is changed; what is only doubtful is a warning.

    Raises:
        HostNotReady: Something that nodes need is missing; the evidence and the fix name everything that is.
    """
    findings = judge_host(gather_facts(lambda: driver, gpu_mode=spec.gpus.mode, root=root), spec)
    for finding in findings:
        if finding.status == "warn":
            reporter.warn(f"{finding.evidence}; {finding.fix}")
    failed = [finding for finding in findings if finding.status == "fail"]
    if failed:
        raise HostNotReady(
            "this host is not ready for nodes",
            evidence="\n".join(f"{finding.id}: {finding.evidence}" for finding in failed),
            fix="\n".join(dict.fromkeys(finding.fix for finding in failed)),
        )
