"""Examine the host: for people (`gpuprov doctor`), and before anything is made (`cluster up`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.drivers.registry import open_driver
from gpuprov.spec.models import ClusterSpec
from gpuprov.workflows.host_facts import gather_facts
from gpuprov.workflows.host_findings import judge_host

if TYPE_CHECKING:
    from gpuprov.core.reporter import Reporter
    from gpuprov.workflows.finding import Finding


def examine_host(reporter: Reporter, *, spec: ClusterSpec | None = None) -> tuple[Finding, ...]:
    """Look at this machine as a host for a cluster (the default one); changes nothing and never fails."""
    wanted = spec or ClusterSpec()
    with reporter.phase("look at the host"):
        facts = gather_facts(lambda: open_driver(wanted.engine), gpu_mode=wanted.gpus.mode)
        return judge_host(facts, wanted)
