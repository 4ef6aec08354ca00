"""The nodes of all hosts as one value, from which each host renders the files of its own: pure functions."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from gpuprov.cluster.files import Member  # noqa: TC001 - the decoder reads it from the type hints
from gpuprov.cluster.tunnel_end import TunnelEnd  # noqa: TC001 - as above
from gpuprov.core.errors import EngineError
from gpuprov.core.plain import plain_fields
from gpuprov.drivers.base import LABEL_HOST, LABEL_MEMBERS
from gpuprov.spec.document import parse_json
from gpuprov.spec.schema import Decoder

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from gpuprov.cluster.state import ClusterState

_SHOWN = 200  # characters


@dataclass(frozen=True, kw_only=True)
class WholeCluster:
    """The nodes of all hosts, with what files say of them.

    Attributes:
        serial: Counts the changes; a host that was away has a lower one than the others.
        members: Each with its host, and that host's CPUs and memory; by name.
        tunnels: Each host's end of the encrypted links between them; none where there are none.
    """

    serial: int = 0
    members: tuple[Member, ...] = ()
    tunnels: tuple[TunnelEnd, ...] = ()

    @property
    def homes(self) -> dict[str, str]:
        """The host of each node."""
        return {member.name: member.host for member in self.members}

    def on(self, host: str) -> tuple[Member, ...]:
        """The nodes of a host."""
        return tuple(member for member in self.members if member.host == host)

    def with_host(self, host: str, members: Iterable[Member], *, cpus: int, memory_bytes: int) -> WholeCluster:
        """The same with these nodes on a host, in place of those that it had; `serial` stays."""
        mine = [replace(member, host=host, cpus=cpus, memory_bytes=memory_bytes) for member in members]
        others = [member for member in self.members if member.host != host]
        return replace(self, members=tuple(sorted((*others, *mine), key=lambda member: member.name)))

    def without(self, names: Collection[str]) -> WholeCluster:
        """The next state, without these nodes; the same where it has none of them."""
        staying = tuple(member for member in self.members if member.name not in names)
        return replace(self, members=staying).changed_from(self)

    def without_host(self, host: str) -> WholeCluster:
        """The same without a host and its nodes."""
        return replace(self, members=tuple(member for member in self.members if member.host != host))

    def changed_from(self, before: WholeCluster) -> WholeCluster:
        """The value to record: with the next serial where it says something else than before."""
        is_other = (self.members, self.tunnels) != (before.members, before.tunnels)
        return replace(self, serial=before.serial + 1) if is_other else before

    def reachable_members(self) -> tuple[Member, ...]:
        """The nodes as files name them: from host to host by their private addresses alone."""
        if len({member.host for member in self.members}) <= 1:
            return self.members
        return tuple(replace(member, address="") for member in self.members)

    def addresses_beside(self, host: str) -> dict[str, str]:
        """The private addresses on other hosts, each with its holder: no node of this one can have them."""
        return {
            member.private_address: f"node {member.name} on {member.host}"
            for member in self.members
            if member.host != host and member.private_address
        }


def dump_whole(whole: WholeCluster) -> str:
    """One line of JSON, the form in which it is recorded as a label and told to other hosts."""
    return json.dumps(plain_fields(whole), sort_keys=True, separators=(",", ":"))


def parse_whole(text: str, *, source: str) -> WholeCluster:
    """Read what `dump_whole` wrote.

    Args:
        text: What was recorded.
        source: Where, for an error: `network gpbr0`.

    Raises:
        EngineError: It is something else.
    """
    whole, problems = _read(text)
    if whole is None or problems:
        raise EngineError(
            f"the nodes of all hosts, as recorded with {source}, cannot be read",
            evidence=ascii("; ".join(problems))[1:-1][:_SHOWN],
            fix="gpuprov cluster up -f FILE  # records them again",
        )
    return whole


@lru_cache(maxsize=16)
def _read(text: str) -> tuple[WholeCluster | None, tuple[str, ...]]:
    """What a text says, and what is wrong with it; every host tells the same text."""
    decoder = Decoder()
    try:
        whole = decoder.decode(WholeCluster, parse_json(text))
        problems = [f"{problem.where or problem.file}: {problem.message}" for problem in decoder.problems]
    except (ValueError, RecursionError) as error:
        whole, problems = None, [f"not JSON: {error}"]
    names = [member.name for member in whole.members] if whole else []
    if len(set(names)) < len(names):
        problems.append("members: a name occurs twice")
    problems += [f"tunnels: {end.problem}" for end in (whole.tunnels if whole else ()) if end.problem]
    return whole, tuple(problems)


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
