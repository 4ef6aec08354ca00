"""Which processors and GPUs do hosts and their nodes have, as CUDA's driver reports them?"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from gpuprov.cluster.find_engine import engine_of_cluster
from gpuprov.cluster.host_gpus import warn_of_lost
from gpuprov.cluster.state import observe_cluster
from gpuprov.core.errors import GpuprovError
from gpuprov.core.excerpt import LINE, excerpt
from gpuprov.core.names import check_cluster_name
from gpuprov.core.side_by_side import ask_side_by_side, questions_at_once
from gpuprov.core.silence_limit import QUESTION_S, scaled_limit_s
from gpuprov.fleet.questions.question import Question
from gpuprov.project.order_check import ask_here
from gpuprov.shapes.base import read
from gpuprov.shapes.hardware import Hardware, Machine, MachineHardware, NodeHardware
from gpuprov.shapes.orders import HardwareOrder

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver
    from gpuprov.machine.base import Host


ANSWER_S: Final = 60.0
PROGRAM: Final = ("python3", "-I", "-m", "gpuwork.hardware")


def _answer(order: HardwareOrder, host: Host, reporter: Reporter) -> Hardware:
    return Hardware(host=host.name, hardware=ask_this_machine(), nodes=_look_at_nodes(order, host, reporter))


def _look_at_nodes(order: HardwareOrder, host: Host, reporter: Reporter) -> tuple[NodeHardware, ...]:
    find = partial(engine_of_cluster, check_cluster_name(order.cluster), host.engines, reporter=reporter)
    if not order.engine and not any(door.installed() for door in host.engines):
        return ()
    with suppress(GpuprovError):  # what CUDA's driver says of this machine is told in any case
        warn_of_lost(host.gpus("auto"), reporter=reporter)
    try:
        return look_at_nodes(partial(host.open, order.engine) if order.engine else find, order.cluster)
    except GpuprovError as error:
        reporter.warn(f"this host only: {error.what}; {error.evidence}")
        return ()


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


HARDWARE: Final = Question(
    order=HardwareOrder,
    answer=Hardware,
    here=_answer,
    needs_engine=False,
    total_s=QUESTION_S + ANSWER_S,
)
