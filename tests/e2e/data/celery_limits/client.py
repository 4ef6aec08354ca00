"""Does with the app what its users do, and prints what came of it, a line each."""

from __future__ import annotations

import time
from pathlib import Path

from app import hard, model, nap, soft
from celery.exceptions import TaskRevokedError, TimeLimitExceeded

LIMIT_S = 60


def has_begun(marks: Path) -> bool:
    """Whether the task that leaves this file runs."""
    until = time.monotonic() + LIMIT_S
    while not (marks.exists() and marks.read_text().endswith("\n")) and time.monotonic() < until:
        time.sleep(0.1)
    return marks.exists()


told = [model.delay().get(timeout=LIMIT_S) for _ in range(6)]
print(all(loaded == [process] for loaded, process in told), len({process for _, process in told}) <= 2)
print(soft.delay().get(timeout=LIMIT_S))
for number in range(3):
    limited = hard.delay(f"limited-{number}")
    try:
        limited.get(timeout=LIMIT_S)
    except TimeLimitExceeded as error:
        print(error)
    marks = Path(f"revoked-{number}")
    revoked = nap.delay(str(marks))
    if has_begun(marks):
        revoked.revoke(terminate=True)
    try:
        revoked.get(timeout=LIMIT_S)
    except TaskRevokedError as error:
        print(error)
print([soft.delay().get(timeout=LIMIT_S) for _ in range(4)])
