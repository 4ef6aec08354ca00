"""What a spec of a cluster over hosts leaves open, filled in: as the cluster has it, else what is free on all hosts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpuprov.cluster.choice import choose
from gpuprov.cluster.overlay_request import agree_mtu
from gpuprov.cluster.share_look import SHARING_HOSTS
from gpuprov.cluster.taken import Taken
from gpuprov.core.errors import HostNotReady, UsageError
from gpuprov.shapes.base import changed
from gpuprov.spec.draft import SHARE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpuprov.fleet.hosted_cluster import SpanningCluster
    from gpuprov.shapes.cluster_spec import ClusterSpec, HostSpec
    from gpuprov.spec.draft import Draft


def settle_spanning(draft: Draft, seen: SpanningCluster) -> ClusterSpec:
    """The spec with all that was left open: as the cluster has it, else what is free on all hosts.

    Raises:
        GpuprovError: Nothing is free, the network between the hosts is too narrow, or the spec asks for what this
            version cannot do over hosts.
    """
    if draft.spec.share is True and SHARE not in draft.left:
        raise UsageError(
            f"the nodes of cluster {draft.spec.name} cannot share a folder of one host: they are on several hosts",
            evidence="share is true",
            fix=f"{SHARING_HOSTS}, and name it: `share: FOLDER` in the spec, or --share FOLDER",
        )
    if SHARE in draft.left:
        share = seen.spec.share if seen.spec else False
        draft = replace(draft, spec=changed(draft.spec, share=share), left=draft.left - {SHARE})
    if seen.spec:
        spec = draft.filled(seen.spec)
    else:
        spec = choose(draft, _all_taken(part.taken for part in seen.parts.values())) if draft.left else draft.spec
    hosts = tuple(_settled_host(host, draft, seen) for host in spec.hosts)
    overlay = spec.network.overlay
    if overlay.type != "none":
        before = seen.spec.network.overlay if seen.spec else overlay
        known = before.mtu if before.encryption == overlay.encryption else None
        overlay = changed(overlay, mtu=overlay.mtu or known)
        spec = changed(spec, network=changed(spec.network, overlay=overlay))
        mtu = agree_mtu(spec, {host: part.mtu for host, part in seen.parts.items()})
        spec = changed(spec, network=changed(spec.network, overlay=changed(overlay, mtu=mtu)))
    return changed(spec, hosts=hosts)


def _settled_host(host: HostSpec, draft: Draft, seen: SpanningCluster) -> HostSpec:
    """With its engine and its address as it says; of one that does not answer, as recorded."""
    part, recorded = seen.parts.get(host.name), seen.spec.host(host.name) if seen.spec else None
    if part is not None:
        if not host.engine and not part.exists and recorded and recorded.engine not in (None, part.engine):
            raise HostNotReady(
                f"{host.name} has its nodes of cluster {draft.spec.name} on {recorded.engine}, where none are seen now",
                evidence=f"recorded is {recorded.engine}; no engine that answers there has the cluster",
                fix=f"on {host.name}: gpuprov doctor; for new nodes on {part.engine}: "
                f"`hosts: [{{name: {host.name}, engine: {part.engine}}}]` in the spec",
            )
        spoken = host.engine or (None if not draft.engine_open else part.engine)
        return changed(host, engine=spoken, internal_ip=host.internal_ip or part.address or None)
    if recorded is None:
        return host
    return changed(host, engine=host.engine or recorded.engine, internal_ip=host.internal_ip or recorded.internal_ip)


def _all_taken(found: Iterable[Taken]) -> Taken:
    """What any host has."""
    every = list(found)
    return Taken(
        names={name: holder for taken in every for name, holder in taken.names.items()},
        links=tuple(link for taken in every for link in taken.links),
        nodes=frozenset(node for taken in every for node in taken.nodes),
        prefixes=frozenset(prefix for taken in every for prefix in taken.prefixes),
    )
