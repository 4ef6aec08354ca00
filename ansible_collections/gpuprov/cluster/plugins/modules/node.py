#!/usr/bin/python
"""Ansible module: one node."""

from __future__ import annotations

DOCUMENTATION = """
---
module: node
short_description: Create, start, stop or remove a gpuprov node
description:
    - Brings one node to a state, as C(gpuprov create-node), C(start), C(stop) and C(rm) do, and updates Slurm.
    - An existing node is never replaced by a different one.
      If it differs from the parameters, the module fails and reports the differences.
    - In a cluster that spans hosts, a new node goes to a host that has the GPUs for it, and the host of an existing one
      does the rest. A host that does not do its part fails the module; what the others did stays. O(mounts) and
      O(privileged) of an existing node on another host are not compared, with a warning.
version_added: 0.1.0
author: gpuprov (@gpuprov)
options:
    name:
        description: Name of the node, such as V(c007).
        type: str
        required: true
    state:
        description:
            - V(present) means that the node exists and is running, V(stopped) that it exists and is not running.
            - V(absent) removes the node and its data.
        type: str
        choices: [present, stopped, absent]
        default: present
    cluster:
        description: The cluster of the node.
        type: str
        default: lab
    addr:
        description: Address on the NAT bridge. The default is derived from the node's number.
        type: str
    gpus:
        description:
            - A count, V(all), V(none), or a list of indexes, UUIDs or PCI addresses, such as V(0,1).
            - The default is that of the cluster's spec.
        type: str
    sharing:
        description: Whether other nodes may hold the same GPUs.
        type: str
        choices: [shared, exclusive]
    role:
        description:
            - Purpose of the node. The default is that of the cluster's spec.
            - The first node of a cluster without a spec is a Slurm node if it is the controller, such as V(c000), and
              a plain node otherwise.
        type: str
        choices: [plain, slurm, worker]
    image:
        description: Name of a gpuprov image or of an image of the engine. The default is the role's image.
        type: str
    mounts:
        description: Host folders to mount, as V(SOURCE:TARGET) or V(SOURCE:TARGET:ro).
        type: list
        elements: str
        default: []
    network:
        description: The cluster networks to attach the node to.
        type: str
        choices: [both, nat, private]
        default: both
    privileged:
        description: Whether root in the node is root on the host.
        type: bool
        default: false
extends_documentation_fragment:
    - gpuprov.cluster.gpuprov
    - gpuprov.cluster.gpuprov.gpu_criteria
    - gpuprov.cluster.gpuprov.gpu_mode
    - gpuprov.cluster.gpuprov.force
    - gpuprov.cluster.gpuprov.changes
seealso:
    - module: gpuprov.cluster.cluster
"""

EXAMPLES = """
- name: Add a node with one GPU
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
    description: One line for each change, or in check mode for each change that would be made.
    returned: success
    type: list
    elements: str
    sample: ["created node c007 10.0.3.9 role slurm, 1 GPU shared (raw)"]
node:
    description: The node after the changes; in check mode, before. Null if it does not exist.
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

from typing import Any

from ansible_collections.gpuprov.cluster.plugins.module_utils.serve import (
    ENGINE,
    FORCE,
    GPU_CRITERIA,
    GPU_MODE,
    ROLE,
    Module,
    asked_gpus,
    fleet_of,
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
    **GPU_CRITERIA,
    "role": ROLE,
    "image": {"type": "str"},
    "mounts": {"type": "list", "elements": "str", "default": []},
    "network": {"type": "str", "choices": ["both", "nat", "private"], "default": "both"},
    "privileged": {"type": "bool", "default": False},
    "engine": ENGINE,
    "gpu_mode": GPU_MODE,
    "force": FORCE,
}


def act(module: Module) -> dict[str, Any]:
    """Bring the node to its state."""
    from gpuprov.core.names import check_cluster_name
    from gpuprov.lifecycle.leaving import JobsPolicy
    from gpuprov.shapes.base import write
    from gpuprov.shapes.node_order import NodeOrder
    from gpuprov.spec.mounts import parse_mount
    from gpuprov.stories.ensure_node import ensure_node

    wanted = module.params
    order = NodeOrder(
        name=wanted["name"],
        cluster=check_cluster_name(wanted["cluster"]),
        address=wanted["addr"],
        role=wanted["role"],
        gpus=asked_gpus(wanted, "gpus"),
        image=wanted["image"],
        mounts=tuple(parse_mount(text) for text in wanted["mounts"]),
        network=wanted["network"],
        privileged=wanted["privileged"],
        gpu_mode=wanted["gpu_mode"] or "auto",
    )
    fleet, policy = fleet_of(module, wanted["engine"]), JobsPolicy(force=wanted["force"])
    ensured = ensure_node(fleet, order, wanted["state"], check=module.check_mode, policy=policy)
    results = present(ensured, diff=module._diff)  # noqa: SLF001 - Ansible's own way to ask
    return {**results, "node": write(ensured.after[0]) if ensured.after else None}


def main() -> None:
    """Run the module."""
    module = Module(argument_spec=ARGUMENTS, supports_check_mode=True)
    serve(module, lambda: act(module))


if __name__ == "__main__":
    main()
