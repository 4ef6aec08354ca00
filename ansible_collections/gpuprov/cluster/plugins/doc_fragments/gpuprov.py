"""What several modules document alike."""

from __future__ import annotations

import json
from typing import Any


def _gpu_criteria() -> dict[str, Any]:
    try:
        from gpuprov.spec.gpu_order import CRITERIA
    except ImportError:  # and the modules have no such options
        return {}
    return {told.argument: {"description": told.help, "type": "str"} for told in CRITERIA.values()}


class ModuleDocFragment:
    """Options of the modules that talk to an engine."""

    DOCUMENTATION = """
options:
    engine:
        description: >-
            Engine that runs the nodes. The default is the engine that has them, and V(lxd) for new nodes, or V(incus)
            on a machine that has Incus and no LXD.
        type: str
        choices: [lxd, incus, docker]
requirements:
    - gpuprov, installed for the Python that runs the module; on the controller this is C(ansible_playbook_python)
notes:
    - The module runs the same workflows as the command line, in its own process.
      Run it where the engine is, usually on the controller, as root or a member of the engine's group.
    - On failure, C(msg) contains what failed, the evidence and the fix, which are also separate return values.
"""

    GPU_CRITERIA: str

    GPU_MODE = """
options:
    gpu_mode:
        description:
            - If the host has no GPU, simulate (V(auto)) or refuse (V(real)); or always simulate.
            - The default is the mode recorded with the cluster, or V(auto).
        type: str
        choices: [auto, real, simulated]
"""

    FORCE = """
options:
    force:
        description:
            - Whether to continue if jobs run on nodes that would be stopped, restarted or removed.
              The module warns of each job that ends.
            - Without it, the module fails, names the jobs and changes nothing. It also fails if Slurm does not answer.
            - Removing a cluster also ends the jobs that wait.
        type: bool
        default: false
"""

    CHANGES = """
attributes:
    check_mode:
        support: full
        description: Reports what would change without changing it.
    diff_mode:
        support: full
        description: Shows the changes, one per line.
"""


ModuleDocFragment.GPU_CRITERIA = json.dumps({"options": _gpu_criteria()})  # of what gpuprov defines
