"""`hardware`: the processors and GPUs of this host and of running nodes, each asked with a limit; holds no lock."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from gpuprov.cluster.state import observe_cluster
from gpuprov.core.errors import GpuprovError
from gpuprov.core.excerpt import LINE, excerpt
from gpuprov.core.side_by_side import ask_side_by_side, questions_at_once
from gpuprov.core.silence_limit import scaled_limit_s
from gpuprov.host.order_check import ask_here
from gpuprov.shapes.base import read
from gpuprov.shapes.hardware import Machine, MachineHardware, NodeHardware

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuprov.drivers.base import Driver

ANSWER_S: Final = 60.0
PROGRAM: Final = ("python3", "-I", "-m", "gpuwork.hardware")


def ask_this_machine() -> Machine:
    """This host."""
    return _machine(read(MachineHardware, ask_here(("-m", "gpuwork.hardware"))))


def look_at_nodes(connect: Callable[[], Driver], cluster: str) -> tuple[NodeHardware, ...]:
    """Each running node of a cluster; none where there is no such cluster."""
    driver = connect()
    nodes = [node.name for node in observe_cluster(driver, cluster).nodes if node.status == "running"]
    if not nodes:
        return ()
    return tuple(ask_side_by_side([partial(_look, driver, name) for name in nodes], workers=questions_at_once()))


def _look(driver: Driver, node: str) -> NodeHardware:
    try:
        result = driver.run(node, [*PROGRAM], cwd="/", timeout_s=scaled_limit_s(ANSWER_S))
        if result.exit_code:
            said = excerpt((result.stderr or result.stdout).strip()[-LINE:], LINE)
            return NodeHardware(node=node, hardware=None, reason=said or f"exit status {result.exit_code}")
        hardware = _machine(read(MachineHardware, result.stdout))
        return NodeHardware(node=node, hardware=hardware, reason=None)
    except (GpuprovError, ValueError) as error:
        return NodeHardware(node=node, hardware=None, reason=excerpt(str(error), LINE))


def _machine(told: MachineHardware) -> Machine:
    return Machine(
        machine=told.machine,
        cpu=told.cpu.name,
        threads=told.cpu.threads,
        gpus=told.gpus,
        simulated=told.simulated,
        reason=told.reason,
    )
