"""Jobs that start processes without end, for nodes that have a small limit of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from gpuprov.core.waiting import Wait
from tests.e2e.conftest import output

if TYPE_CHECKING:
    from tests.e2e.desk import Desk

BOMB = """
import os, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
while True:
    try:
        if os.fork() == 0:
            os.setsid()
    except OSError:
        pass
"""
# All but the first begin the next one and end: their numbers change all the time.
CHAINS = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for _ in range(20):
    if os.fork() == 0:
        break
else:
    time.sleep(600)
while True:
    if os.fork() == 0:
        os.setsid()
    else:
        os._exit(0)
"""


def lives_of(words: str) -> int:
    """How many processes of this host, and so of its nodes, were started with these words."""
    listed = output("ps", "ax", "-ww", "-o", "args=").splitlines()
    return sum(words in line for line in listed)


def ended(desk: Desk, job: str, *, seconds: float) -> dict[str, Any]:
    """The row of a job that has ended; a node without processes may not answer meanwhile."""

    def look() -> dict[str, Any]:
        process = desk.gpuprov.start("--json", *desk.typed(("jobs", "show", job)))
        said, _ = process.communicate(timeout=60)
        return json.loads(said)["jobs"][0] if process.returncode == 0 else {}

    return Wait(what="the job to end", timeout_s=seconds, fix="look at the queue").until(
        look, lambda row: row.get("state") in ("failed", "cancelled", "done")
    )
