"""`hardware`: the processors and GPUs of this host and of running nodes, each asked with a limit; holds no lock."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from gpuprov.cluster.state import observe_cluster
from gpuprov.core.answer_kinds import parse_program_answer
from gpuprov.core.errors import GpuprovError
from gpuprov.core.excerpt import LINE, excerpt
from gpuprov.core.side_by_side import ask_side_by_side, questions_at_once
from gpuprov.core.silence_limit import scaled_limit_s
from gpuprov.host.order_check import ask_here
from gpuprov.planes.work.hardware_answers import PROGRAM, MachineHardware, NodeHardware, read_hardware

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuprov.drivers.base import Driver

ANSWER_S: Final = 60.0


def ask_this_machine() -> MachineHardware:
    """This host."""
    return read_hardware({**ask_here(("-m", "gpuwork.hardware"))})


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
        return NodeHardware(node=node, hardware=read_hardware(parse_program_answer(result.stdout)), reason=None)
    except (GpuprovError, ValueError) as error:
        return NodeHardware(node=node, hardware=None, reason=excerpt(str(error), LINE))
