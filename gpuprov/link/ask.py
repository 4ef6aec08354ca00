"""Requests to the gpuprov of another host, over the connection to it."""

from __future__ import annotations

import time
from collections import deque
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gpuprov import __version__
from gpuprov.core.errors import (
    EngineError,
    GpuprovError,
    HostNotReady,
    PartDone,
    PlaybookError,
    TimedOut,
    Unreachable,
    UsageError,
)
from gpuprov.core.excerpt import LINE, excerpt, last_words
from gpuprov.core.rollback import AGAIN, REPEAT
from gpuprov.core.silence_limit import more_time, scaled_limit_s
from gpuprov.link.install_paths import PROGRAM
from gpuprov.link.lines import BEAT_S, KEPT_S, PROTOCOL, SILENCE_S, BadLine, Lines, render_line
from gpuprov.link.ssh_failure import MISSING, SSH_FAILED, NotInstalled, silent, try_by_hand
from gpuprov.shapes.base import raw
from gpuprov.shapes.lines import Beat, Failure, Hello, NodeSaid, NoteSaid, PhaseSaid, Request, Result, WarnSaid

if TYPE_CHECKING:
    import threading
    from collections.abc import Mapping

    from msgspec import Raw

    from gpuprov.core.reporter import Reporter
    from gpuprov.link.connection import SshConnection
    from gpuprov.link.exchange import Exchange
    from gpuprov.shapes.lines import AnyLine
    from gpuprov.shapes.orders import Order

# How a fix begins that is about the command which was typed here, or about its options or its spec
_TYPED_HERE: Final = (AGAIN, REPEAT, "change ", "choose ", "omit ", "request ", "set ", "use ")
_LOOK_S: Final = 0.2  # how often one looks whether the request is to be ended
_END_S: Final = 5.0  # for ssh to end after the member has
PARTING_S: Final = 1.0  # for a member to end when nothing more is asked
_KINDS: Final[Mapping[int, type[GpuprovError]]] = {
    kind.exit_code: kind
    for kind in (GpuprovError, UsageError, HostNotReady, EngineError, PlaybookError, TimedOut, PartDone)
}


@dataclass(frozen=True, kw_only=True)
class MemberRequest:
    """What a host is asked.

    Attributes:
        order: That, with its verb.
        total_s: How long a question may take altogether; None for work, which may take long while it goes on.
    """

    order: Order
    total_s: float | None = None

    @property
    def verb(self) -> str:
        """By which it is asked."""
        return self.order.verb


class OtherVersion(HostNotReady):
    """The gpuprov there is not this one.

    Attributes:
        there: Its version.
    """

    there = ""


class WorkStopped(HostNotReady):
    """The work there was ended before its time, for it was no longer wanted."""


def ask_member(connection: SshConnection, request: MemberRequest, *, reporter: Reporter) -> Raw:
    """Have the gpuprov there serve this request alone; as `MemberProcess.ask`."""
    member = MemberProcess(connection)
    try:
        return member.ask(request, reporter=reporter)
    finally:
        member.end()
        member.close()


class MemberProcess:
    """The gpuprov of a host, which is started there with the first request, and serves one after the other.

    Args:
        connection: The way to the host.

    Raises:
        CommandMissing: This machine has no ssh.
    """

    def __init__(self, connection: SshConnection) -> None:
        self._connection = connection
        self._kept = ExitStack()
        self._exchange = self._kept.enter_context(connection.exchange([PROGRAM, "member"]))
        self._greeted = self._spoilt = False
        self._idle_since_s = time.monotonic()

    @property
    def usable(self) -> bool:
        """Whether it can be asked again: it has answered, is there, and did not have to wait for too long."""
        if self._spoilt or time.monotonic() - self._idle_since_s >= KEPT_S:
            return False
        return self._exchange.turn(0) == b""

    def ask(self, request: MemberRequest, *, reporter: Reporter, stop: threading.Event | None = None) -> Raw:
        """Have it serve a request, and return the document of its result.

        On Ctrl-C, or when `stop` is set, it is told to end, undoes what it has begun, and is waited for; a second
        Ctrl-C waits no longer.

        Raises:
            Unreachable: The host does not let in, does not answer, or fell silent.
            NotInstalled: There is no gpuprov.
            OtherVersion: It is another one.
            GpuprovError: It failed there; the three parts are its own.
        """
        self._spoilt = True
        if self._greeted:
            self._exchange.forget_stderr()  # of the first request it is evidence: ssh may have failed before this
        conversation = _Conversation(self._connection, self._exchange, request, reporter, greeted=self._greeted)
        try:
            document = conversation.hold(stop)
        except KeyboardInterrupt:
            conversation.end()
            with suppress(GpuprovError):
                conversation.hold(None)
            raise
        finally:
            self._greeted, self._spoilt = True, not conversation.complete
            self._idle_since_s = time.monotonic()
        self._connection.places.mark_there(self._connection.machine)
        return document

    def end(self) -> None:
        """Tell it that nothing more is asked."""
        self._exchange.end_input()

    def close(self, wait_s: float = PARTING_S) -> None:
        """Wait for its end for a moment; it is ended by force then."""
        if not self._spoilt:
            self._exchange.status(max(0.0, wait_s))  # killed at once, ssh would cut off a member that is about to end
        self._kept.close()


class _Conversation:
    """What is said on both sides, until the member has a result or an error.

    Attributes:
        complete: It had, and was not told to end: it listens to more.
    """

    def __init__(
        self,
        connection: SshConnection,
        exchange: Exchange,
        request: MemberRequest,
        reporter: Reporter,
        *,
        greeted: bool,
    ) -> None:
        self._connection = connection
        self._name = connection.machine.name
        self._exchange = exchange
        self._request = request
        self._reporter = reporter
        self._lines = Lines()
        self._answered, self._heard, self._ending = greeted, False, False
        self.complete = False
        self._began_s = self._heard_s = self._said_s = time.monotonic()
        if greeted:
            self._request_it()

    def hold(self, stop: threading.Event | None) -> Raw:
        """Listen until the end."""
        document = None
        while document is None:
            self._refuse_lateness()
            if stop is not None and stop.is_set() and not self._ending:
                self.end()
            self._beat()
            piece = self._exchange.turn(_LOOK_S)
            if piece is None:
                raise self._broken()
            if piece:
                self._heard, self._heard_s = True, time.monotonic()
                document = self._hear(piece)
        return document

    def end(self) -> None:
        """Tell the member to end: its undo is waited for."""
        self._ending = True
        self._exchange.end_input()

    def _beat(self) -> None:
        now_s = time.monotonic()
        if now_s - self._said_s >= BEAT_S and not self._exchange.pending:
            self._said_s = now_s
            self._exchange.send(render_line(Beat()))

    def _hear(self, piece: bytes) -> Raw | None:
        """Take in what was said; the result, once that has come, which is the last word."""
        try:
            messages = deque(self._lines.feed(piece))
            while messages:
                message = messages.popleft()
                if not self._answered:
                    self._greet(message)
                elif not isinstance(message, (Result, Failure)):
                    self._tell(message)
                else:
                    self._finish(more=bool(messages) or self._lines.begun)
                    if isinstance(message, Failure):
                        raise self._error(message)
                    return message.document
        except BadLine as error:
            login = f"a login there must print nothing: {try_by_hand(self._connection.machine)} true"
            raise HostNotReady(
                f"{self._name} gave an unexpected answer",
                evidence=str(error),
                fix=f"gpuprov host add {self._name}" if self._answered else login,
            ) from error
        return None

    def _finish(self, *, more: bool) -> None:
        if more:
            raise BadLine("more was said after the result")
        self.complete = not self._ending

    def _greet(self, said: AnyLine) -> None:
        if not isinstance(said, Hello):
            raise BadLine(f"`{said.kind}` instead of a hello")
        if (said.protocol, said.version) != (PROTOCOL, __version__):
            error = OtherVersion(
                f"{self._name} has another version of gpuprov",
                evidence=f"it has {excerpt(said.version)} (protocol {said.protocol}), "
                f"this is {__version__} (protocol {PROTOCOL})",
                fix=f"bring it up to date: gpuprov host add {self._name}",
            )
            error.there = excerpt(said.version)
            raise error
        self._answered = True
        self._request_it()

    def _request_it(self) -> None:
        order = self._request.order
        self._exchange.send(render_line(Request(verb=order.verb, host=self._name, document=raw(order))))

    def _tell(self, said: AnyLine) -> None:
        reporter = self._reporter
        if isinstance(said, PhaseSaid):
            reporter.node(self._name, f"{said.name} {said.state}")
        elif isinstance(said, NodeSaid):
            reporter.node(said.name, said.state)
        elif isinstance(said, NoteSaid):
            reporter.note(f"{self._name}: {said.text}")
        elif isinstance(said, WarnSaid):
            reporter.warn(f"{self._name}: {said.text}")
        elif not isinstance(said, Beat):
            raise BadLine(f"`{said.kind}` is not a message that a host may send")

    def _error(self, said: Failure) -> GpuprovError:
        if self._ending:
            kind: type[GpuprovError] = WorkStopped
            fix = excerpt(said.fix, LINE)
        else:
            kind = _KINDS.get(said.exit_code, EngineError)
            fix = excerpt(said.fix, LINE)
            if fix and not fix.startswith(_TYPED_HERE):
                fix = f"on {self._name}: {fix}"
        what = f"{self._name}: {excerpt(said.what, LINE)}"
        return kind(what, evidence=last_words(said.evidence, most=40, width=LINE), fix=fix)

    def _refuse_lateness(self) -> None:
        now_s = time.monotonic()
        answer_s, silence_s = self._connection.answer_s, scaled_limit_s(SILENCE_S)
        if not (self._answered and self._heard) and now_s - self._began_s >= answer_s:
            raise silent(self._connection.machine, answer_s, self._exchange.stderr)
        if now_s - self._heard_s >= silence_s:
            raise silent(self._connection.machine, silence_s, self._exchange.stderr)
        total_s = self._request.total_s
        if total_s is not None and now_s - self._began_s >= total_s:
            raise TimedOut(
                f"{self._name} has not answered `{self._request.verb}`",
                evidence=f"it is reachable, and still at work after {total_s:g} s",
                fix=f"look at its engines: gpuprov doctor, on {self._name}; {more_time()}",
            )

    def _broken(self) -> GpuprovError:
        """Why its output has ended without a result."""
        status, stderr = self._exchange.status(_END_S), self._exchange.stderr
        if status == MISSING:
            return NotInstalled(
                f"{self._name} has no gpuprov",
                evidence=last_words(stderr),
                fix=f"gpuprov host add {self._name}",
            )
        if self._ending and self._answered:
            return WorkStopped(f"the work on {self._name} was ended", evidence=last_words(stderr), fix="try again")
        if status in (None, SSH_FAILED) and self._answered:
            return Unreachable(
                f"the connection to {self._name} was lost",
                evidence=last_words(stderr) or "ssh printed nothing",
                fix=f"{AGAIN}: it continues what was begun there",
            )
        if status in (None, SSH_FAILED):
            return self._connection.failure(stderr)
        return HostNotReady(
            f"the gpuprov on {self._name} has ended without a result",
            evidence=f"exit status {status}\n{last_words(stderr, most=12)}".rstrip(),
            fix=f"on {self._name}: see the newest log in /var/log/gpuprov",
        )
