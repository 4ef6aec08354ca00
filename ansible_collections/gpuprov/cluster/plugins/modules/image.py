#!/usr/bin/python
"""Ansible module: node images."""

from __future__ import annotations

DOCUMENTATION = """
---
module: image
short_description: Build or remove a gpuprov node image
description:
    - Builds the image for nodes of a role, as C(gpuprov image build) does.
    - Or removes an image, as C(gpuprov image rm) does.
    - If an image of the same recipe exists, nothing is done.
version_added: 0.1.0
author: gpuprov (@gpuprov)
options:
    state:
        description: Whether the image should exist.
        type: str
        choices: [present, absent]
        default: present
    name:
        description: The image to remove, or the first digits of its fingerprint. Only for O(state=absent).
        type: str
    role:
        description: Purpose of the nodes created from the image.
        type: str
        choices: [plain, slurm, worker]
        default: slurm
    base:
        description: Suite to build from, or V(image:NAME), an image that the engine has.
        type: str
        default: bookworm
    packages:
        description: Debian packages to add.
        type: list
        elements: str
        default: []
    python:
        description: Python packages to add, such as V(torch==2.*).
        type: list
        elements: str
        default: []
    own_roles:
        description:
            - Folders of Ansible roles to apply to the image after gpuprov's, on the machine that runs the module.
            - The paths are absolute.
        type: list
        elements: path
        default: []
extends_documentation_fragment:
    - gpuprov.cluster.gpuprov
    - gpuprov.cluster.gpuprov.gpu_mode
    - gpuprov.cluster.gpuprov.changes
"""

EXAMPLES = """
- name: The image for Slurm nodes, with git
  gpuprov.cluster.image:
    role: slurm
    packages: [git]
  delegate_to: localhost

- name: An image with PyTorch and a role of the lab's own
  gpuprov.cluster.image:
    python: ["torch==2.*"]
    own_roles: [/srv/lab/roles/motd]
  delegate_to: localhost
"""

RETURN = """
changes:
    description: One line for each change, or in check mode for each change that would be made.
    returned: success
    type: list
    elements: str
    sample: ["built image gpuprov-image-29654a21f52c"]
image:
    description: Name of the image; null if it was removed, or would have to be built first.
    returned: success
    type: str
    sample: gpuprov-image-29654a21f52c
"""

from typing import Any

from ansible_collections.gpuprov.cluster.plugins.module_utils.serve import (
    ENGINE,
    GPU_MODE,
    ROLE,
    Module,
    ModuleReporter,
    diff_of,
    serve,
)

ARGUMENTS: dict[str, Any] = {
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "name": {"type": "str"},
    "role": {**ROLE, "default": "slurm"},
    "base": {"type": "str", "default": "bookworm"},
    "packages": {"type": "list", "elements": "str", "default": []},
    "python": {"type": "list", "elements": "str", "default": []},
    "own_roles": {"type": "list", "elements": "path", "default": []},
    "engine": ENGINE,
    "gpu_mode": GPU_MODE,
}


def act(module: Module) -> dict[str, Any]:
    """Build or remove the image."""
    from gpuprov.cluster.find_engine import engine_of_image
    from gpuprov.cluster.host_gpus import get_gpus
    from gpuprov.cluster.retry_after_wait import act_on_engine
    from gpuprov.lifecycle.ensure import ensure_image_absent, ensure_image_built
    from gpuprov.machine.local import LocalHost
    from gpuprov.machine.survey import default_engine
    from gpuprov.shapes.cluster_spec import ClusterSpec, ImageSpec, NodesSpec

    wanted = module.params
    host = LocalHost()
    listener, check, engine, name = ModuleReporter(module), module.check_mode, wanted["engine"], wanted["name"]
    image: str | None = None
    if wanted["state"] == "absent":
        changed = act_on_engine(
            host,
            lambda: host.open(engine) if engine else engine_of_image(name, host.engines, reporter=listener),
            lambda driver, host: ensure_image_absent(driver, name, host, reporter=listener, check=check),
        )
    else:
        driver = host.open(engine or default_engine(host.engines))
        spec = ClusterSpec(
            image=ImageSpec(
                base=wanted["base"],
                packages=tuple(wanted["packages"]),
                python=tuple(wanted["python"]),
                roles=tuple(wanted["own_roles"]),
            ),
            nodes=NodesSpec(role=wanted["role"]),
        )
        gpus = get_gpus(host, wanted["gpu_mode"] or "auto", reporter=listener)
        image, changed = ensure_image_built(driver, spec, host, gpus, reporter=listener, check=check)
    results: dict[str, Any] = {"changed": bool(changed), "changes": list(changed), "image": image}
    if module._diff:  # noqa: SLF001 - Ansible's own way to ask
        results["diff"] = diff_of(changed)
    return results


def main() -> None:
    """Run the module."""
    module = Module(argument_spec=ARGUMENTS, supports_check_mode=True, required_if=[("state", "absent", ("name",))])
    serve(module, lambda: act(module))


if __name__ == "__main__":
    main()
