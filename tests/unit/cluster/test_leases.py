from __future__ import annotations

import json

import pytest

from gpuprov.core.queue import Ticket
from gpuprov.gpu.allocate import LeaseRequest
from gpuprov.gpu.tickets import parse_ticket, render_ticket

HOSTILE = "\x1b[2J\nroot waits\u202e" + "x" * 60_000


def ticket(text: str) -> Ticket:
    return Ticket(number=1, text=text, since_s=0.0)


def test_a_ticket_is_read_as_it_was_written() -> None:
    request = LeaseRequest(node="job-1", sharing="exclusive", count=2, wanted=("GPU-1",), among=("GPU-1", "GPU-2"))
    read = parse_ticket(ticket(render_ticket(request)))
    assert read
    assert (read.sharing, read.count, read.wanted, read.among) == ("exclusive", 2, ("GPU-1",), ("GPU-1", "GPU-2"))
    assert read.node.startswith("process ")


def test_what_another_process_says_of_itself_is_shown_in_a_printable_line() -> None:
    said = {"node": HOSTILE, "sharing": "shared", "count": 1, "wanted": [HOSTILE], "among": [HOSTILE]}
    read = parse_ticket(ticket(json.dumps(said)))
    assert read
    for words in (read.node, *read.wanted, *(read.among or ())):
        assert words.isprintable()
        assert len(words) <= 200


@pytest.mark.parametrize("text", ["", "null", "[]", "[" * 60_000, '{"node": 1}', '{"among": 3, "count": "x"}'])
def test_what_is_no_ticket_waits_for_nothing(text: str) -> None:
    assert parse_ticket(ticket(text)) is None
