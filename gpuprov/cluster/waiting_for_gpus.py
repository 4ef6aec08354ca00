"""`--wait`: stand in the queue of this host until the GPUs can be had, without standing in anybody's way."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeVar

from gpuprov.cluster.leases import render_ticket
from gpuprov.core.errors import EngineError, HostNotReady, TimedOut
from gpuprov.core.waiting import SystemClock, Wait
from gpuprov.gpu.allocate import GpusTaken

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuprov.cluster.leases import Neighbours
    from gpuprov.core.reporter import Reporter
    from gpuprov.core.waiting import Clock
    from gpuprov.gpu.allocate import Claims

Result_co = TypeVar("Result_co", covariant=True)
AGAIN_S = 300.0  # how often it is said for whom a request waits, though nothing has changed
_LOOK_S = 0.3  # how often the first in the queue checks; later ones check less often
_LOOK_MAX_S = 2.0


class Attempt(Protocol[Result_co]):
    """One try to get GPUs and do the work; GpusTaken says that nothing has been changed."""

    def __call__(self, claims: Callable[[], Claims], granted: Callable[[], object]) -> Result_co:
        """Try.

        Args:
            claims: What others hold and wait for; to be asked under the host lock.
            granted: To be called once the lease stands in the engine.
        """


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
    neighbours: Neighbours,
    engine: str,
    *,
    look: Callable[[Claims], object],
    attempt: Attempt[Result_co],
    reporter: Reporter,
) -> Result_co:
    """Attempt it; where the GPUs are taken, wait in the queue and attempt it again when they seem to be free.

    Args:
        patience: How long.
        neighbours: Beside whom.
        engine: Name of the engine that the attempt is made on.
        look: Raises GpusTaken if they could not be had now; takes no lock. That an engine is silent ends no waiting.
        attempt: Does it, under the host lock.
        reporter: Is told for whom this waits, whenever that changes, and from time to time.

    Raises:
        GpusTaken: They are taken, and nobody wants to wait.
        TimedOut: They were taken all the time.
    """
    if patience.wait_s is None:
        return attempt(lambda: neighbours.claims(engine), _stay)
    try:
        look(neighbours.claims(engine))
        return attempt(lambda: neighbours.claims(engine), _stay)
    except GpusTaken as error:
        refusal = error
    with neighbours.queue.join(render_ticket(refusal.request)) as place:
        ahead = sum(ticket.number < place.number for ticket in neighbours.queue.waiting())
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

        def claims() -> Claims:
            return neighbours.claims(engine, before=place.number)

        return _repeat(wait, told, look=lambda: look(claims()), attempt=lambda: attempt(claims, place.leave))


def _repeat(wait: Wait, told: _Told, *, look: Callable[[], object], attempt: Callable[[], Result_co]) -> Result_co:
    """Attempt it whenever the look says that the GPUs seem to be free, until the attempt gets them."""
    done: list[Result_co] = []

    def try_again() -> str:
        """Why it was not done; empty where it was."""
        why = ""
        try:
            if not (why := _silence(look)):
                done.append(attempt())
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


def _silence(look: Callable[[], object]) -> str:
    """The error of an engine that does not respond, as during a restart: a long wait continues through it."""
    try:
        look()
    except (EngineError, HostNotReady, TimedOut) as error:
        return f"{error.what}: {error.evidence}"
    return ""


def _stay() -> None:
    """Who is not in the queue need not leave it."""
