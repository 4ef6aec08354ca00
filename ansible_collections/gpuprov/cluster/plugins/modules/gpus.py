#!/usr/bin/python
"""Ansible module: the GPUs of hosts and who holds them."""

from __future__ import annotations

DOCUMENTATION = """
---
module: gpus
short_description: List the GPUs of hosts and the gpuprov nodes that hold them
description:
    - Lists the GPUs of the machine that runs the module, real or simulated, and the nodes that hold each.
    - Where C(gpuprov host add) has added hosts, it lists the GPUs of all of them, and those of this machine if it has
      an engine. With O(engine) or O(gpu_mode), it lists those of this machine alone.
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
          host: gpu-server-1
          nodes: [c000]
          exclusive: false
silent:
    description:
        - Engines that are installed but do not respond; the lists of nodes do not include theirs.
        - Hosts that do not answer; their GPUs are left out. The name of another host stands before that of its engine.
    returned: success
    type: list
    elements: str
    sample: []
simulated:
    description: Whether these GPUs, or some of them, are simulated.
    returned: success
    type: bool
driver:
    description: Version of the NVIDIA driver; empty if hosts have different ones.
    returned: success
    type: str
reason:
    description: Source of these facts.
    returned: success
    type: str
host:
    description: Name of the machine that runs the module; each GPU has the host that it is in.
    returned: success
    type: str
"""

from typing import TYPE_CHECKING, Any

from ansible_collections.gpuprov.cluster.plugins.module_utils.serve import (
    ENGINE,
    GPU_MODE,
    Module,
    ModuleReporter,
    ask_by_ssh,
    serve,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.cluster.gpu_board import GpuBoard
    from gpuprov.core.errors import GpuprovError
    from gpuprov.machine.base import Host

ARGUMENTS: dict[str, Any] = {"engine": ENGINE, "gpu_mode": GPU_MODE}


def act(module: Module) -> dict[str, Any]:
    """Look at the host, at the hosts that were added, and at the leases."""
    from gpuprov.cluster.told_gpus import about_boards
    from gpuprov.machine.local import LocalHost

    here, engine = LocalHost(), module.params["engine"]
    alone, boards, silences = _look(module, here)
    silent, gpus = list(silences), []
    for name, error in silences.items():
        module.warn(f"the GPUs of {name} are left out: {error.what}: {error.evidence}")
    for name, board in boards.items():
        gpus += _gpus_of(board, name, engine)
        for one, error in board.silent.items():
            if engine in (None, one):
                place = one if name == here.name else f"{name}: {one}"
                module.warn(f"{place} does not respond; the GPUs that it holds are unknown: {error.what}; {error.fix}")
                silent.append(place)
        for use in board.foreign:
            module.warn(str(use))
    about = about_boards(boards)
    if alone:
        about["reason"] = boards[here.name].host.reason
    return {"changed": False, "gpus": gpus, "silent": silent, **about, "host": here.name}


def _look(module: Module, here: Host) -> tuple[bool, dict[str, GpuBoard], Mapping[str, GpuprovError]]:
    """Whether this machine alone is meant, the GPUs by host, and why hosts do not tell theirs."""
    from gpuprov.cluster.told_gpus import board_of
    from gpuprov.fleet.fleet import Fleet
    from gpuprov.fleet.questions.gpus import GPUS
    from gpuprov.shapes.orders import GpusOrder

    listener, engine, mode = ModuleReporter(module), module.params["engine"], module.params["gpu_mode"]
    if engine is not None:
        here.open(engine)  # who names an engine is told why it does not answer
    known, hosts = ask_by_ssh(listener)
    alone = not known or engine is not None or mode is not None
    fleet = Fleet(here=here, others={} if alone else known, connect=lambda: hosts, reporter=listener)
    told = fleet.ask(GPUS, GpusOrder(mode=mode or "auto"))
    told.require_answer()
    return alone, {host: board_of(board) for host, board in told.answers.items()}, told.failed


def _gpus_of(board: GpuBoard, host: str, engine: str | None) -> list[dict[str, Any]]:
    """Those of a host that can be leased, with the nodes of an engine, or of all, that hold them."""
    from gpuprov.gpu.document import gpu_document

    can_be_leased = {unit.uuid for unit in board.host.units}
    gpus = []
    for row in board.rows:
        gpu = row.gpu
        if gpu is None or gpu.uuid not in can_be_leased:
            continue
        held = [lease for lease in row.holders if engine in (None, lease.engine)]
        nodes = sorted(lease.node for lease in held)
        exclusive = any(lease.sharing == "exclusive" for lease in held)
        gpus.append({**gpu_document(gpu.uuid, gpu), "host": host, "nodes": nodes, "exclusive": exclusive})
    return gpus


def main() -> None:
    """Run the module."""
    module = Module(argument_spec=ARGUMENTS, supports_check_mode=True)
    serve(module, lambda: act(module))


if __name__ == "__main__":
    main()
