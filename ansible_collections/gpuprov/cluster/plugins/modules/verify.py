#!/usr/bin/python
"""Ansible module: prove that nodes work."""

from __future__ import annotations

DOCUMENTATION = """
---
module: verify
short_description: Verify that gpuprov nodes work
description:
    - Checks devices, NVML, kernels, networks and Slurm of nodes, as C(gpuprov verify) does; changes nothing.
    - Fails if a check fails, and names the node, the first failed check and the fix.
version_added: 0.1.0
author: gpuprov (@gpuprov)
options:
    nodes:
        description: V(all), or a list of nodes or node sets, such as V(c000) or V(c[000-003]).
        type: list
        elements: str
        default: [all]
    level:
        description: Extent of the checks.
        type: str
        choices: [quick, full]
        default: quick
    seconds:
        description: Run each kernel for this many seconds. Only for O(level=full).
        type: float
    cluster:
        description: The cluster of the nodes.
        type: str
        default: lab
attributes:
    check_mode:
        support: full
        description: Changes nothing, so check mode makes no difference.
    diff_mode:
        support: none
        description: There are no changes to show.
extends_documentation_fragment:
    - gpuprov.cluster.gpuprov
"""

EXAMPLES = """
- name: Verify every node
  gpuprov.cluster.verify:
    nodes: all
    level: quick
  delegate_to: localhost
  run_once: true
"""

RETURN = """
report:
    description: The report, a document C(gpuprov.verify/v1); docs/verify.schema.json describes it.
    returned: when the nodes could be checked
    type: dict
passed:
    description: Whether every node passed.
    returned: when the nodes could be checked
    type: bool
"""

from typing import Any

from ansible_collections.gpuprov.cluster.plugins.module_utils.serve import (
    ENGINE,
    Module,
    failed_verification,
    fleet_of,
    serve,
)

ARGUMENTS: dict[str, Any] = {
    "nodes": {"type": "list", "elements": "str", "default": ["all"]},
    "level": {"type": "str", "choices": ["quick", "full"], "default": "quick"},
    "seconds": {"type": "float"},
    "cluster": {"type": "str", "default": "lab"},
    "engine": ENGINE,
}


def act(module: Module) -> dict[str, Any]:
    """Verify the nodes."""
    from gpuprov.core.names import check_cluster_name, expand_names
    from gpuprov.shapes.base import write
    from gpuprov.stories.verify import verify_nodes
    from gpuprov.verify.report import summary
    from gpuprov.verify.request import Work

    wanted = module.params
    cluster = check_cluster_name(wanted["cluster"])
    nodes = None if wanted["nodes"] == ["all"] else expand_names(",".join(wanted["nodes"]))
    work = Work(level=wanted["level"], seconds=wanted["seconds"])
    report = verify_nodes(fleet_of(module, wanted["engine"]), cluster, nodes, work).report
    results = {"changed": False, "passed": report.passed, "report": write(report)}
    if report.passed:
        return {**results, "msg": summary(report)}
    return {**results, **failed_verification(report)}


def main() -> None:
    """Run the module."""
    module = Module(argument_spec=ARGUMENTS, supports_check_mode=True)
    if module.params["seconds"] is not None and module.params["level"] != "full":
        module.fail_json(msg="seconds is for the full level\nevidence: level is quick\nfix: set level: full")
    serve(module, lambda: act(module))


if __name__ == "__main__":
    main()
