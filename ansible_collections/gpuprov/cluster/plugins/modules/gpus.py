#!/usr/bin/python
"""Ansible module: a host's GPUs and who holds them."""

from __future__ import annotations

DOCUMENTATION = """
---
module: gpus
short_description: Tell a host's GPUs, and which nodes of gpuprov hold them
description:
    - Lists the GPUs of the machine that the module runs on, real or simulated, and the nodes that hold each.
    - Changes nothing.
version_added: 0.1.0
author: gpuprov (@gpuprov)
attributes:
    check_mode:
        support: full
        description: Changes nothing, so it does the same in check mode.
    diff_mode:
        support: none
        description: There is nothing to show.
extends_documentation_fragment:
    - gpuprov.cluster.gpuprov
    - gpuprov.cluster.gpuprov.gpu_mode
"""

EXAMPLES = """
- name: Which GPUs are free
  gpuprov.cluster.gpus:
  register: host
  delegate_to: localhost

- name: Say so
  when: not host.silent
  ansible.builtin.debug:
    msg: "{{ host.gpus | rejectattr('nodes') | map(attribute='index') }}"
"""

RETURN = """
gpus:
    description: The GPUs that can be leased, each MIG instance on its own, in NVML's order.
    returned: success
    type: list
    elements: dict
    sample:
        - uuid: GPU-51515151-5151-4151-8151-000000000000
          label: "0"
          index: 0
          minor: 0
          device: /dev/nvidia0
          pci: "0000:51:00.0"
          mig: {enabled: false, index: null, gpu_instance: null, compute_instance: null}
          model: NVIDIA GeForce GTX 1080
          memory_bytes: 8589934592
          compute_capability: "6.1"
          nodes: [c000]
          exclusive: false
silent:
    description: Engines that are installed and do not answer; what they hold is in no list of nodes.
    returned: success
    type: list
    elements: str
    sample: []
simulated:
    description: Whether these GPUs are simulated.
    returned: success
    type: bool
driver:
    description: Version of the NVIDIA driver.
    returned: success
    type: str
reason:
    description: Where these facts are from.
    returned: success
    type: str
host:
    description: Name of the host.
    returned: success
    type: str
"""

import platform
from typing import Any

from ansible_collections.gpuprov.cluster.plugins.module_utils.serve import ENGINE, GPU_MODE, Module, serve

ARGUMENTS: dict[str, Any] = {"engine": ENGINE, "gpu_mode": GPU_MODE}


def act(module: Module) -> dict[str, Any]:
    """Look at the host and at the leases."""
    from gpuprov.cluster.gpu_board import look_at_gpus
    from gpuprov.cluster.leases import host_neighbours
    from gpuprov.drivers.registry import open_driver
    from gpuprov.gpu.document import gpu_document
    from gpuprov.host.gpus import observe_gpus

    host = observe_gpus(module.params["gpu_mode"] or "auto")
    engine = module.params["engine"]
    if engine is not None:
        open_driver(engine)  # who names an engine is told why it does not answer
    board = look_at_gpus(host, host_neighbours())
    silent = [one for one in board.silent if engine in (None, one.engine)]
    for one in silent:
        module.warn(f"{one.engine} does not answer, nobody knows what it holds: {one.error.what}; {one.error.fix}")
    can_be_leased = {unit.uuid for unit in host.units}
    gpus = []
    for row in board.rows:
        gpu = row.gpu
        if gpu is None or gpu.uuid not in can_be_leased:
            continue
        held = [lease for lease in row.holders if engine in (None, lease.engine)]
        nodes = sorted(lease.node for lease in held)
        exclusive = any(lease.sharing == "exclusive" for lease in held)
        gpus.append({**gpu_document(gpu.uuid, gpu), "nodes": nodes, "exclusive": exclusive})
    about = {"simulated": host.simulated, "driver": host.driver_version, "reason": host.reason, "host": platform.node()}
    return {"changed": False, "gpus": gpus, "silent": [one.engine for one in silent], **about}


def main() -> None:
    """Run the module."""
    module = Module(argument_spec=ARGUMENTS, supports_check_mode=True)
    serve(module, lambda: act(module))


if __name__ == "__main__":
    main()
