"""A host that may have Python alone: looked at, given gpuprov, or freed of it, by a program that is sent along."""

from __future__ import annotations

import io
import tarfile
import time
from importlib import resources
from typing import TYPE_CHECKING, Final

from msgspec import UNSET, structs

from gpuprov.core.errors import HostNotReady, TimedOut
from gpuprov.core.excerpt import excerpt, last_words
from gpuprov.core.silence_limit import more_patience, silence_limit_s
from gpuprov.link.install_paths import PLACE
from gpuprov.link.ssh_failure import SSH_FAILED, silent
from gpuprov.shapes.bare_host import BareFacts, BareLine
from gpuprov.shapes.base import read

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from gpuprov.core.reporter import Reporter
    from gpuprov.link.connection import SshConnection
    from gpuprov.link.exchange import Exchange

_MOST_SAID: Final = 4_000_000
_PIECE: Final = 65536
_LOOK_S: Final = 0.2
_END_S: Final = 5.0
# A shell finds Python, or says that there is none; the program is its argument, so that stdin is free
_SHELL: Final = """\
p=$(command -v python3) || { echo '{"python":""}'; exit 0; }
"$p" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || {
    "$p" -c 'import sys; print("{\\"python\\":\\"%d.%d\\"}" % sys.version_info[:2])'; exit 0; }
exec "$p" -I -c "$0" "$@"
"""


class BareHost(BareFacts, frozen=True, kw_only=True):
    """What was told of a host.

    Attributes:
        skew_s: By how much its clock is ahead of this machine's, or behind it.
    """

    skew_s: float = 0.0


def look_at_bare_host(connection: SshConnection, reporter: Reporter) -> BareHost:
    """Connect and look; changes nothing there.

    Raises:
        Unreachable: It does not let in or does not answer.
        HostNotReady: It answers something else.
    """
    began_s = time.time()
    told = _run(connection, ["look"], (), reporter, silence_s=connection.answer_s)
    ended_s = time.time()
    if told.facts is UNSET:
        return BareHost(python=told.python or "")
    behind_s, ahead_s = began_s - told.facts.clock_s, told.facts.clock_s - ended_s
    skew_s = ahead_s if ahead_s > 0 else -behind_s if behind_s > 0 else 0.0
    return BareHost(**structs.asdict(told.facts), skew_s=skew_s)


def install_there(connection: SshConnection, name: str, wheels: Sequence[Path], reporter: Reporter) -> None:
    """Install gpuprov from wheels, pip's own among them, under a name that says which one it is.

    Raises:
        HostNotReady: It failed; what was there before is still there.
        TimedOut: Nothing moved for long.
    """
    _run(connection, ["install", name], _tar(wheels), reporter, silence_s=silence_limit_s())


def remove_there(connection: SshConnection, reporter: Reporter) -> None:
    """Remove gpuprov, if it is there.

    Raises:
        HostNotReady: It failed, or something else is in its place.
    """
    _run(connection, ["remove"], (), reporter, silence_s=silence_limit_s())


def _run(
    connection: SshConnection,
    words: Sequence[str],
    pieces: Sequence[bytes] | Iterator[bytes],
    reporter: Reporter,
    *,
    silence_s: float,
) -> BareLine:
    """The last line that the program says."""
    program = (resources.files("gpuprov.link") / "bare_program.py").read_text(encoding="utf-8")
    said, last = b"", b""
    with connection.exchange(["sh", "-c", _SHELL, program, PLACE, *words]) as exchange:
        moved_s, waiting = time.monotonic(), iter(pieces)
        while True:
            pending = exchange.pending
            if pending < _PIECE:
                piece = next(waiting, b"")
                if piece:
                    exchange.send(piece)
                else:
                    exchange.end_input()
            heard = exchange.turn(_LOOK_S)
            if heard is None:
                break
            if heard or exchange.pending != pending:
                moved_s = time.monotonic()
            elif time.monotonic() - moved_s >= silence_s:
                raise _silent(connection, exchange, last, silence_s)
            *lines, said = (said + heard).split(b"\n")
            if len(said) > _MOST_SAID:
                raise _odd(connection, said[:_PIECE].decode(errors="replace"))
            last = [last, *lines][-1]
            _tell(connection, lines, reporter)
        status, stderr = exchange.status(_END_S), exchange.stderr
    return _answer(connection, last or said, status, stderr)


def _answer(connection: SshConnection, line: bytes, status: int | None, stderr: str) -> BareLine:
    if status in (None, SSH_FAILED):
        raise connection.failure(stderr)
    told = _parse(line)
    name = connection.machine.name
    if told.failed is not UNSET:
        fix = f"on {name}: {excerpt(told.failed.fix, 1000)}" if told.failed.fix else f"gpuprov host add {name}"
        evidence = last_words(told.failed.evidence, most=15)
        raise HostNotReady(f"{name}: {excerpt(told.failed.what)}", evidence=evidence, fix=fix)
    if status != 0 or UNSET is told.facts is told.python is told.done:
        raise _odd(connection, stderr or line.decode(errors="replace"))
    return told


def _tell(connection: SshConnection, lines: Sequence[bytes], reporter: Reporter) -> None:
    """Report the last step of those that came together."""
    steps = [step for line in lines if (step := _parse(line).step) is not UNSET]
    if steps:
        reporter.node(connection.machine.name, excerpt(steps[-1]))


def _parse(line: bytes) -> BareLine:
    try:
        return read(BareLine, line)
    except ValueError:
        return BareLine()


def _tar(files: Sequence[Path]) -> Iterator[bytes]:
    """The files as a tar, in pieces."""
    for path in files:
        content = path.read_bytes()
        entry = tarfile.TarInfo(path.name)
        entry.size = len(content)
        head = entry.tobuf(tarfile.GNU_FORMAT)
        file = io.BytesIO(head + content + b"\0" * (-len(content) % tarfile.BLOCKSIZE))
        while piece := file.read(_PIECE):
            yield piece
    yield b"\0" * (2 * tarfile.BLOCKSIZE)


def _silent(connection: SshConnection, exchange: Exchange, last: bytes, silence_s: float) -> HostNotReady | TimedOut:
    if not last:
        return silent(connection.machine, silence_s, exchange.stderr)
    return TimedOut(
        f"{connection.machine.name} did nothing for {silence_s:g} s",
        evidence=excerpt(last.decode(errors="replace")),
        fix=f"run the command again; {more_patience(silence_s)}",
    )


def _odd(connection: SshConnection, said: str) -> HostNotReady:
    return HostNotReady(
        f"{connection.machine.name} does not run what is sent to it",
        evidence=last_words(said) or "it printed nothing",
        fix=f"its login must run commands and print nothing else: ssh {connection.machine.destination} true",
    )
