"""What a host would change for its part of a cluster, as it answers to `plan`."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gpuprov.cluster.whole import parse_whole
from gpuprov.documents.member_answers import read_lines, strictly

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.cluster.files import Member


@dataclass(frozen=True, kw_only=True)
class PlannedPart:
    """A host's answer to `plan`.

    Attributes:
        lines: One for each change.
        mine: Its nodes as they would be.
        secret: What they share now; empty where there is none.
    """

    lines: tuple[str, ...]
    mine: tuple[Member, ...]
    secret: bytes = field(repr=False)


def read_planned_part(told: Mapping[str, Any], host: str) -> PlannedPart:
    """The answer of a host.

    Raises:
        GpuprovError: It is none.
    """

    def read() -> tuple[str, bytes]:
        whole, secret = told["whole"], told["secret"]
        if not (isinstance(whole, str) and isinstance(secret, str)):
            raise ValueError("a plan has no nodes")  # noqa: TRY004 - all that is wrong in an answer is a ValueError
        return whole, base64.b64decode(secret, validate=True)

    whole, secret = strictly(read, host)
    mine = parse_whole(whole, source=f"the answer of {host}").on(host)
    return PlannedPart(lines=read_lines(told, "plan", host), mine=mine, secret=secret)
