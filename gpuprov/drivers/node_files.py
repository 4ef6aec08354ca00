"""Files of nodes, which may be hostile: how they are read and written by commands in a node that runs.

A file of a running node is read and written by a command in the node, never by the engine's own file functions: those
open whatever stands at a path, wait for ever if that is a FIFO, and hold the engine's locks meanwhile. A command is
ended from outside the node when its time is over. In a node that does not run nobody can change a file between a look
at it and the reading, so there the engine's functions serve, after a look.
"""

from __future__ import annotations

import posixpath
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
    try:
        output = execute(Call(argv=argv, cwd="/", timeout_s=timeout_s, most_bytes=most_bytes + _MARGIN_BYTES))
    except TimedOut as error:
        evidence = f"no answer within {timeout_s:.0f} s; a hostile node may have replaced the file, or its programs"
        raise unreadable(node, path, evidence) from error
    if output.exit_code == _ABSENT:
        raise absent(node, path)
    if output.exit_code == _ODD:
        raise no_regular_file(node, path)
    if output.exit_code:
        said = output.text()
        evidence = (said.stderr or said.stdout)[-500:].strip() or f"exit status {output.exit_code}"
        raise unreadable(node, path, evidence)
    return within(node, path, output.stdout, most_bytes)


def read_at_rest(look: Look, node: str, path: str, *, most_bytes: int) -> bytes:
    """Read a regular file of a node that does not run; links are followed within it.

    Args:
        look: Reads a path without following a link at its end, and no more than a byte over the limit.
        node: Its name.
        path: The file.
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
        node: Its name.
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
