"""The nodes of all hosts of a cluster, as they are recorded on a host, from which it renders the files of its own."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from gpuprov.core.errors import EngineError
from gpuprov.drivers.base import LABEL_HOST, LABEL_MEMBERS
from gpuprov.shapes.base import read
from gpuprov.shapes.whole import WholeCluster

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuprov.cluster.state import ClusterState
    from gpuprov.shapes.whole import Member

_SHOWN = 200  # characters


def dump_whole(whole: WholeCluster) -> str:
    """One line of JSON, the form in which it is recorded as a label and told to other hosts."""
    return msgspec.json.encode(whole, order="sorted").decode()


def parse_whole(text: str, *, source: str) -> WholeCluster:
    """Read what `dump_whole` wrote.

    Args:
        text: What was recorded.
        source: Where, for an error: `network gpbr0`.

    Raises:
        EngineError: It is something else.
    """
    whole = _read(text)
    if isinstance(whole, str):
        raise EngineError(
            f"the nodes of all hosts, as recorded with {source}, cannot be read",
            evidence=ascii(whole)[1:-1][:_SHOWN],
            fix="gpuprov cluster up -f FILE  # records them again",
        )
    return whole


@lru_cache(maxsize=16)
def _read(text: str) -> WholeCluster | str:
    """What a text says, or what is wrong with it; every host tells the same text."""
    try:
        whole = read(WholeCluster, text)
    except ValueError as error:
        return str(error)
    names = {member.name for member in whole.members}
    return whole if len(names) == len(whole.members) else "members: a name occurs twice"


def newest_whole(found: Sequence[WholeCluster]) -> WholeCluster:
    """What hosts have recorded at different times: the latest; an empty one where none has anything."""
    return max(found, key=lambda whole: whole.serial, default=WholeCluster())


def recorded_whole(state: ClusterState) -> WholeCluster | None:
    """What is recorded on this host; None for a cluster of one host alone.

    Raises:
        EngineError: It cannot be read.
    """
    for network in state.own_networks:
        if network.labels.get(LABEL_MEMBERS):
            return parse_whole(network.labels[LABEL_MEMBERS], source=f"network {network.name}")
    return None


def is_elsewhere(state: ClusterState, node: str) -> bool:
    """Whether a node of the cluster is on another host, as far as is recorded here."""
    whole = recorded_whole(state)
    return whole is not None and whole.homes.get(node, "") not in ("", recorded_host(state))


def recorded_host(state: ClusterState) -> str:
    """This host's name in a cluster that spans hosts; empty for a cluster of one host alone."""
    return next((label for network in state.own_networks if (label := network.labels.get(LABEL_HOST))), "")


def members_elsewhere(state: ClusterState) -> tuple[Member, ...]:
    """The nodes on other hosts, as recorded on this one; none for a cluster of one host alone."""
    whole, host = recorded_whole(state), recorded_host(state)
    return tuple(member for member in (whole.members if whole else ()) if member.host != host)
