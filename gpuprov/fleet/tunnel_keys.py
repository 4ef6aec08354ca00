"""Which ends the encrypted links between hosts have, and the public keys that hosts tell each other for them.

A private key never leaves its host: each host makes its own, and says the public one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.cluster.tunnels import agree_tunnels
from gpuprov.link.answers import read_answer
from gpuprov.link.ask import MemberRequest
from gpuprov.link.several import part_error, read_each
from gpuprov.shapes.base import changed
from gpuprov.shapes.members import OverlayKey
from gpuprov.shapes.orders import KeyOrder
from gpuprov.spec.overlay import vni_of

if TYPE_CHECKING:
    from gpuprov.fleet.hosted_cluster import SpanningCluster
    from gpuprov.link.hosts import Hosts
    from gpuprov.shapes.base import Told
    from gpuprov.shapes.cluster_spec import ClusterSpec
    from gpuprov.shapes.whole import WholeCluster


def with_tunnels(spec: ClusterSpec, seen: SpanningCluster) -> WholeCluster:
    """The cluster as it was seen, with an end for each host of the spec; without a key where a host has none yet.

    Raises:
        UsageError: No addresses are free for them.
    """
    told = {host: part.tunnel_key for host, part in seen.parts.items()}
    links = [link for part in seen.parts.values() for link in part.taken.links]
    same_number = seen.spec is not None and vni_of(seen.spec) == vni_of(spec)
    known = seen.whole.tunnels if same_number else ()  # else its addresses, which follow from the number, are others
    return changed(seen.whole, tunnels=agree_tunnels(spec, known, told, links))


def exchange_keys(whole: WholeCluster, seen: SpanningCluster, hosts: Hosts) -> WholeCluster:
    """The same with the keys of the hosts that had none and answer: they make them now.

    Raises:
        GpuprovError: A host cannot make one, or does not answer any more.
    """
    request = MemberRequest(order=KeyOrder(cluster=seen.name))
    lacking = [end.host for end in whole.tunnels if not end.key and end.host in seen.parts]
    if not lacking:
        return whole
    keys, failed = read_each(hosts.work({seen.machines[host]: request for host in lacking}), _read_key)
    error = part_error(
        failed, of=len(lacking), what="nothing was changed: hosts have no key for the overlay", undone=True
    )
    if error:
        raise error
    ends = tuple(changed(end, key=keys.get(end.host, end.key)) for end in whole.tunnels)
    return changed(whole, tunnels=ends)


def _read_key(told: Told, host: str) -> str:
    return read_answer(OverlayKey, told, host).key
