"""A limit for what would take hours if it were quadratic."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def own_time(limit_s: float) -> Iterator[None]:
    """Fail where the block takes more; it is this process's own time that counts, so a busy machine makes none fail."""

    def give_up(_signal: int, _frame: object) -> None:
        pytest.fail(f"{limit_s} s were not enough")

    former = signal.signal(signal.SIGVTALRM, give_up)
    signal.setitimer(signal.ITIMER_VIRTUAL, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, former)
