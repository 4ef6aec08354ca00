"""`member`: serve what a controller asks of this host, each request by the story that a user of this host would run."""

from __future__ import annotations

import base64
import os
import time
from dataclasses import dataclass, field, fields, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, TypeVar, get_type_hints

from gpuprov.assets import find_asset
from gpuprov.cluster.between_hosts import look_between
from gpuprov.cluster.find_engine import engine_of_cluster, warn_of_silence
from gpuprov.cluster.part import ClusterPart
from gpuprov.cluster.retry_after_wait import act_on_engine
from gpuprov.cluster.share import shared_folder
from gpuprov.cluster.share_look import ShareOrder, look_at_share
from gpuprov.cluster.state import observe_cluster
from gpuprov.cluster.whole import WholeCluster, dump_whole, parse_whole
from gpuprov.core.errors import UsageError
from gpuprov.core.names import check_cluster_name
from gpuprov.core.outcome import Outcome
from gpuprov.documents.envelope import document
from gpuprov.documents.host import look_document
from gpuprov.documents.host_part import host_part_document
from gpuprov.documents.nodes import nodes_document, status_document
from gpuprov.documents.outcome import cluster_up_document, outcome_document, plan_document
from gpuprov.documents.share_look import share_look_document
from gpuprov.documents.verify import verify_document
from gpuprov.host.survey import default_engine, survey
from gpuprov.planes.absence import AbsenceOrder, tell_planes
from gpuprov.planes.elsewhere import (
    CLUSTER_NODES,
    NODE_RUN,
    ClusterNodesOrder,
    NodeRunOrder,
    run_in_node_here,
    tell_nodes,
)
from gpuprov.planes.host_look import survey_host
from gpuprov.planes.host_part import Way, look_at_part, look_for_more
from gpuprov.planes.leaving import JobsPolicy
from gpuprov.planes.rows import list_rows, state_rows
from gpuprov.spec.models import ENGINES
from gpuprov.spec.serialize import load_spec_json
from gpuprov.verify.request import Work
from gpuprov.workflows.cluster_down import cluster_down
from gpuprov.workflows.cluster_up import UpOrder, cluster_up, preview_up
from gpuprov.workflows.prepare_host import HostOrder, own_program, prepare_host, variables_for
from gpuprov.workflows.serving import member_create, member_nodes
from gpuprov.workflows.serving.member_ansible import InventoryOrder, RunOrder, serve_inventory, serve_run
from gpuprov.workflows.serving.member_ready import ReadyOrder, serve_ready
from gpuprov.workflows.serving.request_bytes import bytes_of
from gpuprov.workflows.verify import verify_cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver
    from gpuprov.host.base import Host

    Serve = Callable[[Any, Host, Reporter], dict[str, Any]]

Wanted = TypeVar("Wanted")


@dataclass(frozen=True, kw_only=True)
class LookOrder:
    """`look`: the host itself."""


@dataclass(frozen=True, kw_only=True)
class ListOrder:
    """`list`: the nodes of all clusters."""

    everything: bool = False


@dataclass(frozen=True, kw_only=True)
class StatusOrder:
    """`status`: the nodes of one cluster."""

    cluster: str


@dataclass(frozen=True, kw_only=True)
class PartOrder:
    """`part`: a host's part of a cluster that spans hosts.

    Attributes:
        spec: What is asked for, where the host is to say what it offers to more nodes; empty where not.
        engine: Which is to have it; empty for the one that has it, or else the default one.
        internal_ip: The host's address on the network between the hosts, where the spec says it.
    """

    cluster: str
    spec: str = ""
    engine: str = ""
    internal_ip: str = ""


@dataclass(frozen=True, kw_only=True)
class KeyOrder:
    """`key`: the host's public key for a cluster's encrypted overlay; it is made if there is none."""

    cluster: str


@dataclass(frozen=True, kw_only=True)
class MemberUpOrder:
    """`plan` and `up`.

    Attributes:
        cluster: The name in the spec.
        spec: What is asked of this host, as `dump_spec` writes it; of a cluster that spans hosts, the whole one.
        left: Paths of values that nobody has said.
        nodes: Of a cluster that spans hosts, those of the spec's nodes that this host is to have.
        whole: Of a cluster that spans hosts, the nodes of all hosts as `dump_whole` writes them; empty of others.
        secret: Of a cluster that spans hosts, what all its nodes share, in base64; empty where nothing or to be read.
        drain_s: How long jobs on nodes that have to leave are waited for; below 0 not at all.
    """

    cluster: str
    spec: str
    left: list[str]
    nodes: list[str] = field(default_factory=list)
    whole: str = ""
    secret: str = field(default="", repr=False)
    keep_on_failure: bool = False
    verify: bool = False
    prune: bool = False
    force: bool = False
    drain_s: float = -1.0


@dataclass(frozen=True, kw_only=True)
class DownOrder:
    """`down`.

    Attributes:
        agreed: Whether the host that knows the jobs of all nodes has agreed.
        goes_on: Whether the cluster does, on other hosts.
    """

    cluster: str
    purge: bool = False
    force: bool = False
    drain_s: float = -1.0
    agreed: bool = False
    goes_on: bool = False


@dataclass(frozen=True, kw_only=True)
class VerifyOrder:
    """`verify`.

    Attributes:
        nodes: Names of those to check; none for all.
        seconds: How long each kernel is kept busy; 0 for the usual time.
        beside: Running nodes on other hosts, which each of these tries to reach.
        away: Hosts that are known not to answer.
    """

    cluster: str
    nodes: list[str]
    level: str = "quick"
    seconds: float = 0.0
    beside: list[str] = field(default_factory=list)
    away: list[str] = field(default_factory=list)


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
    return serve(_read(kind, verb, given), host, reporter)


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


def _look(_order: LookOrder, host: Host, _reporter: Reporter) -> dict[str, Any]:
    return look_document(survey_host(host), host=host.name)


def _list(order: ListOrder, host: Host, reporter: Reporter) -> dict[str, Any]:
    seen = survey(host.engines, partial(list_rows, everything=order.everything))
    seen.require_answer()
    warn_of_silence(seen.errors, reporter)
    return nodes_document(chain.from_iterable(seen.answers.values()), host=host.name)


def _status(order: StatusOrder, host: Host, reporter: Reporter) -> dict[str, Any]:
    driver = engine_of_cluster(check_cluster_name(order.cluster), host.engines, reporter=reporter)
    state = observe_cluster(driver, order.cluster)
    folder = shared_folder(state)
    return status_document(order.cluster, state_rows(driver, state), host=host.name, shared_folder=folder)


def _part(order: PartOrder, host: Host, reporter: Reporter) -> dict[str, Any]:
    name = check_cluster_name(order.cluster)
    if order.engine:
        driver = host.open(order.engine)
    else:
        driver = engine_of_cluster(name, host.engines, reporter=reporter, creates=True)
    if not order.spec:
        return host_part_document(look_at_part(driver, name), host=host.name)
    spec = load_spec_json(order.spec, cluster=name)
    way = Way(internal_ip=order.internal_ip, ssh_connection=os.environ.get("SSH_CONNECTION", ""))
    return host_part_document(look_for_more(driver, spec, host, way, reporter=reporter), host=host.name)


def _key(order: KeyOrder, host: Host, reporter: Reporter) -> dict[str, Any]:
    name = check_cluster_name(order.cluster)
    with host.lock(reporter):
        return {"key": host.overlays.ensure_key(name)}


def _absence(order: AbsenceOrder, host: Host, reporter: Reporter) -> dict[str, Any]:
    driver = engine_of_cluster(check_cluster_name(order.cluster), host.engines, reporter=reporter)
    return outcome_document(Outcome(changed=tell_planes(driver, order)), host=host.name)


def _plan(order: MemberUpOrder, host: Host, reporter: Reporter) -> dict[str, Any]:
    wanted = _up_order(order, host)
    preview = preview_up(host.open(wanted.spec.engine), wanted, host, reporter=reporter)
    if preview.choice:
        reporter.note(preview.choice)
    planned = plan_document(preview.changes, preview.beside, host=host.name)
    if wanted.part is None:
        return planned
    facts = host.open(wanted.spec.engine).facts()
    mine = WholeCluster().with_host(host.name, preview.members, cpus=facts.cpus, memory_bytes=facts.memory_bytes)
    return {**planned, "whole": dump_whole(mine), "secret": base64.b64encode(preview.secret).decode()}


def _up(order: MemberUpOrder, host: Host, reporter: Reporter) -> dict[str, Any]:
    wanted = _up_order(order, host)
    driver = host.open(wanted.spec.engine)
    result = cluster_up(driver, wanted, host, reporter=reporter)
    rows = result.rows(driver, wanted.spec.name)
    return cluster_up_document(result, result.report, rows, host=host.name)


def _down(order: DownOrder, host: Host, reporter: Reporter) -> dict[str, Any]:
    name = check_cluster_name(order.cluster)

    def down(driver: Driver, host: Host) -> Outcome:
        policy = replace(_policy(order), agreed=order.agreed, goes_on=order.goes_on)
        return cluster_down(driver, name, host, reporter=reporter, policy=policy, purge=order.purge)

    def find() -> Driver:
        return engine_of_cluster(name, host.engines, reporter=reporter)

    done = act_on_engine(host, find, down)
    left = host.overlays.remove(name)  # by a run that was killed before it recorded anything
    return outcome_document(Outcome(changed=(*done.changed, *left)), host=host.name)


def _verify(order: VerifyOrder, host: Host, reporter: Reporter) -> dict[str, Any]:
    began_s = time.time()
    driver = engine_of_cluster(check_cluster_name(order.cluster), host.engines, reporter=reporter)
    work = Work(
        level="full" if order.level == "full" else "quick", seconds=order.seconds or None, beside=tuple(order.beside)
    )
    between = look_between(driver, observe_cluster(driver, order.cluster), host, away=order.away)
    nodes = order.nodes or None
    report = verify_cluster(driver, order.cluster, host=host, nodes=nodes, reporter=reporter, work=work)
    told = verify_document(report)
    if between is None:
        return told
    return {**told, "between": {**between, "began_s": began_s, "ended_s": time.time()}}


def _prepare(order: PrepareOrder, host: Host, reporter: Reporter) -> dict[str, Any]:
    engine = next((name for name in ENGINES if name == order.engine), default_engine(host.engines))
    prepared = HostOrder(
        roles_path=find_asset("roles"),
        engine=engine,
        variables=variables_for(engine, os.environ),
        first_image=True,
        program=own_program(),
    )
    return outcome_document(prepare_host(prepared, host, reporter=reporter), host=host.name)


def _share(order: ShareOrder, host: Host, _reporter: Reporter) -> dict[str, Any]:
    return share_look_document(look_at_share(order, host), host=host.name)


def _nodes(order: ClusterNodesOrder, host: Host, _reporter: Reporter) -> dict[str, Any]:
    return document(CLUSTER_NODES, host=host.name, **tell_nodes(order, host))


def _run(order: NodeRunOrder, host: Host, _reporter: Reporter) -> dict[str, Any]:
    return document(NODE_RUN, host=host.name, **run_in_node_here(order, host))


def _up_order(order: MemberUpOrder, host: Host) -> UpOrder:
    spec = load_spec_json(order.spec, cluster=check_cluster_name(order.cluster))
    part = None
    if order.whole:
        whole = parse_whole(order.whole, source="the request")
        secret = bytes_of(order.secret, "secret")
        part = ClusterPart(spec=spec, host=host.name, nodes=tuple(order.nodes), whole=whole, secret=secret)
    return UpOrder(
        spec=part.local_spec if part else spec,
        part=part,
        left=frozenset(order.left),
        keep_on_failure=order.keep_on_failure,
        verify=order.verify,
        prune=order.prune,
        policy=_policy(order),
    )


def _policy(order: MemberUpOrder | DownOrder) -> JobsPolicy:
    return JobsPolicy(force=order.force, drain_s=order.drain_s if order.drain_s >= 0 else None)


VERBS: Final[Mapping[str, tuple[type, Serve]]] = {
    "look": (LookOrder, _look),
    "list": (ListOrder, _list),
    "status": (StatusOrder, _status),
    "part": (PartOrder, _part),
    "key": (KeyOrder, _key),
    "ready": (ReadyOrder, serve_ready),
    "absence": (AbsenceOrder, _absence),
    "plan": (MemberUpOrder, _plan),
    "up": (MemberUpOrder, _up),
    "down": (DownOrder, _down),
    "verify": (VerifyOrder, _verify),
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
