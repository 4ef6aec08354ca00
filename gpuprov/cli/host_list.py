"""`gpuprov host list`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpuprov.cli.tables import render_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuprov.cli.session import Session
    from gpuprov.link.several import HostAnswer
    from gpuprov.shapes.host import Host, KnownHost

HEADERS = ("HOST", "ADDRESS", "STATUS", "ENGINES", "NODES", "GPUS", "FREE", "MODEL")


@click.command()
@click.pass_obj
def command(session: Session) -> int:
    """List the hosts that `host add` has added, with what each reports now. Changes nothing.

    All are asked at once. If some do not answer, the others are listed all the same, and it exits with 7.
    """
    from gpuprov.cli.failure import fail
    from gpuprov.core.errors import GpuprovError
    from gpuprov.link.hosts_file import read_machines
    from gpuprov.link.places import ensure_places
    from gpuprov.link.several import require_all
    from gpuprov.shapes.host import Hosts
    from gpuprov.stories.hosts import look_at_hosts

    places = ensure_places()
    answers = look_at_hosts(tuple(read_machines(places.inventory).values()), places)
    told = tuple(map(_tell, answers))
    text = "no hosts; add one: gpuprov host add NAME --address ADDRESS"
    if answers:
        text = render_table(
            HEADERS,
            [_cells(*both) for both in zip(answers, (one.look for one in told), strict=True)],
            screen=session.screen,
        )
    document = Hosts(hosts=told)
    try:
        require_all(answers)
    except GpuprovError as error:
        return fail(session, error, result=document, text=text)
    session.show(document, text)
    return 0


def _tell(answer: HostAnswer) -> KnownHost:
    from gpuprov.link.answers import read_answer
    from gpuprov.shapes.base import of_object
    from gpuprov.shapes.error import ErrorParts
    from gpuprov.shapes.host import Host, KnownHost

    machine = answer.machine
    return KnownHost(
        name=machine.name,
        address=machine.address,
        user=machine.user or None,
        port=machine.port,
        identity_file=machine.identity_file or None,
        proxy_jump=machine.proxy_jump or None,
        status="away" if answer.away_since else "error" if answer.error else "ready",
        away_since=answer.away_since or None,
        error=of_object(ErrorParts, answer.error) if answer.error else None,
        look=None if answer.document is None else read_answer(Host, answer.document, machine.name),
    )


def _cells(answer: HostAnswer, look: Host | None) -> Sequence[object]:
    machine = answer.machine
    if look is None:
        status = f"away since {answer.away_since}" if answer.away_since else "error"
        return (machine.name, machine.destination, status, "", "", "", "", "")
    gpus = look.gpus.gpus if look.gpus else ()
    free = [gpu for gpu in gpus if gpu.present and not gpu.holders]
    models = sorted({gpu.model for gpu in gpus if gpu.present and gpu.model})
    engines = ",".join([*look.facts, *(f"{engine}?" for engine in look.silent)])
    counts = (len(look.nodes), len(gpus), len(free))
    return (machine.name, machine.destination, "ready", engines, *counts, ", ".join(models))
