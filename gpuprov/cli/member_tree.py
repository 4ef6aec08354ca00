"""`gpuprov member-tree`: what the gpuprov of another host starts here over ssh to copy files; not for people."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

import click

from gpuprov.shapes.choices import ENGINES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpuprov.cli.session import Session

_PIECE = 65536


@click.command(hidden=True)
@click.argument("way", type=click.Choice(["read", "write"]))
@click.argument("engine", type=click.Choice(ENGINES))
@click.argument("node")
@click.argument("path")
@click.pass_obj
def command(session: Session, way: str, engine: str, node: str, path: str) -> int:
    """Pass a tar from a node of this host to stdout, or from stdin into the node; ends with a line of JSON on stderr.

    An incomplete tar leaves nothing in the node.
    """
    from gpuprov.core.error_document import error_parts
    from gpuprov.core.errors import GpuprovError
    from gpuprov.link.serve import take_streams

    reads, writes = take_streams()
    said = ""
    try:
        driver = session.host.open(engine)
        if way == "write":
            driver.write_tree(node, path, _pieces(reads))
        else:
            said = driver.read_tree(node, path, lambda piece: _write(writes, piece))
    except GpuprovError as error:
        return _refuse(session, error, error_parts(error))
    sys.stderr.write(json.dumps({"said": said}) + "\n")
    return 0


def _refuse(session: Session, error: Exception, parts: Mapping[str, Any]) -> int:
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
