"""Networks in an engine's cluster: made on all members at once, and shared by those of one cluster over hosts."""

from __future__ import annotations

import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from gpuprov.core.errors import EngineError
from gpuprov.drivers.base import LABEL_BEGUN, LABEL_CLUSTER, LABEL_HOSTS
from gpuprov.drivers.lxd import documents
from gpuprov.drivers.lxd.api import NotFound
from gpuprov.drivers.lxd.member_labels import drop_labels, joinable_by, keep_labels, read_kept
from gpuprov.drivers.lxd.members import read_members

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpuprov.drivers.lxd.api import Document, LxdApi
    from gpuprov.drivers.lxd.member_labels import Kept
    from gpuprov.drivers.networks import NetworkRequest
    from gpuprov.shapes.engine import EngineCluster

_DEFINED = "already defined"
_UNFINISHED = ("Pending", "Errored")
_STEP_S, _WAIT_S = 0.2, 20.0  # for another member that is making the same network


def is_unfinished(document: Mapping[str, object]) -> bool:
    """Whether a network is announced and not made on all members: what makes it was killed, or has not come so far."""
    return document.get("status") in _UNFINISHED


def create_on_members(api: LxdApi, request: NetworkRequest) -> None:
    """Make a network of this member's, or take part in one of the same cluster over hosts.

    Raises:
        EngineError: A member is unreachable, or the name is taken.
    """
    members = require_members(api, f"create the network {request.name}").members
    before = read_kept(api)
    begun = bool(before.get(request.name))  # by a run that was killed, or by another host of the cluster
    _refuse_taken(api, request, before)
    keep_labels(api, request.name, request.labels)  # first: nothing else shows whose an unfinished network is
    try:
        if not _define(api, request, members):
            _await(api, request, members, begun=begun)
    except BaseException:
        drop_labels(api, request.name)
        raise


def _refuse_taken(api: LxdApi, request: NetworkRequest, kept: Kept) -> None:
    found = _find(api, request.name)
    if found is None or is_unfinished(found):
        return
    if request.labels.get(LABEL_HOSTS) and joinable_by(found, kept, api.member) == request.labels[LABEL_CLUSTER]:
        return
    raise EngineError(
        f"the network {request.name} exists already",
        evidence=f"it is on all members of the {api.kin.title} cluster, of which this host is {api.member}",
        fix="choose other bridges: network.bridge and network.private_bridge in the spec",
    )


def _define(api: LxdApi, request: NetworkRequest, members: tuple[str, ...]) -> bool:
    """Announce it to each member, then make it; False where another host is doing so, or has."""
    if _find(api, request.name):
        return False
    try:
        _announce(api, request.name, members[0])
    except EngineError as error:
        if _DEFINED in error.evidence:
            return False
        raise
    try:
        for member in members[1:]:
            _announce(api, request.name, member)
        api.send("post", "networks", body=documents.render_network(request))
    except BaseException:
        with suppress(EngineError):
            api.delete("networks", request.name)
        raise
    return True


def _announce(api: LxdApi, name: str, member: str) -> None:
    api.send("post", "networks", body={"name": name, "type": "bridge"}, target=member)


def _await(api: LxdApi, request: NetworkRequest, members: tuple[str, ...], *, begun: bool) -> None:
    """Wait for the host that makes it; what a killed run of ours has announced is announced again."""
    found = _finished(api, request.name)
    if found is None or (begun and is_unfinished(found)):
        if found:
            api.delete("networks", request.name)
        if _define(api, request, members):
            return
        found = _finished(api, request.name)
    if found is None or is_unfinished(found):
        raise EngineError(
            f"the network {request.name} is announced to the members of the {api.kin.title} cluster, but not created",
            evidence=f"its status is {found['status'] if found else 'unknown'}, for {_WAIT_S:g} s",
            fix=f"if nothing is creating it: {api.command} network delete {request.name}; then run the same command "
            "again",
        )
    _require_same(api, request, found)


def _finished(api: LxdApi, name: str) -> Document | None:
    """A network once it is made, or as it is after a while; None where it is gone."""
    end_s = time.monotonic() + _WAIT_S
    while (found := _find(api, name)) and is_unfinished(found) and time.monotonic() < end_s:
        time.sleep(_STEP_S)
    return found


def _require_same(api: LxdApi, request: NetworkRequest, found: Document) -> None:
    """Take part in what another host has made for the same cluster and with the same subnets, and in nothing else."""
    made_for = documents.parse_labels(found["config"])
    if any(made_for.get(label) != request.labels.get(label) for label in (LABEL_CLUSTER, LABEL_BEGUN)):
        raise EngineError(
            f"the network {request.name} has been created by another member of the {api.kin.title} cluster",
            evidence=f"cluster {made_for.get(LABEL_CLUSTER) or '(none)'}, with other bridges or subnets",
            fix="run the same command again",
        )


@contextmanager
def removal_on_members(api: LxdApi, name: str, labels: Mapping[str, str]) -> Iterator[bool]:
    """Give up this host's part in a network; the block removes it where that was the last one, which it is told.

    The labels are there again where the block fails. Where the engine is in no cluster, there is one part.
    """
    if not api.member:
        yield True
        return
    drop_labels(api, name)
    try:
        is_last = not read_kept(api).get(name)
        if is_last:
            require_members(api, f"remove the network {name}")
        yield is_last
    except EngineError:
        if _find(api, name) is None:  # another host was as fast
            return
        keep_labels(api, name, labels)
        raise


def require_members(api: LxdApi, deed: str) -> EngineCluster:
    """The engine's cluster, all members of which LXD needs to make or remove a network.

    Raises:
        EngineError: One is unreachable.
    """
    cluster = read_members(api)
    if cluster.away:
        raise EngineError(
            f"{api.kin.title} cannot {deed}: a member of its cluster is unreachable",
            evidence=f"{', '.join(cluster.away)} of {', '.join(cluster.members)}; networks are on all members",
            fix=f"start {', '.join(cluster.away)}; see: {api.command} cluster list",
        )
    return cluster


def _find(api: LxdApi, name: str) -> Document | None:
    """A managed network of that name."""
    try:
        found: Document = api.get("networks", name)
    except NotFound:
        return None
    return found if found.get("managed") else None
