"""What those who wait for GPUs write into the queue, and how others read it."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from gpuprov.core.excerpt import excerpt
from gpuprov.core.lock import describe_process
from gpuprov.gpu.allocate import LeaseRequest

if TYPE_CHECKING:
    from gpuprov.core.queue import Queue, Ticket


def read_waiting(queue: Queue, *, before: int | None = None) -> tuple[LeaseRequest, ...]:
    """Who stands in the queue, the first one first; with `before`, only those ahead of that ticket."""
    tickets = [ticket for ticket in queue.waiting() if before is None or ticket.number < before]
    return tuple(request for ticket in tickets if (request := parse_ticket(ticket)) is not None)


def render_ticket(request: LeaseRequest) -> str:
    """A request as others in the queue read it; it waits under the name of this process."""
    return json.dumps({**asdict(request), "node": describe_process()})


def parse_ticket(ticket: Ticket) -> LeaseRequest | None:
    """What another process waits for; None where it is written in another form."""
    try:
        said: dict[str, Any] = json.loads(ticket.text)
        among = said["among"]
        return LeaseRequest(
            node=excerpt(str(said["node"])),
            sharing="exclusive" if said["sharing"] == "exclusive" else "shared",
            count=int(said["count"]),
            wanted=tuple(excerpt(str(gpu)) for gpu in said["wanted"]),
            among=None if among is None else tuple(excerpt(str(gpu)) for gpu in among),
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
