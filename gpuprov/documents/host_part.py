"""A host's part of a cluster, as it tells another host of it, and as that reads it back strictly."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from typing import TYPE_CHECKING, Any, Final

from gpuprov.cluster.choice import Holder, Taken
from gpuprov.cluster.offer import dump_offer, read_offer
from gpuprov.cluster.whole import dump_whole, parse_whole
from gpuprov.core.answer_kinds import (
    fields_of,
    is_bool,
    is_list,
    is_string,
    items_of,
    matches,
    number_in,
    or_none,
    pick,
)
from gpuprov.core.errors import NoEngine
from gpuprov.core.excerpt import excerpt
from gpuprov.documents.envelope import document
from gpuprov.documents.member_answers import strictly
from gpuprov.host.links import Link
from gpuprov.planes.over_hosts.host_part import HostPart
from gpuprov.shapes.base import read, write
from gpuprov.shapes.nodes import NodeRow
from gpuprov.spec.models import DEFAULT_ENGINE, ENGINES
from gpuprov.spec.overlay import TUNNEL_KEY
from gpuprov.spec.serialize import dump_spec, load_spec_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.core.answer_kinds import Accepts

_SCHEMA: Final = "gpuprov.host-part/v1"
_MAPPING: Final[Accepts] = lambda value: isinstance(value, dict)  # noqa: E731 - a kind, as in member_answers
_WORDS: Final[Accepts] = lambda value: isinstance(value, dict) and all(map(is_string, value.values()))  # noqa: E731
_IS_KEY: Final = matches(TUNNEL_KEY)
_KEY_IF_ANY: Final[Accepts] = lambda value: value == "" or _IS_KEY(value)  # noqa: E731


def _is_ipv4(value: object) -> bool:
    try:
        return isinstance(value, str) and bool(IPv4Address(value))
    except ValueError:
        return False


_KINDS: Final[Mapping[str, Accepts]] = {
    "host": is_string,
    "engine": lambda value: value in ENGINES,
    "known_as": is_string,
    "exists": is_bool,
    "spec": or_none(is_string),
    "whole": or_none(is_string),
    "nodes": is_list,
    "words": _WORDS,
    "offer": or_none(is_string),
    "address": lambda value: value == "" or _is_ipv4(value),
    "mtu": number_in(0, 100_000),
    "tunnel_key": _KEY_IF_ANY,
    "taken": _MAPPING,
    "no_engine": or_none(_MAPPING),
}
_NO_ENGINE: Final[Mapping[str, Accepts]] = dict.fromkeys(("what", "evidence", "fix"), is_string)
_TAKEN: Final[Mapping[str, Accepts]] = {
    "names": items_of(is_string),
    "links": is_list,
    "nodes": items_of(is_string),
    "prefixes": items_of(is_string),
}
_LINK: Final[Mapping[str, Accepts]] = {"interface": is_string, "network": is_string, "address": or_none(is_string)}


def no_engine_document(error: NoEngine, *, host: str) -> dict[str, Any]:
    """The answer of a host that has no engine for the cluster, nor anything of it."""
    return host_part_document(HostPart(engine=DEFAULT_ENGINE), host=host, no_engine=error)


def host_part_document(part: HostPart, *, host: str, no_engine: NoEngine | None = None) -> dict[str, Any]:
    """What `read_host_part` reads; for other hosts alone."""
    taken = part.taken
    return document(
        "host-part",
        host=host,
        engine=part.engine,
        known_as=part.known_as,
        exists=part.exists,
        spec=dump_spec(part.spec) if part.spec else None,
        whole=dump_whole(part.whole) if part.whole else None,
        nodes=[write(row) for row in part.rows],
        words=dict(part.words),
        offer=dump_offer(part.offer) if part.offer else None,
        address=part.address,
        mtu=part.mtu,
        tunnel_key=part.tunnel_key,
        taken={
            "names": sorted(taken.names),
            "links": [
                {
                    "interface": link.interface,
                    "network": str(link.network),
                    "address": str(link.address) if link.address else None,
                }
                for link in taken.links
            ],
            "nodes": sorted(taken.nodes),
            "prefixes": sorted(taken.prefixes),
        },
        no_engine={key: getattr(no_engine, key) for key in _NO_ENGINE} if no_engine else None,
    )


def read_host_part(told: Mapping[str, Any], *, host: str, cluster: str) -> HostPart:
    """The answer to `part`.

    Raises:
        NoEngine: The host has no engine for the cluster, nor anything of it.
        GpuprovError: It is none, or what is recorded there cannot be read.
    """
    values = strictly(lambda: dict(zip(_KINDS, fields_of(told, _SCHEMA, _KINDS), strict=True)), host)
    if values["no_engine"] is not None:
        what, evidence, fix = strictly(lambda: pick(values["no_engine"], _NO_ENGINE), host)
        raise NoEngine(f"{host}: {excerpt(what)}", evidence=excerpt(evidence), fix=f"on {host}: {excerpt(fix)}")
    spec, whole, offer = values["spec"], values["whole"], values["offer"]
    return HostPart(
        engine=values["engine"],
        known_as=values["known_as"],
        exists=values["exists"],
        spec=load_spec_json(spec, cluster=cluster) if spec else None,
        whole=parse_whole(whole, source=f"cluster {cluster} on {host}") if whole else None,
        rows=strictly(lambda: tuple(read(NodeRow, row) for row in values["nodes"]), host),
        words=values["words"],
        offer=read_offer(offer, host=host) if offer else None,
        address=values["address"],
        mtu=values["mtu"],
        tunnel_key=values["tunnel_key"],
        taken=strictly(lambda: _taken(values["taken"], host), host),
    )


def _taken(told: Mapping[str, Any], host: str) -> Taken:
    names, links, nodes, prefixes = pick(told, _TAKEN)
    return Taken(
        names={name: Holder(evidence=f"{host} has an interface or a network {name}") for name in names},
        links=tuple(_link(link, host) for link in links),
        nodes=frozenset(nodes),
        prefixes=frozenset(prefixes),
    )


def _link(told: object, host: str) -> Link:
    interface, network, address = pick(told, _LINK)
    return Link(
        interface=f"{interface} of {host}",
        network=IPv4Network(network),
        address=IPv4Interface(address) if address else None,
    )
