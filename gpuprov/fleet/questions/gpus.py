"""Which GPUs are there, and who holds them?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpuprov.cluster.gpu_board import look_at_gpus
from gpuprov.cluster.host_gpus import get_gpus
from gpuprov.cluster.leases import Neighbours
from gpuprov.cluster.told_gpus import tell_part
from gpuprov.fleet.questions.question import Question
from gpuprov.shapes.gpus import BoardOfHost
from gpuprov.shapes.orders import GpusOrder

if TYPE_CHECKING:
    from gpuprov.core.reporter import Reporter
    from gpuprov.machine.base import Host


def _answer(order: GpusOrder, host: Host, reporter: Reporter) -> BoardOfHost:
    gpus = get_gpus(host, order.mode, reporter=reporter)
    return tell_part(look_at_gpus(gpus, Neighbours(host)), host=host.name)


GPUS: Final = Question(order=GpusOrder, answer=BoardOfHost, here=_answer)
