"""A host's part of a cluster, as it tells another host of it, and what that makes of it."""

from __future__ import annotations

from ipaddress import IPv4Interface, IPv4Network
from typing import TYPE_CHECKING, Any, cast

from gpuprov.cluster.choice import Holder, Taken
from gpuprov.cluster.whole import dump_whole, parse_whole
from gpuprov.core.errors import NoEngine
from gpuprov.core.excerpt import excerpt
from gpuprov.documents.member_answers import read_answer, strictly
from gpuprov.host.links import Link
from gpuprov.planes.over_hosts.host_part import HostPart
from gpuprov.shapes.base import of_object
from gpuprov.shapes.choices import DEFAULT_ENGINE
from gpuprov.shapes.members import PartOfHost, Refusal, ToldLink, ToldTaken
from gpuprov.spec.serialize import dump_spec, load_spec_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.shapes.choices import Engine
    from gpuprov.shapes.members import Offer


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
        spec=dump_spec(part.spec) if part.spec else None,
        whole=dump_whole(part.whole) if part.whole else None,
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
        no_engine=of_object(Refusal, no_engine) if no_engine else None,
    )


def read_host_part(told: Mapping[str, Any], *, host: str, cluster: str) -> HostPart:
    """The answer to `part`.

    Raises:
        NoEngine: The host has no engine for the cluster, nor anything of it.
        GpuprovError: It is none, or what is recorded there cannot be read.
    """
    part = read_answer(PartOfHost, told, host)
    if part.no_engine:
        what, evidence, fix = (excerpt(getattr(part.no_engine, name)) for name in ("what", "evidence", "fix"))
        raise NoEngine(f"{host}: {what}", evidence=evidence, fix=f"on {host}: {fix}")
    return HostPart(
        engine=part.engine,
        known_as=part.known_as,
        exists=part.exists,
        spec=load_spec_json(part.spec, cluster=cluster) if part.spec else None,
        whole=parse_whole(part.whole, source=f"cluster {cluster} on {host}") if part.whole else None,
        rows=part.nodes,
        words=part.words,
        offer=strictly(lambda: _offer(part, host), host),
        address=part.address,
        mtu=part.mtu,
        tunnel_key=part.tunnel_key,
        taken=strictly(lambda: _taken(part.taken, host), host),
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
