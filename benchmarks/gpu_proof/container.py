"""A container without an engine: namespaces, device rules, /dev with one GPU; asked and judged as a node is.

It has the host's files. The driver's libraries, which lie in other folders on each distribution, are in one folder of
its own, under the names that they have in nodes; the loader looks there first.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.gpu_proof.device_rules import COMMON, group_with_rules
from benchmarks.gpu_proof.host import report_document
from benchmarks.gpu_proof.inside import LIBRARIES, NO_CONTAINER
from benchmarks.gpu_proof.parts import ROOT
from gpuprov.cluster.expected_nodes import expect_node
from gpuprov.cluster.state import ClusterState
from gpuprov.core.errors import GpuprovError
from gpuprov.core.execution import run
from gpuprov.drivers.base import (
    LABEL_ACCESS,
    LABEL_ACCESS_REASON,
    LABEL_CLUSTER,
    LABEL_FINGERPRINT,
    LABEL_GPUS,
    LABEL_SHARING,
    NodeState,
)
from gpuprov.gpu.driver_mounts import plan_library_mounts
from gpuprov.machine.local import LocalHost
from gpuprov.verify.chain import judge_node
from gpuprov.verify.request import Work, parse_answer, probe_argv

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuprov.core.execution import Completed
    from gpuprov.gpu.models import DriverFiles, HostGpus
    from gpuprov.shapes.node import CharDevice
    from gpuprov.verify.models import Expectation, Observation

NODE = "container"
_LIMIT_S = 100.0
_WORK = Work(level="full", seconds=3.0)
_SIMULATED_WORK = Work()


def verify_container(*, simulated: bool) -> dict[str, Any]:
    """Start one with the first GPU of this machine, ask it what a node is asked, and judge the answer."""
    try:
        gpus = LocalHost().gpus("simulated" if simulated else "real")
        if not gpus.units:
            return {"passed": None, "why": "every GPU is split by MIG, and has no instance", "checks": []}
        expected = expect_container(gpus)
        libraries = driver_links(gpus.driver) if gpus.driver and not simulated else ()
        return report_document(judge_node(expected, _look(expected, libraries), "quick" if simulated else "full"))
    except GpuprovError as error:
        return {"passed": False, "why": f"{error.what}: {error.evidence}", "checks": []}
    except OSError as error:
        return {"passed": None, "why": f"this machine lets no container be made: {error}", "checks": []}


def expect_container(gpus: HostGpus) -> Expectation:
    """Return what the container must be: a node with the first GPU, or its first MIG instance, and no other."""
    access = "simulated" if gpus.simulated else "raw"
    labels = {
        LABEL_CLUSTER: NODE,
        LABEL_FINGERPRINT: NODE,
        LABEL_GPUS: gpus.units[0].uuid,
        LABEL_SHARING: "exclusive",
        LABEL_ACCESS: access,
        LABEL_ACCESS_REASON: "by device rules",
    }
    node = NodeState(name=NODE, status="running", labels=labels)
    return expect_node(
        node, ClusterState(name=NODE, recorded=None, settled=None, nodes=(node,), others=(), networks=()), gpus
    )


def driver_links(driver: DriverFiles) -> tuple[tuple[str, str], ...]:
    """Return the names that the driver's libraries have in a node, and what each is on this host.

    Raises:
        HostNotReady: A library that CUDA needs is absent in the version of the kernel module.
    """
    found = ((Path(mount.target).name, mount.source) for mount in plan_library_mounts(driver))
    return tuple((name, source) for name, source in found if ".so." in name)


def _look(expected: Expectation, libraries: Sequence[tuple[str, str]]) -> Observation:
    work = _SIMULATED_WORK if expected.simulated else _WORK
    _, *probe, parameters = probe_argv(expected, part_timeout_s=_LIMIT_S * 0.8, work=work, questions={})
    if libraries:
        parameters = json.dumps({**json.loads(parameters), "library_folders": [LIBRARIES]})
    # The probe's -I would hide packages that this Python has by its environment.
    done = run_inside([sys.executable, *probe[1:], parameters], expected.devices, libraries)
    return parse_answer(done.exit_code, done.stdout, done.stderr, seconds=done.seconds)


def run_inside(
    program: Sequence[str], devices: Sequence[CharDevice], libraries: Sequence[tuple[str, str]] = ()
) -> Completed:
    """Run a program in a container that has these devices and no others, and these links to libraries.

    Raises:
        OSError: The kernel lets this process make no control group with device rules, or no namespaces.
        TimedOut: It took too long.
    """
    rules = (*COMMON, *((device.major, device.minor) for device in devices))
    with group_with_rules(rules) as procs:
        wanted = {
            "procs": str(procs),
            "devices": [[device.path, device.major, device.minor] for device in devices],
            "libraries": list(libraries),
            "argv": list(program),
        }
        namespaces = ("--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child", "--mount-proc")
        inside = (sys.executable, str(Path(__file__).with_name("inside.py")), json.dumps(wanted))
        # The probe starts python3 by name, and finds the smoke kernels in the folder it runs in.
        environment = {"PATH": _before("PATH", str(Path(sys.executable).parent))}
        if libraries:
            environment["LD_LIBRARY_PATH"] = _before("LD_LIBRARY_PATH", LIBRARIES)
        argv = ("unshare", *namespaces, *inside)
        done = run(argv, timeout_s=_LIMIT_S, cwd=ROOT, environment=environment, check=False)
    if done.exit_code == NO_CONTAINER or done.stderr.startswith("unshare:"):
        raise OSError(done.stderr.strip()[-300:])
    return done


def _before(variable: str, folder: str) -> str:
    """Return a variable's list of folders with one more in front; an empty entry would be the current folder."""
    return ":".join(filter(None, (folder, os.environ.get(variable))))
