"""`gpuprov host list`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpuprov.cli.tables import render_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuprov.cli.session import Session
    from gpuprov.host.remote.several import HostAnswer

HEADERS = ("HOST", "ADDRESS", "STATUS", "ENGINES", "NODES", "GPUS", "FREE", "MODEL")


@click.command()
@click.pass_obj
def command(session: Session) -> int:
    """List the hosts that `host add` has added, with what each reports now. Changes nothing.

    All are asked at once. If some do not answer, the others are listed all the same, and it exits with 7.
    """
    from gpuprov.cli.failure import fail
    from gpuprov.core.errors import GpuprovError
    from gpuprov.documents.host import hosts_document
    from gpuprov.host.remote.inventory import read_machines
    from gpuprov.host.remote.places import ensure_places
    from gpuprov.host.remote.several import require_all
    from gpuprov.spanning.hosts import look_at_hosts

    places = ensure_places()
    answers = look_at_hosts(tuple(read_machines(places.inventory).values()), places)
    text = "no hosts; add one: gpuprov host add NAME --address ADDRESS"
    if answers:
        text = render_table(HEADERS, [_cells(answer) for answer in answers], colour=session.colour)
    document = hosts_document(answers)
    try:
        require_all(answers)
    except GpuprovError as error:
        return fail(session, error, result=document, text=text)
    session.show(document, text)
    return 0


def _cells(answer: HostAnswer) -> Sequence[object]:
    from gpuprov.documents.member_answers import read_look

    machine = answer.machine
    if answer.document is None:
        status = f"away since {answer.away_since}" if answer.away_since else "error"
        return (machine.name, machine.destination, status, "", "", "", "", "")
    look = read_look(answer.document, machine.name)
    rows = look.board.rows if look.board else ()
    free = [row for row in rows if row.gpu is not None and not row.holders]
    models = sorted({row.gpu.model for row in rows if row.gpu is not None})
    engines = ",".join([*look.engines, *(f"{engine}?" for engine in look.silent)])
    counts = (len(look.nodes), len(rows), len(free))
    return (machine.name, machine.destination, "ready", engines, *counts, ", ".join(models))
