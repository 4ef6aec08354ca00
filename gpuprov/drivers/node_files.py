"""Files of nodes, which may be hostile: how they are read and written by commands in a node that runs.

A file of a running node is read and written by a command in the node, never by the engine's own file functions: those
open whatever stands at a path, wait for ever if that is a FIFO, and hold the engine's locks meanwhile. A command is
ended from outside the node when its time is over. In a node that does not run nobody can change a file between a look
at it and the reading, so there the engine's functions serve, after a look.
"""

from __future__ import annotations

import base64
import posixpath
import shlex
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from gpuprov.core.errors import EngineError, TimedOut
from gpuprov.drivers.base import Unreadable
from gpuprov.drivers.calls import Call
from gpuprov.drivers.tars import pack

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpuprov.drivers.base import File
    from gpuprov.drivers.calls import Output

    Execute = Callable[[Call], Output]
    # The content of a file as (None, content); the target of a link as (target, b"")
    Look = Callable[[str], "tuple[str | None, bytes]"]


_LINKS_MAX = 10
_ABSENT, _ODD = 91, 92  # exit statuses that none of these programs has
_READ = f"""
if [ -f "$1" ]; then exec head -c "$2" -- "$1"; fi
[ -e "$1" ] || [ -L "$1" ] || exit {_ABSENT}
exit {_ODD}
"""
PIECE_BYTES = 2_000_000  # of a file at once, where another host passes it on
_READ_PIECE = f"""
if [ -f "$1" ]; then : <"$1" && tail -c "+$3" -- "$1" | head -c "$2" | base64 -w 0; exit; fi
[ -e "$1" ] || [ -L "$1" ] || exit {_ABSENT}
exit {_ODD}
"""
_WRITE = ("tar", "--extract", "--file=-", "--directory=/", "--preserve-permissions", "--numeric-owner")
_WRITE_S = 30.0
_BYTES_PER_S = 1_000_000  # the least that a write is given time for
_MARGIN_BYTES = 10_000  # for what a program says of its failure


class Absent(Unreadable):
    """There is no such file in the node."""


def read_in_node(execute: Execute, node: str, path: str, *, most_bytes: int, timeout_s: float) -> bytes:
    """Read a regular file of a running node; links are followed, by the node and within it.

    Raises:
        Unreadable: It is absent, is not a regular file, is larger than `most_bytes`, or did not come in time.
    """
    argv = ["sh", "-c", _READ, "sh", path, str(most_bytes + 1)]
    call = Call(argv=argv, cwd="/", timeout_s=timeout_s, most_bytes=most_bytes + _MARGIN_BYTES)
    return within(node, path, _read(execute, node, path, call), most_bytes)


def read_in_pieces(execute: Execute, node: str, path: str, *, most_bytes: int, timeout_s: float) -> bytes:
    """The same by a way that passes on no more than some megabytes of text at once."""
    content, until_s = bytearray(), time.monotonic() + timeout_s
    while len(content) <= most_bytes:
        asked = min(PIECE_BYTES, most_bytes + 1 - len(content))
        argv = ["sh", "-c", _READ_PIECE, "sh", path, str(asked), str(len(content) + 1)]
        call = Call(argv=argv, cwd="/", timeout_s=max(1.0, until_s - time.monotonic()))
        try:
            piece = base64.b64decode(_read(execute, node, path, call), validate=True)
        except ValueError as error:
            raise unreadable(node, path, "what the node gave is no base64") from error
        content += piece
        if len(piece) < asked:
            break
    return within(node, path, bytes(content), most_bytes)


def _read(execute: Execute, node: str, path: str, call: Call) -> bytes:
    try:
        output = execute(call)
    except TimedOut as error:
        evidence = (
            f"no answer within {call.timeout_s or 0:.0f} s; a hostile node may have replaced the file, or its programs"
        )
        raise unreadable(node, path, evidence) from error
    if output.exit_code == _ABSENT:
        raise absent(node, path)
    if output.exit_code == _ODD:
        raise no_regular_file(node, path)
    if output.exit_code:
        said = output.text()
        evidence = (said.stderr or said.stdout)[-500:].strip() or f"exit status {output.exit_code}"
        raise unreadable(node, path, evidence)
    return output.stdout


def read_at_rest(look: Look, node: str, path: str, *, most_bytes: int) -> bytes:
    """Read a regular file of a node that does not run; links are followed within it.

    Args:
        look: Reads a path without following a link at its end, and no more than a byte over the limit.
        most_bytes: The limit.

    Raises:
        Unreadable: It is absent, is not a regular file, or is larger.
    """
    asked = path
    for _ in range(_LINKS_MAX):
        target, content = look(asked)
        if target is None:
            return within(node, path, content, most_bytes)
        asked = posixpath.normpath(posixpath.join(posixpath.dirname(asked), target))
    raise no_regular_file(node, path)


def write_in_node(execute: Execute, node: str, files: Sequence[File], *, then: str = "") -> None:
    """Write files into a running node; what stands in their way is replaced, unless it is a folder.

    Args:
        execute: Runs a command in the node.
        files: What to write.
        then: A shell line to run after that.

    Raises:
        EngineError: A file could not be written.
    """
    packed = pack(files)
    line = f'"$@" && {{\n{then}\n}}' if then else 'exec "$@"'
    timeout_s = _WRITE_S + len(packed) / _BYTES_PER_S
    call = Call(argv=["sh", "-c", line, "sh", *_WRITE], cwd="/", timeout_s=timeout_s, stdin=packed)
    paths = ", ".join(file.path for file in files)
    try:
        output = execute(call)
    except TimedOut as error:
        evidence = f"no answer within {timeout_s:.0f} s"
        raise EngineError(f"cannot write {paths} into {node}", evidence=evidence, fix=_inspect(node)) from error
    if output.exit_code:
        said = output.text()
        evidence = (said.stderr or said.stdout)[-500:].strip() or f"exit status {output.exit_code}"
        raise EngineError(f"cannot write {paths} into {node}", evidence=evidence, fix=_inspect(node))


def write_whole(execute: Execute, node: str, file: File) -> None:
    """Write a file that has its name in the node once it is whole.

    Raises:
        EngineError: It could not be written.
    """
    part = f"{file.path}.gpuprov"
    then = f"mv -fT -- {shlex.quote(part)} {shlex.quote(file.path)}"
    write_in_node(execute, node, [replace(file, path=part)], then=then)


def within(node: str, path: str, content: bytes, most_bytes: int) -> bytes:
    """The content, unless it is larger than it may be."""
    if len(content) > most_bytes:
        raise too_large(node, path, most_bytes)
    return content


def too_large(node: str, path: str, most_bytes: int) -> Unreadable:
    """The error for a file that is over the limit."""
    evidence = f"it has more than {most_bytes} bytes"
    return Unreadable(f"{path} of {node} is too large", evidence=evidence, fix=_inspect(node))


def unreadable(node: str, path: str, evidence: str) -> Unreadable:
    """The error for a file that is there and cannot be read."""
    return Unreadable(f"cannot read {path} of {node}", evidence=evidence, fix=_inspect(node))


def absent(node: str, path: str) -> Absent:
    """The error for a file that is not there."""
    evidence = "no such file or folder in the node"
    return Absent(f"{node} has no file {path}", evidence=evidence, fix=_inspect(node))


def no_regular_file(node: str, path: str) -> Unreadable:
    """The error for what is there and is no file."""
    evidence = "it is a folder, a FIFO, a device, a socket or a broken link; only regular files are read"
    return Unreadable(f"{path} of {node} is not a file", evidence=evidence, fix=_inspect(node))


def _inspect(node: str) -> str:
    return f"inspect the node: gpuprov shell {node}; or remove it: gpuprov rm {node}"
