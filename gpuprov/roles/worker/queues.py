"""The queues of RabbitMQ, as the broker's node lists them: those in which messages wait that nobody takes."""

from __future__ import annotations

import re
from typing import Final

from gpuprov.roles.worker.facts import ACCOUNT, DEFINITIONS

_LIST: Final = f"rabbitmqctl --quiet -p {ACCOUNT} list_queues --no-table-headers name messages consumers"
QUEUES_ARGV: Final = ["sh", "-c", f"test ! -e {DEFINITIONS} || exec {_LIST}"]  # nothing where there is no broker
_QUEUE: Final = re.compile(r"([^\t]{1,255})\t([0-9]{1,12})\t([0-9]{1,12})", re.ASCII)
# The runs of jobs, of which another check knows; a worker's own; Celery's answers, events and commands.
_PASSED_OVER: Final = re.compile(
    rf"{ACCOUNT}|.*@.*|[0-9a-f]{{8}}(-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}|celeryev\..*|.*\.pidbox", re.ASCII
)


def find_unserved(text: str) -> dict[str, int]:
    """How many messages wait in each queue that has no consumer; raises ValueError for what is no list of queues."""
    found = {}
    for line in text.splitlines():
        match = _QUEUE.fullmatch(line)
        if match is None:
            raise ValueError(f"not a line of RabbitMQ's list of queues: {line[:100]!a}")
        name, messages, consumers = match[1], int(match[2]), int(match[3])
        if messages and not consumers and not _PASSED_OVER.fullmatch(name):
            found[name] = messages
    return found
