"""Who hands jobs in, if known.

The folder of jobs belongs to the account of all jobs, so whoever can submit can write another name there.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from gpuprov.shapes.base import Shape

VARIABLE = "GPUWORK_SUBMITTER"  # by which gpuprov tells it to the program that takes jobs


class Submitter(Shape, frozen=True, kw_only=True):
    """Who handed a submission in; whoever can submit to the cluster can change it.

    Attributes:
        name: Of an account of `host`.
        host: Where that account is.
        known_by: `login`: who logged in to `host`, as its kernel says, also over sudo; `user`: whose process it was;
            `claim`: only what a variable says, such as SUDO_USER.
        ssh_from: The address that ssh came from, as a variable says.
        person: The person of the cluster for whom they acted (`--as`); absent where they did for nobody.
    """

    name: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.@$-]{0,63}\Z")]
    host: Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,252}\Z")]
    known_by: Literal["login", "user", "claim"]
    ssh_from: Annotated[str, Meta(pattern=r"^[0-9A-Fa-f.:%a-z]{2,64}\Z")] | None
    person: Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_-]{0,30}\Z")] | UnsetType = UNSET

    @property
    def owner(self) -> str:
        """Whose it is: the person acted for, else the account."""
        return self.person or self.name
