"""`member`: serve what a controller asks of this host, each request by the story that a user of this host would run."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, TypeVar, get_type_hints

from gpuprov.assets import get_asset
from gpuprov.cluster.find_engine import warn_of_silence
from gpuprov.cluster.nodes_elsewhere import (
    CLUSTER_NODES,
    NODE_RUN,
    ClusterNodesOrder,
    NodeRunOrder,
    run_in_node_here,
    tell_nodes,
)
from gpuprov.cluster.share_look import ShareOrder, look_at_share
from gpuprov.core.errors import UsageError
from gpuprov.core.names import check_cluster_name
from gpuprov.documents.envelope import plain
from gpuprov.host.survey import default_engine, survey
from gpuprov.planes.across.rows import list_rows
from gpuprov.planes.over_hosts.absence import AbsenceOrder
from gpuprov.planes.over_hosts.host_look import survey_host
from gpuprov.serving import member_clusters, member_create, member_nodes
from gpuprov.serving.member_ansible import InventoryOrder, RunOrder, serve_inventory, serve_run
from gpuprov.serving.member_ready import ReadyOrder, serve_ready
from gpuprov.shapes.choices import ENGINES
from gpuprov.shapes.nodes import Nodes
from gpuprov.shapes.outcome import Changes
from gpuprov.workflows.prepare_host import HostOrder, own_program, prepare_host, variables_for

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpuprov.core.reporter import Reporter
    from gpuprov.documents.envelope import Shown
    from gpuprov.host.base import Host
    from gpuprov.shapes.members import ClusterNodes, NodeRun, ShareLook

    Serve = Callable[[Any, Host, Reporter], Shown]

Wanted = TypeVar("Wanted")


@dataclass(frozen=True, kw_only=True)
class LookOrder:
    """`look`: the host itself."""


@dataclass(frozen=True, kw_only=True)
class ListOrder:
    """`list`: the nodes of all clusters."""

    everything: bool = False


@dataclass(frozen=True, kw_only=True)
class PrepareOrder:
    """`prepare`: what `host prepare` does.

    Attributes:
        engine: Empty for the default one of that host.
    """

    engine: str = ""


def serve_request(verb: str, given: Mapping[str, Any], host: Host, *, reporter: Reporter) -> dict[str, Any]:
    """Serve one request; returns the document that the same verb prints with `--json` on this host.

    Args:
        verb: One of VERBS.
        given: What it is about: the fields of the verb's order.
        host: The machine.
        reporter: Is told what goes on.

    Raises:
        UsageError: There is no such verb, or it is not about that.
        GpuprovError: The story failed.
    """
    if verb not in VERBS:
        raise UsageError(
            f"members do not know `{verb}`", evidence=f"they know: {', '.join(VERBS)}", fix="gpuprov host list"
        )
    kind, serve = VERBS[verb]
    return dict(plain(serve(_read(kind, verb, given), host, reporter)))


def _read(kind: type[Wanted], verb: str, given: Mapping[str, Any]) -> Wanted:
    """The order, with exactly its fields, each of its type."""
    known = get_type_hints(kind)
    problems = [f"{key}: not known" for key in given if key not in known]
    for key, value in given.items():
        if key in known and not _fits(value, known[key]):
            problems.append(f"{key}: {value!r} is not of type {getattr(known[key], '__name__', known[key])}")
    try:
        if not problems:
            return kind(**given)
    except TypeError as error:
        problems.append(str(error))
    raise UsageError(
        f"the request `{verb}` cannot be served",
        evidence="\n".join(problems),
        fix=f"its keys: {', '.join(field.name for field in fields(kind))}",  # type: ignore[arg-type]
    )


def _fits(value: object, wanted: object) -> bool:
    if wanted == list[str]:
        return isinstance(value, list) and all(isinstance(word, str) for word in value)
    if wanted is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return type(value) is wanted


def _look(_order: LookOrder, host: Host, _reporter: Reporter) -> Shown:
    return survey_host(host)


def _list(order: ListOrder, host: Host, reporter: Reporter) -> Nodes:
    seen = survey(host.engines, partial(list_rows, everything=order.everything))
    seen.require_answer()
    warn_of_silence(seen.errors, reporter)
    return Nodes(host=host.name, nodes=tuple(chain.from_iterable(seen.answers.values())))


def _prepare(order: PrepareOrder, host: Host, reporter: Reporter) -> Changes:
    engine = next((name for name in ENGINES if name == order.engine), default_engine(host.engines))
    prepared = HostOrder(
        roles_path=get_asset("roles"),
        engine=engine,
        variables=variables_for(engine, os.environ),
        first_image=True,
        program=own_program(),
    )
    return Changes(host=host.name, changed=prepare_host(prepared, host, reporter=reporter).changed)


def _share(order: ShareOrder, host: Host, _reporter: Reporter) -> ShareLook:
    return look_at_share(order, host)


def _nodes(order: ClusterNodesOrder, host: Host, _reporter: Reporter) -> ClusterNodes:
    return tell_nodes(host.open(order.engine), check_cluster_name(order.cluster), host.name)


def _run(order: NodeRunOrder, host: Host, _reporter: Reporter) -> NodeRun:
    return run_in_node_here(order, host)


VERBS: Final[Mapping[str, tuple[type, Serve]]] = {
    "look": (LookOrder, _look),
    "list": (ListOrder, _list),
    "status": (member_clusters.StatusOrder, member_clusters.serve_status),
    "part": (member_clusters.PartOrder, member_clusters.serve_part),
    "key": (member_clusters.KeyOrder, member_clusters.serve_key),
    "ready": (ReadyOrder, serve_ready),
    "absence": (AbsenceOrder, member_clusters.serve_absence),
    "plan": (member_clusters.MemberUpOrder, member_clusters.serve_plan),
    "up": (member_clusters.MemberUpOrder, member_clusters.serve_up),
    "down": (member_clusters.DownOrder, member_clusters.serve_down),
    "verify": (member_clusters.VerifyOrder, member_clusters.serve_verify),
    "prepare": (PrepareOrder, _prepare),
    "hardware": (member_nodes.HardwareOrder, member_nodes.serve_hardware),
    "find": (member_nodes.FindOrder, member_nodes.serve_find),
    "hold": (member_nodes.HoldOrder, member_nodes.serve_hold),
    "release": (member_nodes.ReleaseOrder, member_nodes.serve_release),
    "seek": (member_create.SeekOrder, member_create.serve_seek),
    "create": (member_create.CreateOrder, member_create.serve_create),
    "nodes": (member_nodes.NodesOrder, member_nodes.serve_nodes),
    "tell": (member_nodes.TellOrder, member_nodes.serve_tell),
    "share": (ShareOrder, _share),
    "inventory": (InventoryOrder, serve_inventory),
    "run": (RunOrder, serve_run),
    CLUSTER_NODES: (ClusterNodesOrder, _nodes),
    NODE_RUN: (NodeRunOrder, _run),
}
