"""One writer per host, in order of arrival: a lock that names its holder, and that ends when the holder dies.

Image builds, which take minutes, have a lock of their own. Whoever needs both takes that one first.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from gpuprov.core.excerpt import excerpt
from gpuprov.core.group_files import IMAGES_NAME, LOCK_NAME, Gates, user_name
from gpuprov.core.queue import Queue
from gpuprov.core.redact import hide_command
from gpuprov.core.silence_limit import more_time, scaled_limit_s
from gpuprov.core.waiting import Wait

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpuprov.core.queue import QueuePlace, Ticket
    from gpuprov.core.reporter import Reporter

TIMEOUT_S = 900.0
AGAIN_S = 30.0  # how often it is said for whom one waits
_LOOK_S = 0.1  # how often one looks whether it is one's turn
_DAY_S = 86400


@contextmanager
def host_lock(reporter: Reporter, *, gates: Gates | None = None, timeout_s: float | None = None) -> Iterator[bool]:
    """Hold the host lock for the block, and tell whether it had to be waited for; readers do not need it.

    The lock is fair: runs get it in the order in which they asked for it.

    Args:
        reporter: Is told which run this one waits for.
        gates: Who may hold it, and where it is; root alone where None.
        timeout_s: Seconds to wait for the next of those that came earlier; None for the usual limit.

    Raises:
        TimedOut: One held it all that time.
        HostNotReady: This user may not hold it.
    """
    with _held(LOCK_NAME, "the lock of this host", "", reporter, gates, timeout_s) as waited:
        yield waited


@contextmanager
def image_lock(reporter: Reporter, *, gates: Gates | None = None, timeout_s: float | None = None) -> Iterator[bool]:
    """The same with the lock of the host's image builds; never to be waited for under the other one."""
    with _held(IMAGES_NAME, "an image build of another run", "an image build: ", reporter, gates, timeout_s) as waited:
        yield waited


@contextmanager
def image_lock_if_free(gates: Gates | None = None) -> Iterator[bool]:
    """Hold the lock of image builds for the block, unless another run has it; tells which."""
    with Queue(gates or Gates(), IMAGES_NAME).join(describe_process()) as place:
        yield not place.ahead()


@contextmanager
def _held(
    name: str, what: str, deed: str, reporter: Reporter, gates: Gates | None, timeout_s: float | None
) -> Iterator[bool]:
    with Queue(gates or Gates(), name).join(describe_process()) as place:
        waited = bool(place.ahead())
        if waited:
            _wait(place, what, deed, reporter, scaled_limit_s(TIMEOUT_S) if timeout_s is None else timeout_s)
            place.renew()
        yield waited


def _wait(place: QueuePlace, what: str, deed: str, reporter: Reporter, timeout_s: float) -> None:
    said_s = 0.0

    def look() -> str:
        nonlocal said_s
        ahead = place.ahead()
        seen = describe_wait(ahead, now_s=time.time()) if ahead else ""
        if seen and (not said_s or time.monotonic() - said_s >= AGAIN_S):
            said_s = time.monotonic()
            reporter.note(f"waiting for {deed}{seen}")
        return seen

    wait = Wait(
        what=what,
        timeout_s=timeout_s,
        fix=f"wait for the other run to finish, or stop it, then run this command again; {more_time()}",
        interval_s=_LOOK_S,
    )
    wait.until(look, lambda seen: not seen, undone=lambda: len(place.ahead()))


def describe_wait(ahead: tuple[Ticket, ...], *, now_s: float) -> str:
    """Who holds the lock, since when, and how many come before oneself."""
    holder, *others = ahead
    queued = f"; {len(others)} more before this one" if others else ""
    return f"{excerpt(holder.text) or 'another run of gpuprov'}{_since(holder.since_s, now_s)}{queued}"


def _since(since_s: float, now_s: float) -> str:
    from datetime import datetime  # nearly always, nobody waits

    try:
        moment = datetime.fromtimestamp(since_s).astimezone()
    except (ValueError, OverflowError, OSError):
        return ""  # it did not come from gpuprov
    form = "%H:%M:%S" if now_s - since_s < _DAY_S else "%Y-%m-%d %H:%M:%S"
    return f", since {moment.strftime(form)} ({max(0, round(now_s - since_s))} s)"


def describe_process() -> str:
    """This process, for those who wait for it to read: who, and the command without secrets."""
    command = hide_command([Path(sys.argv[0]).name, *sys.argv[1:]])
    return f"process {os.getpid()} of {user_name()}: {excerpt(command)}"
