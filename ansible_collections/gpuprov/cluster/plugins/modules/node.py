#!/usr/bin/python
"""Ansible module: one node."""

from __future__ import annotations

DOCUMENTATION = """
---
module: node
short_description: Make, start, stop or remove one node of gpuprov
description:
    - Brings one node to a state, as C(gpuprov create-node), C(start), C(stop) and C(rm) do; Slurm follows.
    - A node that is there is not changed into another one.
      If it is not as asked, the module fails and says what differs.
version_added: 0.1.0
author: gpuprov (@gpuprov)
options:
    name:
        description: Name of the node, such as V(c007).
        type: str
        required: true
    state:
        description:
            - V(present) is there and runs, V(stopped) is there and does not run.
            - V(absent) is not there, and neither are its data.
        type: str
        choices: [present, stopped, absent]
        default: present
    cluster:
        description: The cluster that it is part of.
        type: str
        default: lab
    addr:
        description: Address on the NAT bridge. If not given, the one that goes with the node's number.
        type: str
    gpus:
        description:
            - A count, V(all), V(none), or a list such as V(0,1), of indexes, UUIDs or PCI addresses.
            - If not given, as the cluster's spec says.
        type: str
    sharing:
        description: Whether other nodes may hold the same GPUs.
        type: str
        choices: [shared, exclusive]
    role:
        description: What the node is for. If not given, as the cluster's spec says.
        type: str
    image:
        description: Name of an image of gpuprov's or of the engine's. If not given, the role's.
        type: str
    mounts:
        description: Folders of the host, as V(SOURCE:TARGET) or V(SOURCE:TARGET:ro).
        type: list
        elements: str
        default: []
    network:
        description: Which of the cluster's networks it is on.
        type: str
        choices: [both, nat, private]
        default: both
    privileged:
        description: Whether root in the node is root on the host.
        type: bool
        default: false
extends_documentation_fragment:
    - gpuprov.cluster.gpuprov
    - gpuprov.cluster.gpuprov.gpu_mode
    - gpuprov.cluster.gpuprov.changes
seealso:
    - module: gpuprov.cluster.cluster
"""

EXAMPLES = """
- name: One more node with one GPU
  gpuprov.cluster.node:
    name: c007
    addr: 10.0.3.9
    gpus: 1
    state: present
  delegate_to: localhost

- name: Remove it
  gpuprov.cluster.node:
    name: c007
    state: absent
  delegate_to: localhost
"""

RETURN = """
changes:
    description: One line for each change, or for each that there would be.
    returned: success
    type: list
    elements: str
    sample: ["created node c007 10.0.3.9 role slurm, 1 GPU shared (raw)"]
node:
    description: The node as it is now; in check mode as it was. Null where there is none.
    returned: success
    type: dict
    sample:
        name: c007
        cluster: lab
        role: slurm
        status: running
        address: 10.0.3.9
        private_address: 10.0.5.8
        gpus: [GPU-51515151-5151-4151-8151-000000000000]
        devices: [/dev/nvidia0]
        sharing: shared
        simulated: false
        slurm: ""
        health: ok
        image: gpuprov-image-29654a21f52c
        host: gpu-server-1
"""

import platform
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
    "name": {"type": "str", "required": True},
    "state": {"type": "str", "choices": ["present", "stopped", "absent"], "default": "present"},
    "cluster": {"type": "str", "default": "lab"},
    "addr": {"type": "str"},
    "gpus": {"type": "str"},
    "sharing": {"type": "str", "choices": ["shared", "exclusive"]},
    "role": {"type": "str"},
    "image": {"type": "str"},
    "mounts": {"type": "list", "elements": "str", "default": []},
    "network": {"type": "str", "choices": ["both", "nat", "private"], "default": "both"},
    "privileged": {"type": "bool", "default": False},
    "engine": ENGINE,
    "gpu_mode": GPU_MODE,
}


def act(module: Module) -> dict[str, Any]:
    """Bring the node to its state."""
    from gpuprov.cluster.find_engine import engine_of_cluster
    from gpuprov.cluster.node_order import NodeOrder
    from gpuprov.core.names import check_cluster_name
    from gpuprov.documents.nodes import row_document
    from gpuprov.drivers.registry import open_driver
    from gpuprov.host.gpus import observe_gpus
    from gpuprov.spec.mounts import parse_mount
    from gpuprov.workflows.ensure_node import ensure_node

    wanted = module.params
    check_cluster_name(wanted["cluster"])
    order = NodeOrder(
        name=wanted["name"],
        cluster=wanted["cluster"],
        address=wanted["addr"],
        role=wanted["role"],
        gpus=wanted["gpus"],
        sharing=wanted["sharing"],
        image=wanted["image"],
        mounts=tuple(parse_mount(text) for text in wanted["mounts"]),
        network=wanted["network"],
        privileged=wanted["privileged"],
    )
    ensured = ensure_node(
        open_driver(wanted["engine"]) if wanted["engine"] else engine_of_cluster(wanted["cluster"], creates=True),
        order,
        wanted["state"],
        observe_gpus=lambda: observe_gpus(wanted["gpu_mode"] or "auto"),
        reporter=Listener(module),
        check=module.check_mode,
    )
    results = present(ensured, diff=module._diff)  # noqa: SLF001 - Ansible's own way to ask
    return {**results, "node": row_document(ensured.after[0], host=platform.node()) if ensured.after else None}


def main() -> None:
    """Run the module."""
    module = Module(argument_spec=ARGUMENTS, supports_check_mode=True)
    serve(module, lambda: act(module))


if __name__ == "__main__":
    main()
