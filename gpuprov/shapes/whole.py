"""The nodes of all hosts of a cluster as one value: recorded on each host, and told to the others."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from ipaddress import IPv4Address
from itertools import chain
from typing import Annotated, ClassVar

from msgspec import UNSET, Meta, UnsetType

from gpuprov.shapes.base import Shape, changed
from gpuprov.shapes.words import Word

TunnelKeyIfAny = Annotated[str, Meta(pattern=r"^([A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=)?\Z")]


class LeasedUnit(Shape, frozen=True, kw_only=True):
    """A GPU, or a part of one that MIG has cut.

    Attributes:
        type: As jobs ask for it: the profile of a part, `1g.10gb`; of a GPU a short name of its model.
        devices: Path of the GPU's device; of a part also those of its two capabilities.
    """

    uuid: Word
    type: Word
    devices: tuple[Word, ...]

    @property
    def is_part(self) -> bool:
        """Whether it is a part of a GPU."""
        return len(self.devices) > 1


class Member(Shape, frozen=True, kw_only=True):
    """A node as the files of the others name it.

    Attributes:
        devices: Paths of its GPUs, in order of minor.
        gpu_types: A short name of the model of each; none if unknown.
        gpu_cores: Of its host that are nearest to each; left out if unknown, or if they are the same for all.
        gpus: UUIDs of the GPUs and of the parts of GPUs that it holds.
        units: The same one by one; left out where all are whole GPUs of one type.
        address: On the NAT network; empty where others do not reach it by that.
        host: On which it is, where the cluster spans hosts; empty else.
        cpus: Of its host; 0 for those of this one.
        memory_bytes: Of its host; 0 for that of this one.
    """

    may_omit: ClassVar[bool] = True
    name: Word
    address: Word
    private_address: Word
    role: Word
    devices: tuple[Word, ...] = ()
    gpu_types: tuple[Word, ...] = ()
    gpu_cores: tuple[Word, ...] | UnsetType = UNSET
    gpus: tuple[Word, ...] = ()
    units: tuple[LeasedUnit, ...] | UnsetType = UNSET
    simulated: bool = False
    host: Word = ""
    cpus: int = 0
    memory_bytes: int = 0

    @property
    def parts(self) -> tuple[LeasedUnit, ...]:
        """Those of its units that are parts of GPUs."""
        return () if self.units is UNSET else tuple(unit for unit in self.units if unit.is_part)

    @property
    def gpu_count(self) -> int:
        """How many jobs can have a GPU, or a part of one, for themselves."""
        return len(self.devices) if self.units is UNSET else len(self.units)


class TunnelEnd(Shape, frozen=True, kw_only=True):
    """A host's end of the encrypted links between hosts.

    Attributes:
        address: In the tunnel.
        key: The host's public key; empty until it has told one.
    """

    may_omit: ClassVar[bool] = True
    host: Word
    address: Word
    key: TunnelKeyIfAny = ""

    def __post_init__(self) -> None:
        """Refuse what is no address."""
        IPv4Address(self.address)


class WholeCluster(Shape, frozen=True, kw_only=True):
    """The nodes of all hosts, with what files say of them.

    Attributes:
        serial: Counts the changes; a host that was unreachable has a lower one than the others.
        members: Each with its host, and that host's CPUs and memory; by name.
        tunnels: Each host's end of the encrypted links between them; none where there are none.
    """

    may_omit: ClassVar[bool] = True
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
        mine = [changed(member, host=host, cpus=cpus, memory_bytes=memory_bytes) for member in members]
        others = [member for member in self.members if member.host != host]
        return changed(self, members=tuple(sorted((*others, *mine), key=lambda member: member.name)))

    def with_hosts(self, nodes: Mapping[str, Iterable[Member]]) -> WholeCluster:
        """The same with these nodes on hosts, as they say of themselves, in place of those that each had."""
        staying = (member for member in self.members if member.host not in nodes)
        members = sorted(chain(staying, *nodes.values()), key=lambda member: member.name)
        return changed(self, members=tuple(members))

    def without(self, names: Collection[str]) -> WholeCluster:
        """The next state, without these nodes; the same where it has none of them."""
        staying = tuple(member for member in self.members if member.name not in names)
        return changed(self, members=staying).changed_from(self)

    def without_host(self, host: str) -> WholeCluster:
        """The same without a host and its nodes."""
        return changed(self, members=tuple(member for member in self.members if member.host != host))

    def changed_from(self, before: WholeCluster) -> WholeCluster:
        """The value to record: with the next serial where it says something else than before."""
        is_other = (self.members, self.tunnels) != (before.members, before.tunnels)
        return changed(self, serial=before.serial + 1) if is_other else before

    def reachable_members(self) -> tuple[Member, ...]:
        """The nodes as files name them: from host to host by their private addresses alone."""
        if len({member.host for member in self.members}) <= 1:
            return self.members
        return tuple(changed(member, address="") for member in self.members)

    def addresses_beside(self, host: str) -> dict[str, str]:
        """The private addresses on other hosts, each with its holder: no node of this one can have them."""
        return {
            member.private_address: f"node {member.name} on {member.host}"
            for member in self.members
            if member.host != host and member.private_address
        }
