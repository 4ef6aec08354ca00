"""LXD and Incus are of one family: the one table of what differs between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, kw_only=True)
class Kin:
    """What a driver must know of one of them.

    Attributes:
        title: Its name in a sentence.
        command: Its command line client.
        folder: Where it keeps its storage, unless its socket lies beside that.
        rules: Its table in nftables, of the family inet.
        guest_api: The config key by which an instance may read its own configuration.
        oldest: The oldest version that works.
    """

    title: str
    command: str
    folder: str
    rules: str
    guest_api: str
    oldest: str


KIN: Final[Mapping[str, Kin]] = {
    "lxd": Kin(
        title="LXD",
        command="lxc",
        folder="/var/lib/lxd",
        rules="lxd",
        guest_api="security.devlxd",
        oldest="5.0",
    ),
    "incus": Kin(
        title="Incus",
        command="incus",
        folder="/var/lib/incus",
        rules="incus",
        guest_api="security.guestapi",
        oldest="6.0",
    ),
}
