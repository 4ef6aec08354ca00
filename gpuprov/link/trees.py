"""Files and folders of nodes on another host, as tars over the connection: `gpuprov member-tree` there passes them on.

Its last line on stderr is one of JSON: what the node said, or why it failed.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Final

from gpuprov.core.errors import EngineError, GpuprovError, TimedOut
from gpuprov.core.excerpt import LINE, excerpt, last_words
from gpuprov.core.silence_limit import silence_limit_s
from gpuprov.link.install_paths import PROGRAM
from gpuprov.link.ssh_failure import SSH_FAILED, silent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from gpuprov.link.connection import SshConnection
    from gpuprov.link.exchange import Exchange

VERB: Final = "member-tree"
_PIECE: Final = 65536
_LOOK_S: Final = 0.2
_END_S: Final = 5.0
_TIMED_OUT: Final = 6


def write_tree_there(connection: SshConnection, place: Sequence[str], tar: Iterable[bytes]) -> None:
    """Have the host put a tar into a node, as `Driver.write_tree` does; what making it raises is passed on.

    Args:
        connection: The way to the host.
        place: Engine, node and path.
        tar: As `Driver.write_tree` takes it; nothing of it is left where it does not come to its end.

    Raises:
        GpuprovError: The host or the node does not take it.
    """
    waiting = iter(tar)
    with connection.exchange([PROGRAM, VERB, "write", *place]) as exchange:
        silence = _Silence(connection, exchange)
        more = True
        while True:
            if more and exchange.pending < _PIECE:
                piece = next(waiting, None)
                more = piece is not None
                if piece is None:
                    exchange.end_input()
                else:
                    exchange.send(piece)
            pending = exchange.pending
            heard = exchange.turn(0.0 if more and pending < _PIECE else _LOOK_S)
            if heard is None:
                break
            silence.judge(moved=(more and pending < _PIECE) or exchange.pending != pending)
        _end(connection, exchange)


def read_tree_there(connection: SshConnection, place: Sequence[str], take: Callable[[bytes], object]) -> str:
    """Hand on a file or folder of a node there as a tar, as `Driver.read_tree` does; returns what the node said.

    Args:
        connection: The way to the host.
        place: Engine, node and path.
        take: Gets the pieces; what it raises is passed on.

    Raises:
        GpuprovError: The host or the node does not give it.
    """
    with connection.exchange([PROGRAM, VERB, "read", *place]) as exchange:
        exchange.end_input()
        silence = _Silence(connection, exchange)
        while (heard := exchange.turn(_LOOK_S)) is not None:
            if heard:
                take(heard)
            silence.judge(moved=bool(heard))
        return _end(connection, exchange)


class _Silence:
    """How long nothing has moved."""

    def __init__(self, connection: SshConnection, exchange: Exchange) -> None:
        self._connection, self._exchange = connection, exchange
        self._moved_s = time.monotonic()

    def judge(self, *, moved: bool) -> None:
        """Go on, unless that is too long."""
        now_s = time.monotonic()
        if moved:
            self._moved_s = now_s
        elif now_s - self._moved_s >= silence_limit_s():
            raise silent(self._connection.machine, silence_limit_s(), self._exchange.stderr)


def _end(connection: SshConnection, exchange: Exchange) -> str:
    """What the node said, from the last line.

    Raises:
        GpuprovError: It failed, or there is no such line.
    """
    status, name = exchange.status(_END_S), connection.machine.name
    stderr = exchange.stderr
    try:
        told = json.loads(stderr.strip().rpartition("\n")[2])
    except (ValueError, RecursionError):
        told = None
    if isinstance(told, dict) and told.keys() == {"said"} and status == 0:
        return excerpt(str(told["said"]), LINE)
    if isinstance(told, dict) and told.keys() == {"what", "evidence", "fix", "exit_code"}:
        what, evidence, fix = (str(told[part]) for part in ("what", "evidence", "fix"))
        kind: type[GpuprovError] = TimedOut if told["exit_code"] == _TIMED_OUT else EngineError
        return _fail(kind(f"{name}: {excerpt(what)}", evidence=last_words(evidence), fix=f"on {name}: {excerpt(fix)}"))
    if status in (None, SSH_FAILED):
        return _fail(connection.failure(stderr))
    return _fail(
        EngineError(
            f"the gpuprov on {name} did not copy",
            evidence=f"exit status {status}\n{last_words(stderr, most=12)}".rstrip(),
            fix=f"bring it up to date: gpuprov host add {name}",
        )
    )


def _fail(error: GpuprovError) -> str:
    raise error
