"""A host's part of a cluster, as it tells another host of it, and what that makes of it."""

from __future__ import annotations

from ipaddress import IPv4Interface, IPv4Network
from typing import TYPE_CHECKING, cast

from gpuprov.cluster.taken import Holder, Taken
from gpuprov.cluster.whole import dump_whole, parse_whole
from gpuprov.core.errors import NoEngine
from gpuprov.core.excerpt import excerpt
from gpuprov.core.fingerprint import fingerprint
from gpuprov.fleet.member.host_part import HostPart
from gpuprov.link.answers import read_answer, strictly
from gpuprov.machine.links import Link
from gpuprov.shapes.base import of_object, raw, text_of
from gpuprov.shapes.choices import DEFAULT_ENGINE
from gpuprov.shapes.members import NOTHING, ClusterRecord, PartOfHost, Refusal, ToldLink, ToldTaken
from gpuprov.spec.serialize import dump_spec, load_spec_json

if TYPE_CHECKING:
    from gpuprov.shapes.base import Told
    from gpuprov.shapes.choices import Engine
    from gpuprov.shapes.cluster_spec import ClusterSpec
    from gpuprov.shapes.members import Offer
    from gpuprov.shapes.whole import WholeCluster


def tell_no_engine(error: NoEngine, *, host: str) -> PartOfHost:
    """The answer of a host that has no engine for the cluster, nor anything of it."""
    return tell_part(HostPart(engine=DEFAULT_ENGINE), host=host, no_engine=error)


def tell_part(part: HostPart, *, host: str, no_engine: NoEngine | None = None) -> PartOfHost:
    """What `read_host_part` reads; for other hosts alone."""
    taken = part.taken
    return PartOfHost(
        host=host,
        engine=cast("Engine", part.engine),
        known_as=part.known_as,
        exists=part.exists,
        record=fingerprint_of(part.spec, part.whole),
        nodes=part.rows,
        words=part.words,
        offer=part.offer,
        address=part.address,
        mtu=part.mtu,
        tunnel_key=part.tunnel_key,
        taken=ToldTaken(
            names=tuple(sorted(taken.names)),
            links=tuple(
                ToldLink(
                    interface=link.interface,
                    network=str(link.network),
                    address=str(link.address) if link.address else None,
                )
                for link in taken.links
            ),
            nodes=tuple(sorted(taken.nodes)),
            prefixes=tuple(sorted(taken.prefixes)),
        ),
        copies=part.copies,
        full_disks=part.full_disks,
        no_engine=of_object(Refusal, no_engine) if no_engine else None,
    )


def tell_record(spec: ClusterSpec | None, whole: WholeCluster | None, *, host: str) -> ClusterRecord:
    """What is recorded of the whole cluster."""
    return ClusterRecord(
        host=host,
        spec=raw(dump_spec(spec)) if spec else NOTHING,
        whole=raw(dump_whole(whole)) if whole else NOTHING,
    )


def fingerprint_of(spec: ClusterSpec | None, whole: WholeCluster | None) -> str:
    """That of what is recorded; empty where nothing is."""
    if spec is None and whole is None:
        return ""
    return fingerprint([dump_spec(spec) if spec else None, dump_whole(whole) if whole else None])


def read_record(told: Told, *, host: str, cluster: str) -> tuple[ClusterSpec | None, WholeCluster | None]:
    """The answer to `record`.

    Raises:
        GpuprovError: It is none, or what is recorded there cannot be read.
    """
    record = read_answer(ClusterRecord, told, host)
    return (
        None if record.spec == NOTHING else load_spec_json(text_of(record.spec), cluster=cluster),
        None if record.whole == NOTHING else parse_whole(text_of(record.whole), source=f"cluster {cluster} on {host}"),
    )


def read_host_part(told: Told, host: str) -> HostPart:
    """The answer to `part`, without what is recorded of the whole cluster.

    Raises:
        NoEngine: The host has no engine for the cluster, nor anything of it.
        HostNotReady: It is none.
    """
    part = read_answer(PartOfHost, told, host)
    if part.no_engine:
        what, evidence, fix = (excerpt(getattr(part.no_engine, name)) for name in ("what", "evidence", "fix"))
        raise NoEngine(f"{host}: {what}", evidence=evidence, fix=f"on {host}: {fix}")
    return HostPart(
        engine=part.engine,
        known_as=part.known_as,
        exists=part.exists,
        record=part.record,
        rows=part.nodes,
        words=part.words,
        offer=strictly(lambda: _offer(part, host), host),
        address=part.address,
        mtu=part.mtu,
        tunnel_key=part.tunnel_key,
        taken=strictly(lambda: _taken(part.taken, host), host),
        copies=part.copies,
        full_disks=part.full_disks,
    )


def _offer(part: PartOfHost, host: str) -> Offer | None:
    if part.offer and part.offer.host != host:
        raise ValueError(f"it tells what {part.offer.host} offers")
    return part.offer


def _taken(told: ToldTaken, host: str) -> Taken:
    return Taken(
        names={name: Holder(evidence=f"{host} has an interface or a network {name}") for name in told.names},
        links=tuple(_link(link, host) for link in told.links),
        nodes=frozenset(told.nodes),
        prefixes=frozenset(told.prefixes),
    )


def _link(told: ToldLink, host: str) -> Link:
    return Link(
        interface=f"{told.interface} of {host}",
        network=IPv4Network(told.network),
        address=IPv4Interface(told.address) if told.address else None,
    )
