"""Orders that no verb has, and those of a verb by its name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import msgspec

from gpuprov.fleet.member.serve import read_order, serve_request
from gpuprov.shapes.base import raw
from gpuprov.shapes.orders import Order

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.core.reporter import Reporter
    from gpuprov.machine.base import Host
    from gpuprov.shapes.base import Shape


def odd_order(verb: str, **fields: object) -> Order:
    """One with this verb and these fields, whatever members know."""
    kind = msgspec.defstruct(
        "OddOrder",
        [(name, Any) for name in fields],
        bases=(Order,),
        namespace={"verb": verb},
        frozen=True,
        kw_only=True,
    )
    return cast("Order", kind(**fields))


def serve_given(verb: str, given: Mapping[str, Any], host: Host, *, reporter: Reporter) -> Shape:
    """What a member answers to a verb and its document."""
    return serve_request(read_order(verb, raw(msgspec.json.encode(given).decode())), host, reporter=reporter)
