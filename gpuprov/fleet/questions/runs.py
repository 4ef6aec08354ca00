"""Which containers of `gpuprov run` are there?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpuprov.cluster.find_engine import warn_of_silence
from gpuprov.fleet.questions.question import Question
from gpuprov.lifecycle.runs import look_at_runs
from gpuprov.shapes.run_order import RunsOrder
from gpuprov.shapes.runs import Runs

if TYPE_CHECKING:
    from gpuprov.core.reporter import Reporter
    from gpuprov.machine.base import Host


def _answer(_order: RunsOrder, host: Host, reporter: Reporter) -> Runs:
    found = look_at_runs(host)
    warn_of_silence(found.errors, reporter)
    return Runs(host=host.name, runs=found.rows(host=host.name))


RUNS: Final = Question(order=RunsOrder, answer=Runs, here=_answer)
