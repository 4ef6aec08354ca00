"""Which containers of `gpuprov run` are there?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpuprov.fleet.questions.question import Question
from gpuprov.lifecycle.runs import look_at_runs
from gpuprov.shapes.run_order import RunsOrder
from gpuprov.shapes.runs import Runs

if TYPE_CHECKING:
    from gpuprov.core.reporter import Reporter
    from gpuprov.machine.base import Host


def _answer(_order: RunsOrder, host: Host, reporter: Reporter) -> Runs:
    return Runs(host=host.name, runs=look_at_runs(host, reporter=reporter).rows(host=host.name))


RUNS: Final = Question(order=RunsOrder, answer=Runs, here=_answer)
