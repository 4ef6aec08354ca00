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
          index: 0
          minor: 0
          pci: "0000:51:00.0"
          model: NVIDIA GeForce GTX 1080
          memory_bytes: 8589934592
          compute_capability: "6.1"
          nodes: [c000]
          exclusive: false
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
"""

from typing import Any

from ansible_collections.gpuprov.cluster.plugins.module_utils.serve import ENGINE, GPU_MODE, Module, serve

ARGUMENTS: dict[str, Any] = {"engine": ENGINE, "gpu_mode": GPU_MODE}


def act(module: Module) -> dict[str, Any]:
    """Look at the host and at the leases."""
    from gpuprov.drivers.registry import open_driver
    from gpuprov.workflows.find_engine import open_answering
    from gpuprov.workflows.host_gpus import observe_gpus
    from gpuprov.workflows.leases import read_leases

    host = observe_gpus(module.params["gpu_mode"] or "auto")
    engine = module.params["engine"]
    drivers = [open_driver(engine)] if engine else open_answering()[0].values()
    leases = [lease for driver in drivers for lease in read_leases(driver.list_nodes(), engine=driver.name)]
    gpus = []
    for gpu in host.units:
        held = [lease for lease in leases if gpu.uuid in lease.gpus]
        capability = gpu.compute_capability
        gpus.append(
            {
                "uuid": gpu.uuid,
                "index": gpu.index,
                "minor": gpu.minor,
                "pci": gpu.pci,
                "model": gpu.model,
                "memory_bytes": gpu.memory_bytes,
                "compute_capability": ".".join(map(str, capability)) if capability else None,
                "nodes": sorted(lease.node for lease in held),
                "exclusive": any(lease.sharing == "exclusive" for lease in held),
            }
        )
    about = {"simulated": host.simulated, "driver": host.driver_version, "reason": host.reason}
    return {"changed": False, "gpus": gpus, **about}


def main() -> None:
    """Run the module."""
    module = Module(argument_spec=ARGUMENTS, supports_check_mode=True)
    serve(module, lambda: act(module))


if __name__ == "__main__":
    main()
