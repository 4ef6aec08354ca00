#!/usr/bin/python
"""Ansible module: one cluster."""

from __future__ import annotations

DOCUMENTATION = """
---
module: cluster
short_description: Make, grow, shrink, repair or remove a cluster of gpuprov
description:
    - Brings a cluster to a state, as C(gpuprov cluster up) and C(gpuprov cluster down) do.
    - The start is the file, else what is recorded with the cluster; the other options change it.
version_added: 0.1.0
author: gpuprov (@gpuprov)
options:
    name:
        description: Name of the cluster. If not given, the file's, or V(lab).
        type: str
    state:
        description: V(absent) removes its nodes with their data, its networks and its keys; images stay.
        type: str
        choices: [present, absent]
        default: present
    file:
        description: A spec, C(gpuprov/v1) YAML, on the machine that the module runs on.
        type: path
    count:
        description: How many nodes.
        type: int
    role:
        description: What new nodes are for.
        type: str
    gpus_per_node:
        description: GPUs that each node holds.
        type: int
    sharing:
        description: Whether several nodes may hold the same GPU.
        type: str
        choices: [shared, exclusive]
extends_documentation_fragment:
    - gpuprov.cluster.gpuprov
    - gpuprov.cluster.gpuprov.gpu_mode
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
    description: One line for each change, or for each that there would be.
    returned: success
    type: list
    elements: str
    sample: ["create node c003 10.0.3.5 role slurm, 1 GPU shared (raw)"]
nodes:
    description:
        - The nodes as they are now; in check mode as they were.
        - Each is as M(gpuprov.cluster.node) returns it.
    returned: success
    type: list
    elements: dict
"""

import platform
from pathlib import Path
from typing import Any

from ansible_collections.gpuprov.cluster.plugins.module_utils.serve import (
    ENGINE,
    GPU_MODE,
    Listener,
    Module,
    present,
    serve,
)

ARGUMENTS: dict[str, Any] = {
    "name": {"type": "str"},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "file": {"type": "path"},
    "count": {"type": "int"},
    "role": {"type": "str"},
    "gpus_per_node": {"type": "int"},
    "sharing": {"type": "str", "choices": ["shared", "exclusive"]},
    "engine": ENGINE,
    "gpu_mode": GPU_MODE,
}


def act(module: Module) -> dict[str, Any]:
    """Bring the cluster to its state."""
    from gpuprov.cluster.order import Wishes, wanted_engine
    from gpuprov.documents.nodes import row_document
    from gpuprov.host.gpus import observe_gpus
    from gpuprov.workflows.ensure_cluster import ensure_cluster

    wanted = module.params
    wishes = Wishes(
        file=Path(wanted["file"]) if wanted["file"] else None,
        **{key: wanted[key] for key in ("name", "count", "role", "gpus_per_node", "sharing", "gpu_mode")},
    )
    ensured = ensure_cluster(
        wanted_engine(wanted["engine"], wishes),
        wishes,
        wanted["state"],
        observe_gpus=observe_gpus,
        reporter=Listener(module),
        check=module.check_mode,
    )
    results = present(ensured, diff=module._diff)  # noqa: SLF001 - Ansible's own way to ask
    return {**results, "nodes": [row_document(row, host=platform.node()) for row in ensured.after]}


def main() -> None:
    """Run the module."""
    module = Module(argument_spec=ARGUMENTS, supports_check_mode=True)
    serve(module, lambda: act(module))


if __name__ == "__main__":
    main()
