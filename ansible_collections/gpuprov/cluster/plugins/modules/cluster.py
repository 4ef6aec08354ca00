#!/usr/bin/python
"""Ansible module: one cluster."""

from __future__ import annotations

DOCUMENTATION = """
---
module: cluster
short_description: Create, grow, shrink, repair or remove a gpuprov cluster
description:
    - Brings a cluster to a state, as C(gpuprov cluster up) and C(gpuprov cluster down) do.
    - A cluster that spans hosts is brought to it from the controller, by its inventory of hosts and over ssh. A host
      that does not do its part fails the module; what the others did stays.
    - Starts from the file, or else from the spec recorded with the cluster; the other options override it.
    - Nothing is asked. Nodes that are too many are removed with their data, as with O(state=absent), unless jobs run.
version_added: 0.1.0
author: gpuprov (@gpuprov)
options:
    name:
        description: Name of the cluster. The default is the file's name, or V(lab).
        type: str
    state:
        description: V(absent) removes its nodes and their data, its networks and keys. Images are kept.
        type: str
        choices: [present, absent]
        default: present
    file:
        description: A spec file, C(gpuprov/v1) YAML, on the machine that runs the module.
        type: path
    count:
        description: Number of nodes.
        type: int
    role:
        description: Purpose of the new nodes.
        type: str
        choices: [plain, slurm, worker]
    gpus_per_node:
        description: Number of GPUs for each node.
        type: int
    sharing:
        description: Whether other nodes may hold the same GPUs.
        type: str
        choices: [shared, exclusive]
    bridge:
        description: Bridge of the NAT network of a new cluster. The default is a free one.
        type: str
    subnet:
        description: Subnet of that network, such as V(10.9.3.0/24). The default is a free one.
        type: str
    share:
        description:
            - The folder of the host that the Slurm nodes share as C(/shared).
            - V(true) for C(/srv/gpuprov/NAME), V(false) for none.
        type: str
    verify:
        description:
            - Whether to prove the nodes once they are up, if anything was changed, as C(gpuprov cluster up) does.
            - The module fails where a check fails.
        type: bool
        default: false
    prune:
        description:
            - Whether to also remove nodes that the spec does not have and that M(gpuprov.cluster.node),
              C(gpuprov create-node) or C(gpuprov clone) added. They stay by default.
        type: bool
        default: false
extends_documentation_fragment:
    - gpuprov.cluster.gpuprov
    - gpuprov.cluster.gpuprov.gpu_criteria
    - gpuprov.cluster.gpuprov.gpu_mode
    - gpuprov.cluster.gpuprov.force
    - gpuprov.cluster.gpuprov.changes
seealso:
    - module: gpuprov.cluster.node
    - module: gpuprov.cluster.verify
"""

EXAMPLES = """
- name: Four nodes
  gpuprov.cluster.cluster:
    name: lab
    count: 4
    state: present
  delegate_to: localhost

- name: The same from a file
  gpuprov.cluster.cluster:
    file: /etc/gpuprov/lab.yaml
  delegate_to: localhost
"""

RETURN = """
changes:
    description: One line for each change, or in check mode for each change that would be made.
    returned: success
    type: list
    elements: str
    sample: ["create node c003 10.0.3.5 role slurm, 1 GPU shared (raw)"]
nodes:
    description:
        - The nodes after the changes; in check mode, before.
        - Each has the format that M(gpuprov.cluster.node) returns.
    returned: success
    type: list
    elements: dict
verify:
    description: The report, as M(gpuprov.cluster.verify) returns it.
    returned: if O(verify=true) and something was changed
    type: dict
"""

from pathlib import Path
from typing import Any

from ansible_collections.gpuprov.cluster.plugins.module_utils.serve import (
    ENGINE,
    FORCE,
    GPU_CRITERIA,
    GPU_MODE,
    ROLE,
    Module,
    asked_gpus,
    failed_verification,
    fleet_of,
    present,
    serve,
)

ARGUMENTS: dict[str, Any] = {
    "name": {"type": "str"},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "file": {"type": "path"},
    "count": {"type": "int"},
    "role": ROLE,
    "gpus_per_node": {"type": "int"},
    "sharing": {"type": "str", "choices": ["shared", "exclusive"]},
    **GPU_CRITERIA,
    "bridge": {"type": "str"},
    "subnet": {"type": "str"},
    "share": {"type": "str"},
    "engine": ENGINE,
    "gpu_mode": GPU_MODE,
    "force": FORCE,
    "verify": {"type": "bool", "default": False},
    "prune": {"type": "bool", "default": False},
}


def act(module: Module) -> dict[str, Any]:
    """Bring the cluster to its state."""
    from gpuprov.lifecycle.cluster_order import ClusterOrder, read_share
    from gpuprov.lifecycle.leaving import JobsPolicy
    from gpuprov.shapes.base import write
    from gpuprov.stories.ensure_cluster import ensure_cluster

    wanted = module.params
    order = ClusterOrder(
        file=Path(wanted["file"]) if wanted["file"] else None,
        policy=JobsPolicy(force=wanted["force"]),
        share=read_share(wanted["share"]),
        gpus=asked_gpus(wanted, "gpus_per_node"),
        **{key: wanted[key] for key in ("name", "count", "role", "gpu_mode", "engine")},
        **{key: wanted[key] for key in ("verify", "prune", "bridge", "subnet")},
    )
    ensured = ensure_cluster(fleet_of(module), order, wanted["state"], check=module.check_mode)
    results = present(ensured, diff=module._diff)  # noqa: SLF001 - Ansible's own way to ask
    results["nodes"] = [write(row) for row in ensured.after]
    if ensured.report is not None:
        results["verify"] = write(ensured.report)
        if not ensured.report.passed:
            results |= failed_verification(ensured.report)
    return results


def main() -> None:
    """Run the module."""
    module = Module(argument_spec=ARGUMENTS, supports_check_mode=True)
    serve(module, lambda: act(module))


if __name__ == "__main__":
    main()
