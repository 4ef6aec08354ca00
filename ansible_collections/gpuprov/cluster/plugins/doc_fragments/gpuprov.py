"""What several modules document alike."""

from __future__ import annotations


class ModuleDocFragment:
    """Options of the modules that talk to an engine."""

    DOCUMENTATION = """
options:
    engine:
        description: What runs the nodes. If not given, the engine that has them, and V(lxd) for new ones.
        type: str
        choices: [lxd, incus, docker]
requirements:
    - gpuprov, installed for the Python that runs the module; on the controller that is C(ansible_playbook_python)
notes:
    - It does what C(gpuprov) does on the command line, in the module's own process.
      Run it where the engine is, usually on the controller, as root or a member of the engine's group.
    - A failure's C(msg) has three parts, what failed, the evidence and the fix, which are also values of their own.
"""

    GPU_MODE = """
options:
    gpu_mode:
        description:
            - Simulate GPUs where there are none (V(auto)), refuse to (V(real)), or always simulate.
            - If not given, it is as recorded with the cluster, or V(auto).
        type: str
        choices: [auto, real, simulated]
"""

    CHANGES = """
attributes:
    check_mode:
        support: full
        description: Can say what would change without changing it.
    diff_mode:
        support: full
        description: Shows the changes, one a line.
"""
