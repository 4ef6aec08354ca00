"""The network over which Slurm's daemons reach each other: the first one, or the private one where the spec says so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpuprov.core.errors import UsageError
from gpuprov.core.names import fold, name_cluster
from gpuprov.roles.slurm.facts import NAME
from gpuprov.shapes.base import changed
from gpuprov.spec.rule import SpecRule

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from gpuprov.roles.crew import Crew
    from gpuprov.shapes.cluster_spec import ClusterSpec
    from gpuprov.shapes.whole import Member
    from gpuprov.spec.rule import Found

_KEY: Final = "slurm.network"
_PRIVATE: Final = "private"


def as_reached(spec: ClusterSpec, members: Sequence[Member]) -> list[Member]:
    """The nodes with the addresses at which Slurm reaches them; over hosts, nodes have no others than private ones."""
    if spec.slurm.network != _PRIVATE:
        return [*members]
    return [changed(member, address=member.private_address or member.address) for member in members]


def refuse_apart(crew: Crew) -> None:
    """Refuse nodes of Slurm that are not on its network.

    Raises:
        UsageError: Some have no address there.
    """
    apart = [member.name for member in crew.of(NAME) if not member.private_address]
    if crew.spec.slurm.network == _PRIVATE and apart:
        raise UsageError(
            f"{fold(apart)} cannot be in Slurm without the private network",
            evidence=f"{_KEY} is {_PRIVATE}: Slurm's nodes reach each other there",
            fix="omit --network; or set slurm.network to nat: "
            + name_cluster("gpuprov cluster up", crew.spec.name)
            + " -f FILE",
        )


def _role(spec: ClusterSpec, _root: Path) -> Found:
    if spec.slurm.network == _PRIVATE and spec.nodes.role != NAME:
        yield _KEY, f"nodes with the role {spec.nodes.role} have no Slurm", f"nat, or nodes.role: {NAME}"


RULES: Final = (SpecRule(reads=(_KEY, "nodes.role"), find=_role),)
