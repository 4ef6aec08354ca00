"""`--wait`: stand in the queue of this host until the GPUs can be had, without standing in anybody's way."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol, TypeVar

from gpuprov.core.errors import EngineError, HostNotReady, TimedOut
from gpuprov.core.waiting import SystemClock, Wait
from gpuprov.gpu.allocate import GpusTaken
from gpuprov.gpu.tickets import render_ticket

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuprov.core.queue import Queue, QueuePlace
    from gpuprov.core.reporter import Reporter
    from gpuprov.core.waiting import Clock
    from gpuprov.gpu.allocate import Claims

Result = TypeVar("Result")
AGAIN_S = 300.0  # how often it is said for whom a request waits, though nothing has changed
_LOOK_S = 0.3  # how often the first in the queue checks; later ones check less often
_LOOK_MAX_S = 2.0


class Neighbourhood(Protocol):
    """The others of this host: who waits for its GPUs, and what they hold."""

    @property
    def queue(self) -> Queue:
        """Of those who wait."""

    def claims(self, engine: str, *, before: int | None = None) -> Claims:
        """What a request to `engine` has to respect beside that engine's own nodes."""


@dataclass(frozen=True, kw_only=True)
class Turn:
    """Where a request stands, beside whom, and on which engine its GPUs are to be had.

    Attributes:
        place: In the queue; None for who does not wait.
    """

    neighbours: Neighbourhood
    engine: str
    place: QueuePlace | None = None

    def claims(self) -> Claims:
        """What others hold and wait for: what is to be granted asks under the host lock."""
        return self.neighbours.claims(self.engine, before=self.place.number if self.place else None)

    def end(self) -> None:
        """The lease stands in the engine: nobody waits for this request any more."""
        if self.place:
            self.place.leave()


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How long a request waits for GPUs.

    Attributes:
        wait_s: Seconds; None to be refused at once.
    """

    wait_s: float | None = None
    clock: Clock = field(default_factory=SystemClock)


AT_ONCE = Patience()


def when_free(
    patience: Patience,
    turn: Turn,
    *,
    look: Callable[[Turn], object],
    attempt: Callable[[Turn], Result],
    reporter: Reporter,
) -> Result:
    """Attempt it; where the GPUs are taken, wait in the queue and attempt it again when they seem to be free.

    Args:
        patience: How long.
        turn: Of a request that does not wait yet.
        look: Raises GpusTaken if they could not be had now; takes no lock. That an engine is silent ends no waiting.
        attempt: Does it, under the host lock, and ends the turn; GpusTaken says that nothing has been changed.
        reporter: Is told for whom this waits, whenever that changes, and from time to time.

    Raises:
        GpusTaken: They are taken, and nobody wants to wait.
        TimedOut: They were taken all the time.
    """
    if patience.wait_s is None:
        return attempt(turn)
    try:
        look(turn)
        return attempt(turn)
    except GpusTaken as error:
        refusal = error
    queue = turn.neighbours.queue
    with queue.join(render_ticket(refusal.request)) as place:
        ahead = sum(ticket.number < place.number for ticket in queue.waiting())
        waiting = f"waiting ({ahead} request{'s' if ahead != 1 else ''} ahead)"
        reporter.note(f"{waiting}: {refusal.what}: {refusal.evidence}")
        wait = Wait(
            what=f"GPUs: {refusal.what}",
            timeout_s=patience.wait_s,
            fix=refusal.fix,
            interval_s=min(_LOOK_MAX_S, _LOOK_S * (1 + ahead)),
            clock=patience.clock,
        )
        told = _Told(refusal.evidence, reporter, patience.clock)
        done: list[Result] = []
        turn = replace(turn, place=place)

        def try_again() -> str:
            """Look, and attempt it where they seem to be free; returns why it was not done."""
            try:
                if not (why := _silence(look, turn)):
                    done.append(attempt(turn))
            except GpusTaken as error:
                why = error.evidence
            told.tell(why)
            return why

        wait.until(try_again, lambda _: bool(done))
        return done[0]


class _Told:
    """What was last said about the wait, so that nothing is said again before it is time."""

    def __init__(self, why: str, reporter: Reporter, clock: Clock) -> None:
        self._why, self._said_s = why, clock.now_s()
        self._reporter, self._clock = reporter, clock

    def tell(self, why: str) -> None:
        """Say why the wait goes on, where that has changed, and from time to time."""
        now_s = self._clock.now_s()
        if why and (why != self._why or now_s - self._said_s >= AGAIN_S):
            self._said_s = now_s
            self._reporter.note(f"waiting: {why}")
        self._why = why


def _silence(look: Callable[[Turn], object], turn: Turn) -> str:
    """The error of an engine that does not respond, as during a restart: a long wait continues through it."""
    try:
        look(turn)
    except (EngineError, HostNotReady, TimedOut) as error:
        return f"{error.what}: {error.evidence}"
    return ""
