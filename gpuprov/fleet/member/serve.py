"""`member`: serve what a controller asks of this host, each request by the story that a user of this host would run."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from gpuprov.assets import get_asset
from gpuprov.cluster.nodes_elsewhere import run_in_node_here, tell_nodes
from gpuprov.cluster.share_look import look_at_share
from gpuprov.core.errors import UsageError
from gpuprov.core.excerpt import excerpt
from gpuprov.core.names import check_cluster_name
from gpuprov.fleet.member import clusters, create, nodes, ports, runs
from gpuprov.fleet.member.host_look import survey_host
from gpuprov.fleet.member.ready import serve_ready
from gpuprov.fleet.member.verify import serve_verify
from gpuprov.fleet.questions.gpus import GPUS
from gpuprov.fleet.questions.hardware import HARDWARE
from gpuprov.fleet.questions.inventory import INVENTORY
from gpuprov.fleet.questions.nodes import NODES
from gpuprov.fleet.questions.one_node import LOGS, SHOW
from gpuprov.fleet.questions.runs import RUNS
from gpuprov.lifecycle.prepare_host import HostOrder, own_program, prepare_host, variables_for
from gpuprov.machine.survey import default_engine
from gpuprov.shapes import orders
from gpuprov.shapes.base import read
from gpuprov.shapes.choices import ENGINES
from gpuprov.shapes.outcome import Changes
from gpuprov.shapes.run_order import EndRunsOrder, RunOrder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpuprov.core.reporter import Reporter
    from gpuprov.machine.base import Host
    from gpuprov.shapes.base import Shape, Told
    from gpuprov.shapes.members import ClusterNodes, NodeRun, ShareLook
    from gpuprov.shapes.orders import Order

    Serve = Callable[[Any, Host, Reporter], Shape]


def serve_request(order: Order, host: Host, *, reporter: Reporter) -> Shape:
    """Serve one request; returns the document that the same verb prints with `--json` on this host.

    Raises:
        GpuprovError: The story failed.
    """
    return _SERVED[type(order)](order, host, reporter)


def read_order(verb: str, given: Told) -> Order:
    """The order of a verb.

    Raises:
        UsageError: There is no such verb, or it is not about that.
    """
    if verb not in VERBS:
        raise UsageError(
            f"members do not know `{verb}`", evidence=f"they know: {', '.join(VERBS)}", fix="gpuprov host list"
        )
    kind = VERBS[verb]
    try:
        return read(kind, given)
    except ValueError as error:
        raise UsageError(
            f"the request `{verb}` cannot be served",
            evidence=excerpt(str(error)),
            fix=f"its keys: {', '.join(kind.__struct_encode_fields__)}",
        ) from error


def _look(_order: orders.LookOrder, host: Host, _reporter: Reporter) -> Shape:
    return survey_host(host)


def _prepare(order: orders.PrepareOrder, host: Host, reporter: Reporter) -> Changes:
    engine = next((name for name in ENGINES if name == order.engine), default_engine(host.engines))
    prepared = HostOrder(
        roles_path=get_asset("roles"),
        engine=engine,
        variables=variables_for(engine, os.environ),
        first_image=True,
        program=own_program(),
    )
    return Changes(host=host.name, changed=prepare_host(prepared, host, reporter=reporter).changed)


def _share(order: orders.ShareOrder, host: Host, _reporter: Reporter) -> ShareLook:
    return look_at_share(order, host)


def _nodes(order: orders.ClusterNodesOrder, host: Host, _reporter: Reporter) -> ClusterNodes:
    return tell_nodes(host.open(order.engine), check_cluster_name(order.cluster), host.name)


def _run(order: orders.NodeRunOrder, host: Host, _reporter: Reporter) -> NodeRun:
    return run_in_node_here(order, host)


_SERVED: Final[Mapping[type[Order], Serve]] = {
    orders.LookOrder: _look,
    **{question.order: question.here for question in (NODES, GPUS, HARDWARE, INVENTORY, SHOW, LOGS, RUNS)},
    orders.PartOrder: clusters.serve_part,
    orders.RecordOrder: clusters.serve_record,
    orders.KeyOrder: clusters.serve_key,
    orders.ReadyOrder: serve_ready,
    orders.UnreachableOrder: clusters.serve_unreachable,
    orders.MemberPlanOrder: clusters.serve_plan,
    orders.MemberUpOrder: clusters.serve_up,
    orders.LossesOrder: clusters.serve_losses,
    orders.DownOrder: clusters.serve_down,
    orders.VerifyOrder: serve_verify,
    orders.PrepareOrder: _prepare,
    orders.FindOrder: nodes.serve_find,
    orders.OutOfServiceOrder: nodes.serve_out_of_service,
    orders.InServiceOrder: nodes.serve_in_service,
    orders.SeekOrder: create.serve_seek,
    orders.CreateOrder: create.serve_create,
    orders.NodesOrder: nodes.serve_nodes,
    orders.TellOrder: nodes.serve_tell,
    orders.ExposeOrder: ports.serve_expose,
    orders.UnexposeOrder: ports.serve_unexpose,
    orders.ShareOrder: _share,
    orders.ClusterNodesOrder: _nodes,
    orders.NodeRunOrder: _run,
    RunOrder: runs.serve_run,
    EndRunsOrder: runs.serve_end_runs,
}
VERBS: Final[Mapping[str, type[Order]]] = {kind.verb: kind for kind in _SERVED}
