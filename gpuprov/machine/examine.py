"""Examine the host, for people (`gpuprov doctor`) and for bug reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.machine.facts import gather_facts
from gpuprov.machine.findings import judge_engines, judge_facts
from gpuprov.machine.role_needs import compare_roles, judge_roles
from gpuprov.machine.survey import survey
from gpuprov.shapes.cluster_spec import ClusterSpec
from gpuprov.shapes.doctor import Doctor

if TYPE_CHECKING:
    from gpuprov.core.reporter import Reporter
    from gpuprov.machine.base import Host


def examine_host(host: Host, reporter: Reporter, *, spec: ClusterSpec | None = None) -> Doctor:
    """Look at a machine as a host for a cluster (the default one); changes nothing and never fails."""
    wanted = spec or ClusterSpec()
    with reporter.phase("examine the host"):
        facts = gather_facts(host, wanted.engine, gpu_mode=wanted.gpus.mode)
        needs = compare_roles(facts)
        engines = judge_engines(survey(host.engines, lambda driver: driver.name), wanted.engine)
        role = judge_roles(needs, wanted.nodes.role)
        return Doctor(host=host.name, findings=(engines, *judge_facts(facts, wanted), role), roles=needs)
