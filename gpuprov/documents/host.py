"""`host show` and `host list`: what hosts are and have, as they say it themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpuprov import __version__
from gpuprov.core.error_document import error_parts
from gpuprov.documents.envelope import document
from gpuprov.documents.gpus import board_document
from gpuprov.shapes.base import write

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpuprov.host.remote.several import HostAnswer
    from gpuprov.planes.over_hosts.host_look import HostLook


def look_document(look: HostLook, *, host: str) -> dict[str, Any]:
    """A host, as it sees itself."""
    return document(
        "host",
        host=host,
        gpuprov=__version__,
        machine=look.machine,
        kernel=look.kernel,
        clock_s=round(look.clock_s, 3),
        disk_free_bytes=look.disk_free_bytes,
        limits=dict(look.limits),
        engines=[
            *({"engine": name, "facts": write(facts), "error": None} for name, facts in look.engines.items()),
            *({"engine": name, "facts": None, "error": error_parts(error)} for name, error in look.silent.items()),
        ],
        nodes=[write(row) for row in look.nodes],
        gpus=board_document(look.board, host=host) if look.board else None,
        gpu_error=error_parts(look.gpu_error) if look.gpu_error else None,
    )


def hosts_document(answers: Iterable[HostAnswer]) -> dict[str, Any]:
    """The hosts that this user has added; of each that answers, the same as `host show`."""
    return document("hosts", hosts=[_answer_document(answer) for answer in answers])


def _answer_document(answer: HostAnswer) -> dict[str, Any]:
    machine = answer.machine
    return {
        "name": machine.name,
        "address": machine.address,
        "user": machine.user or None,
        "port": machine.port,
        "identity_file": machine.identity_file or None,
        "proxy_jump": machine.proxy_jump or None,
        "status": "away" if answer.away_since else "error" if answer.error else "ready",
        "away_since": answer.away_since or None,
        "error": error_parts(answer.error) if answer.error else None,
        "look": answer.document,
    }
