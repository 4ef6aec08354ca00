"""Which nodes are there?"""

from __future__ import annotations

from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final

from gpuprov.cluster.find_engine import warn_of_silence
from gpuprov.fleet.questions.question import Question
from gpuprov.lifecycle.rows import list_rows
from gpuprov.machine.survey import survey
from gpuprov.shapes.nodes import Nodes
from gpuprov.shapes.orders import ListOrder

if TYPE_CHECKING:
    from gpuprov.core.reporter import Reporter
    from gpuprov.machine.base import Host


def _answer(order: ListOrder, host: Host, reporter: Reporter) -> Nodes:
    rows = partial(list_rows, everything=order.everything)
    if order.engine:
        return Nodes(host=host.name, nodes=rows(host.open(order.engine)))
    seen = survey(host.engines, rows)
    seen.require_answer()
    warn_of_silence(seen.errors, reporter)
    return Nodes(host=host.name, nodes=tuple(chain.from_iterable(seen.answers.values())))


NODES: Final = Question(order=ListOrder, answer=Nodes, here=_answer)
