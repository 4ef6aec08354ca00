"""Files and folders of any size, into and out of a running node, which may be hostile: as tars, by commands in it.

What keeps moving may take any time; what is silent is ended. Of the tar that a node gives nothing is believed here: who
takes it parses it strictly (tar_stream.py). What is put into a node is whole before it has its name there.
"""

from __future__ import annotations

import secrets
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from gpuprov.core.errors import EngineError, GpuprovError, TimedOut
from gpuprov.drivers.base import READ_S
from gpuprov.drivers.calls import Call
from gpuprov.drivers.node_files import unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from gpuprov.drivers.base import PathKind
    from gpuprov.drivers.calls import Output
    from gpuprov.drivers.node_files import Execute

ITEM, WHOLE = "item", "whole"  # in a tar for a node: what is copied, and a file behind it that says that all came
SILENCE_S = 60.0
_KINDS: Final[dict[int, PathKind]] = {81: "file", 82: "folder", 83: "other", 84: "absent"}
_LOOK = """
if [ -f "$1" ]; then exit 81; fi
if [ -d "$1" ]; then exit 82; fi
if [ -e "$1" ] || [ -L "$1" ]; then exit 83; fi
exit 84
"""
_TAR = "tar --create --file=- --format=gnu --numeric-owner --hard-dereference"
_PACK = f"""
if [ -d "$1" ]; then exec {_TAR} --directory="$1" .; fi
exec {_TAR} --dereference --directory="${{1%/*}}/" "./${{1##*/}}"
"""
_CHANGED = 1  # tar's exit status where a file changed while it was read
# Two commands, each without a child: one that is killed from outside leaves no tar behind
_UNPACK = """
umask 022
mkdir -m 700 -- "$1" && exec tar --extract --file=- --directory="$1" --preserve-permissions --numeric-owner
"""
_MOVE = f"""
[ -e "$1/{WHOLE}" ] && mv -fT -- "$1/{ITEM}" "$2"
status=$?
rm -rf -- "$1"
exit $status
"""
_TIDY_S = 10.0
_SAID_BYTES = 1_000_000
_SHOWN = 500
_FULL = ("no space left", "disk quota exceeded")


def look_in_node(execute: Execute, node: str, path: str) -> PathKind:
    """What stands at a path of a running node; links are followed, by the node and within it.

    Raises:
        EngineError: The node does not report it.
    """
    try:
        output = execute(Call(argv=["sh", "-c", _LOOK, "sh", path], cwd="/", timeout_s=READ_S, most_bytes=_SAID_BYTES))
    except TimedOut as error:
        raise unreadable(node, path, f"no answer within {READ_S:.0f} s") from error
    kind = _KINDS.get(output.exit_code)
    if kind is None:
        raise unreadable(node, path, _said(output))
    return kind


def read_tree(execute: Execute, node: str, path: str, take: Callable[[bytes], object]) -> str:
    """Hand on a file or folder of a running node as a tar.

    Args:
        execute: Runs a command in the node.
        node: Its name.
        path: The file or folder; a link there is followed.
        take: Gets the tar, piece by piece.

    Returns:
        What the node's tar complained about.

    Raises:
        TimedOut: Nothing came for `SILENCE_S`.
        EngineError: It could not be read.
    """
    call = Call(argv=["sh", "-c", _PACK, "sh", path], cwd="/", take=take, silence_s=SILENCE_S, most_bytes=_SAID_BYTES)
    try:
        output = execute(call)
    except TimedOut as error:
        raise _silent(f"the copy of {path} from {node}", node) from error
    if output.exit_code not in (0, _CHANGED):
        raise unreadable(node, path, _said(output))
    return output.text().stderr.strip()


def write_tree(execute: Execute, node: str, path: str, tar: Iterable[bytes]) -> None:
    """Put a file or folder into a running node, in one move once all of it is there.

    Args:
        execute: Runs a command in the node.
        node: Its name.
        path: Where; a file there is replaced, and the folder that it is in exists.
        tar: `ITEM`, and at its end a file `WHOLE`; what making it raises is passed on.

    Raises:
        TimedOut: The node took nothing for `SILENCE_S`.
        EngineError: It could not be written.
    """
    place = f"{path.rpartition('/')[0]}/.gpuprov-cp-{secrets.token_hex(6)}"
    try:
        for script, feed in ((_UNPACK, tar), (_MOVE, None)):
            argv = ["sh", "-c", script, "sh", place, path]
            output = execute(Call(argv=argv, cwd="/", feed=feed, silence_s=SILENCE_S, most_bytes=_SAID_BYTES))
            _refuse_failed(output, node, path)
    except BaseException as error:
        with suppress(GpuprovError):
            execute(Call(argv=["rm", "-rf", "--", place], cwd="/", timeout_s=_TIDY_S))
        if isinstance(error, TimedOut):
            raise _silent(f"the copy to {path} of {node}", node) from error
        raise


def _refuse_failed(output: Output, node: str, path: str) -> None:
    if not output.exit_code:
        return
    evidence = _said(output)
    if any(words in evidence.lower() for words in _FULL):
        what, fix = f"no space left for {path} in {node}", f"find out what is full: gpuprov exec {node} -- df -h"
    else:
        what, fix = f"cannot write {path} in {node}", f"look into the node: gpuprov shell {node}"
    raise EngineError(what, evidence=evidence, fix=fix)


def _silent(what: str, node: str) -> TimedOut:
    return TimedOut(
        f"{what} stopped",
        evidence=f"nothing moved for {SILENCE_S:.0f} s",
        fix=f"see what the node does: gpuprov shell {node}; then run the same command again",
    )


def _said(output: Output) -> str:
    return output.text().stderr[-_SHOWN:].strip() or f"exit status {output.exit_code}"
