"""Which processors and GPUs do hosts and their nodes have, as CUDA's driver reports them?"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from gpuprov.cluster.find_engine import engine_of_cluster
from gpuprov.cluster.host_gpus import warn_of_lost
from gpuprov.core.errors import GpuprovError
from gpuprov.core.names import check_cluster_name
from gpuprov.core.silence_limit import QUESTION_S
from gpuprov.serving.questions.question import Question
from gpuprov.shapes.hardware import Hardware
from gpuprov.workflows.hardware import ANSWER_S, ask_this_machine, look_at_nodes

if TYPE_CHECKING:
    from gpuprov.core.reporter import Reporter
    from gpuprov.host.base import Host
    from gpuprov.shapes.hardware import NodeHardware


@dataclass(frozen=True, kw_only=True)
class HardwareOrder:
    """`hardware`: of the host, and of its running nodes of a cluster.

    Attributes:
        engine: Which one has the cluster; empty for whichever has.
    """

    cluster: str
    engine: str = ""


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


HARDWARE: Final = Question(
    verb="hardware",
    order=HardwareOrder,
    answer=Hardware,
    here=_answer,
    needs_engine=False,
    total_s=QUESTION_S + ANSWER_S,
)
