#!/usr/bin/python
"""Ansible module: prove that nodes work."""

from __future__ import annotations

DOCUMENTATION = """
---
module: verify
short_description: Prove that nodes of gpuprov work
description:
    - Checks devices, NVML, kernels, networks and Slurm of nodes, as C(gpuprov verify) does; changes nothing.
    - Fails when something is wrong, and names the node, the first check that failed and the fix.
version_added: 0.1.0
author: gpuprov (@gpuprov)
options:
    nodes:
        description: V(all), or the nodes, such as V(c000), V(c[000-003]) or a list of them.
        type: list
        elements: str
        default: [all]
    level:
        description: How hard the kernels work.
        type: str
        choices: [quick, full]
        default: quick
    seconds:
        description: Keep each kernel busy so long. Only for O(level=full).
        type: float
    cluster:
        description: The cluster that the nodes are part of.
        type: str
        default: lab
attributes:
    check_mode:
        support: full
        description: Changes nothing, so it does the same in check mode.
    diff_mode:
        support: none
        description: There is nothing to show.
extends_documentation_fragment:
    - gpuprov.cluster.gpuprov
"""

EXAMPLES = """
- name: Every node works
  gpuprov.cluster.verify:
    nodes: all
    level: quick
  delegate_to: localhost
  run_once: true
"""

RETURN = """
report:
    description: The report, a document C(gpuprov.verify/v1); docs/verify.schema.json describes it.
    returned: when the nodes could be asked
    type: dict
passed:
    description: Whether every node passed.
    returned: when the nodes could be asked
    type: bool
"""

import platform
from typing import Any

from ansible_collections.gpuprov.cluster.plugins.module_utils.serve import ENGINE, Listener, Module, serve

ARGUMENTS: dict[str, Any] = {
    "nodes": {"type": "list", "elements": "str", "default": ["all"]},
    "level": {"type": "str", "choices": ["quick", "full"], "default": "quick"},
    "seconds": {"type": "float"},
    "cluster": {"type": "str", "default": "lab"},
    "engine": ENGINE,
}


def act(module: Module) -> dict[str, Any]:
    """Verify the nodes."""
    from gpuprov.cluster.find_engine import engine_of_cluster
    from gpuprov.core.names import check_cluster_name, expand
    from gpuprov.documents.verify import verify_document
    from gpuprov.drivers.registry import open_driver
    from gpuprov.host.gpus import observe_gpus
    from gpuprov.verify.report import problem_lines, summary
    from gpuprov.verify.request import Work
    from gpuprov.workflows.verify import HostSight, verify_cluster

    wanted = module.params
    check_cluster_name(wanted["cluster"])
    report = verify_cluster(
        open_driver(wanted["engine"]) if wanted["engine"] else engine_of_cluster(wanted["cluster"]),
        wanted["cluster"],
        host=HostSight(observe_gpus=observe_gpus),
        nodes=None if wanted["nodes"] == ["all"] else expand(",".join(wanted["nodes"])),
        reporter=Listener(module),
        work=Work(level=wanted["level"], seconds=wanted["seconds"]),
    )
    results = {"changed": False, "passed": report.passed, "report": verify_document(report, host=platform.node())}
    if report.passed:
        return {**results, "msg": summary(report)}
    failed = [node for node in report.nodes if node.first_problem is not None]
    parts = {
        "what": summary(report),
        "evidence": "\n".join(line for line in problem_lines(report) if not line.startswith("  fix")),
        "fix": failed[0].first_problem.fix if failed and failed[0].first_problem else "gpuprov verify",
    }
    words = f"{parts['what']}\nevidence: {parts['evidence']}\nfix: {parts['fix']}"
    return {**results, "failed": True, "msg": words, **parts}


def main() -> None:
    """Run the module."""
    module = Module(argument_spec=ARGUMENTS, supports_check_mode=True)
    if module.params["seconds"] is not None and module.params["level"] != "full":
        module.fail_json(msg="seconds is for the full level\nevidence: level is quick\nfix: set level: full")
    serve(module, lambda: act(module))


if __name__ == "__main__":
    main()
