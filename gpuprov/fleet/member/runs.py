"""What a controller has this host do with containers of `gpuprov run`, as a user of this host would."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.core.errors import EngineError, UsageError
from gpuprov.core.rollback import AGAIN
from gpuprov.gpu.waiting_for_gpus import Patience
from gpuprov.lifecycle.run_job import begin_job
from gpuprov.lifecycle.runs import end_runs, look_at_runs
from gpuprov.shapes.outcome import Changes
from gpuprov.shapes.runs import Runs

if TYPE_CHECKING:
    from gpuprov.core.reporter import Reporter
    from gpuprov.machine.base import Host
    from gpuprov.shapes.run_order import EndRunsOrder, RunOrder


def serve_run(order: RunOrder, host: Host, reporter: Reporter) -> Runs:
    """Start one that goes on by itself; the answer has it alone."""
    if not order.detach:
        raise UsageError("the request for a container cannot be served", evidence="it is not detached", fix="--detach")
    driver = host.open(order.engine)
    name = begin_job(driver, order, host, patience=Patience(wait_s=order.wait_s), reporter=reporter)
    there = look_at_runs(host, reporter=reporter).rows(host=host.name)
    rows = tuple(row for row in there if row.name == name)
    if not rows:
        raise EngineError(f"{name} was removed as soon as it was started", evidence="no such container", fix=AGAIN)
    return Runs(host=host.name, runs=rows)


def serve_end_runs(order: EndRunsOrder, host: Host, reporter: Reporter) -> Changes:
    """Stop or remove some of this host."""
    return Changes(host=host.name, changed=end_runs(order, host, reporter=reporter).changed)
