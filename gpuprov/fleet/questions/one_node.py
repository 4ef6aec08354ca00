"""What is a node, and what has its console said?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpuprov.cluster.find_engine import open_engine_of_node
from gpuprov.cluster.find_node import get_node
from gpuprov.fleet.questions.question import Question
from gpuprov.shapes.base import of_object
from gpuprov.shapes.node import Logs, Node, ShownNode
from gpuprov.shapes.orders import LogsOrder, ShowOrder

if TYPE_CHECKING:
    from gpuprov.core.reporter import Reporter
    from gpuprov.machine.base import Host


def _show(order: ShowOrder, host: Host, reporter: Reporter) -> Node:
    driver = open_engine_of_node(order.node, order.engine, host, reporter=reporter)
    return Node(host=host.name, node=of_object(ShownNode, get_node(driver, order.node)))


def _tell_log(order: LogsOrder, host: Host, reporter: Reporter) -> Logs:
    driver = open_engine_of_node(order.node, order.engine, host, reporter=reporter)
    get_node(driver, order.node)
    return Logs(host=host.name, node=order.node, log=driver.logs(order.node))


SHOW: Final = Question(order=ShowOrder, answer=Node, here=_show)
LOGS: Final = Question(order=LogsOrder, answer=Logs, here=_tell_log)
