#!/usr/bin/python
"""Ansible module: a host's GPUs and who holds them."""

from __future__ import annotations

DOCUMENTATION = """
---
module: gpus
short_description: List a host's GPUs and the gpuprov nodes that hold them
description:
    - Lists the GPUs of the machine that runs the module, real or simulated, and the nodes that hold each.
    - Changes nothing.
version_added: 0.1.0
author: gpuprov (@gpuprov)
attributes:
    check_mode:
        support: full
        description: Changes nothing, so check mode makes no difference.
    diff_mode:
        support: none
        description: There are no changes to show.
extends_documentation_fragment:
    - gpuprov.cluster.gpuprov
    - gpuprov.cluster.gpuprov.gpu_mode
"""

EXAMPLES = """
- name: Find the free GPUs
  gpuprov.cluster.gpus:
  register: host
  delegate_to: localhost

- name: Print them
  when: not host.silent
  ansible.builtin.debug:
    msg: "{{ host.gpus | rejectattr('nodes') | map(attribute='index') }}"
"""

RETURN = """
gpus:
    description: The GPUs that can be leased, each MIG instance separately, in NVML's order.
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
    description: Engines that are installed but do not respond; the lists of nodes do not include theirs.
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
    description: Source of these facts.
    returned: success
    type: str
host:
    description: Name of the host.
    returned: success
    type: str
"""

from typing import Any

from ansible_collections.gpuprov.cluster.plugins.module_utils.serve import (
    ENGINE,
    GPU_MODE,
    Module,
    ModuleReporter,
    serve,
)

ARGUMENTS: dict[str, Any] = {"engine": ENGINE, "gpu_mode": GPU_MODE}


def act(module: Module) -> dict[str, Any]:
    """Look at the host and at the leases."""
    from gpuprov.cluster.gpu_board import look_at_gpus
    from gpuprov.cluster.host_gpus import get_gpus
    from gpuprov.cluster.leases import Neighbours
    from gpuprov.gpu.document import gpu_document
    from gpuprov.host.local import LocalHost

    here = LocalHost()
    host = get_gpus(here, module.params["gpu_mode"] or "auto", reporter=ModuleReporter(module))
    engine = module.params["engine"]
    if engine is not None:
        here.open(engine)  # who names an engine is told why it does not answer
    board = look_at_gpus(host, Neighbours(here))
    silent = {name: error for name, error in board.silent.items() if engine in (None, name)}
    for name, error in silent.items():
        module.warn(f"{name} does not respond; the GPUs that it holds are unknown: {error.what}; {error.fix}")
    for use in board.foreign:
        module.warn(str(use))
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
    about = {"simulated": host.simulated, "driver": host.driver_version, "reason": host.reason, "host": here.name}
    return {"changed": False, "gpus": gpus, "silent": list(silent), **about}


def main() -> None:
    """Run the module."""
    module = Module(argument_spec=ARGUMENTS, supports_check_mode=True)
    serve(module, lambda: act(module))


if __name__ == "__main__":
    main()
