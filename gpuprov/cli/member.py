"""What other hosts' gpuprov starts here over ssh, and systemd at boot: member, member-tree, member-restore.

They are not for people.
"""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

import click

from gpuprov.cli.command import command
from gpuprov.shapes.choices import ENGINES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpuprov.cli.session import Session
    from gpuprov.core.outcome import Outcome
    from gpuprov.link.serve import MemberEnd
    from gpuprov.shapes.lines import Request

EXIT_INTERRUPTED = 130
ASKED_OFTEN = ("cluster-nodes", "node-run")
_PIECE = 65536


@command(hidden=True)
def serve(session: Session) -> int:
    """Serve what another host's gpuprov requests, in JSON lines on stdin and stdout.

    It ends, and undoes what it has begun, as soon as nobody listens any more.
    """
    from gpuprov.core.error_document import error_parts
    from gpuprov.core.errors import GpuprovError
    from gpuprov.link.requests import Requests, Unanswered
    from gpuprov.link.serve import take_streams

    requests = Requests(*take_streams())
    requests.greet(session.host.name)
    # They load much: after the greeting, and once for all requests
    import gpuprov.fleet.member.serve  # noqa: F401
    from gpuprov.machine.survey import load_installed

    load_installed(session.host.engines)
    try:
        while (asked := requests.receive()) is not None:
            parent = os.getpid()
            try:
                end = requests.fork()
                if end is not None:
                    _serve(session, end, asked)
            finally:
                if os.getpid() != parent:  # what called this is the business of that process
                    sys.stderr.flush()
                    os._exit(0)
    except GpuprovError as error:
        return _refuse(session, requests.refuse(), error, error_parts(error))
    except Unanswered as ended:
        return ended.exit_code
    return 0


def _serve(session: Session, end: MemberEnd, asked: Request) -> None:
    from gpuprov.cli.failure import unexpected_parts
    from gpuprov.cli.runlog import Both
    from gpuprov.core.error_document import error_parts
    from gpuprov.core.errors import GpuprovError
    from gpuprov.core.reporter import TimingReporter
    from gpuprov.fleet.member.serve import read_order, serve_request

    try:
        order = read_order(asked.verb, asked.document)
        sys.argv += [asked.verb, getattr(order, "cluster", "")]  # for those who wait for the lock to read
        host = session.host.called(asked.host)
        # who follows a job asks every second: logs of these would push out all others
        reporter = TimingReporter(end if asked.verb in ASKED_OFTEN else Both(end, session.log))
        end.result(serve_request(order, host, reporter=reporter))
    except GpuprovError as error:
        _refuse(session, end, error, error_parts(error))
    except KeyboardInterrupt:
        session.log.note("interrupted")
        end.error(
            {
                "what": "interrupted",
                "evidence": "the changes of this run were undone",
                "fix": "run the command again",
                "exit_code": EXIT_INTERRUPTED,
            }
        )
    except Exception as error:  # noqa: BLE001 - as main() does: one line and a log
        _refuse(session, end, error, unexpected_parts(session, error))


def _refuse(session: Session, end: MemberEnd, error: Exception, parts: Mapping[str, Any]) -> int:
    session.log.error(error)
    end.error(parts)
    return int(parts["exit_code"])


@command(click.option("--engine", type=click.Choice(ENGINES), required=True, help="Whose networks."), hidden=True)
def restore(session: Session) -> Outcome:
    """Restore isolation and overlays of an engine's networks; a second run changes nothing. Needs root."""
    from gpuprov.lifecycle.restore_host import restore_host

    return restore_host(session.engine or "", session.host, reporter=session.reporter)


@command(
    click.argument("way", type=click.Choice(["read", "write"])),
    click.argument("engine", type=click.Choice(ENGINES)),
    click.argument("node"),
    click.argument("path"),
    hidden=True,
)
def tree(session: Session, way: str, node: str, path: str) -> int:
    """Pass a tar from a node of this host to stdout, or from stdin into the node; ends with a line of JSON on stderr.

    An incomplete tar leaves nothing in the node.
    """
    from gpuprov.core.error_document import error_parts
    from gpuprov.core.errors import GpuprovError
    from gpuprov.link.serve import take_streams

    reads, writes = take_streams()
    said = ""
    try:
        driver = session.host.open(session.engine or "")
        if way == "write":
            driver.write_tree(node, path, _pieces(reads))
        else:
            said = driver.read_tree(node, path, lambda piece: _write(writes, piece))
    except GpuprovError as error:
        return _refuse_tree(session, error, error_parts(error))
    sys.stderr.write(json.dumps({"said": said}) + "\n")
    return 0


def _refuse_tree(session: Session, error: Exception, parts: Mapping[str, Any]) -> int:
    session.log.error(error)
    sys.stderr.write(json.dumps(parts) + "\n")
    return int(parts["exit_code"])


def _pieces(descriptor: int) -> Iterator[bytes]:
    while piece := os.read(descriptor, _PIECE):
        yield piece


def _write(descriptor: int, piece: bytes) -> None:
    left = memoryview(piece)
    while left:
        left = left[os.write(descriptor, left) :]
