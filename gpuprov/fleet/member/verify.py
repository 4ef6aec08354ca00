"""What a host does to prove its nodes, for a controller."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from gpuprov.cluster.between_hosts import look_between
from gpuprov.cluster.find_engine import engine_of_cluster
from gpuprov.cluster.state import observe_cluster
from gpuprov.core.names import check_cluster_name
from gpuprov.lifecycle.verify import verify_cluster
from gpuprov.shapes.base import changed
from gpuprov.shapes.verify import Between
from gpuprov.verify.request import Work

if TYPE_CHECKING:
    from gpuprov.core.reporter import Reporter
    from gpuprov.machine.base import Host
    from gpuprov.shapes.orders import VerifyOrder
    from gpuprov.shapes.verify import Report


def serve_verify(order: VerifyOrder, host: Host, reporter: Reporter) -> Report:
    """Prove the nodes, and look at this host's end of the overlay where there is one."""
    began_s = time.time()
    driver = engine_of_cluster(check_cluster_name(order.cluster), host.engines, reporter=reporter)
    work = Work(level=order.level, seconds=order.seconds, beside=order.beside)
    state = observe_cluster(driver, order.cluster)
    between = look_between(driver, state, host, away=order.away)
    nodes = order.nodes or None
    report = verify_cluster(driver, order.cluster, host=host, nodes=nodes, reporter=reporter, work=work, state=state)
    if between is None:
        return report
    whole = Between(driver=between["driver"], overlay=between["overlay"], began_s=began_s, ended_s=time.time())
    return changed(report, between=whole)
