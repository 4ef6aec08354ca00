"""Tasks on their way to the broker: many are under way at once, and all are confirmed by a broker that can do so.

Waiting for each one's confirmation costs the broker's disk a write for each: 30 s for 5,000 of them.
"""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from celery import Celery
    from kombu import Connection

_AT_ONCE: Final = 500
_CONFIRM_S: Final = 20.0  # without any confirmation, after which all of these are sent again
_AGAIN: Final = {"max_retries": 3, "interval_start": 0.2, "interval_step": 0.5}
_CONFIRMS: Final = "confirm_publish"


def send_tasks(app: Celery, task: str, arguments: Iterable[tuple[object, ...]], *, queue: str) -> None:
    """Send a task for each; one may arrive twice where the connection was lost meanwhile.

    Raises:
        Exception: The library's: the broker does not answer, or refused; it has some of the messages.
    """
    confirms = bool(app.conf.broker_transport_options.get(_CONFIRMS))
    # the library would wait for each
    own = {"transport_options": {_CONFIRMS: False}} if confirms else {}
    with app.connection_for_write(**own) as connection:
        connection.ensure_connection(**_AGAIN)
        sender = _Sender(connection, partial(app.send_task, task, queue=queue, retry=False, ignore_result=True))
        send = connection.ensure(sender, sender.confirmed if confirms else sender.send, **_AGAIN)
        left = iter(arguments)
        while some := list(islice(left, _AT_ONCE)):
            send(some)


class _Sender:
    """Sends through one channel after the other; kombu calls `revive` where a connection had to be made again."""

    def __init__(self, connection: Connection, send_one: Any) -> None:  # noqa: ANN401 - celery has no types
        self._connection = connection
        self._send_one = send_one
        self._confirmations: _Confirmations | None = None
        self.revive(connection.default_channel)

    def revive(self, channel: Any) -> None:  # noqa: ANN401 - each transport has its own
        """Go on with another channel."""
        self._channel = channel
        self._producer = self._connection.Producer(channel, auto_declare=False)
        self._confirmations = None

    def send(self, some: list[tuple[object, ...]]) -> None:
        """Hand them to the broker."""
        for one in some:
            self._send_one(one, producer=self._producer)

    def confirmed(self, some: list[tuple[object, ...]]) -> None:
        """The same, and wait until it has them all."""
        said = self._confirmations = self._confirmations or _Confirmations(self._channel)
        said.expect(len(some))
        self.send(some)
        while said.awaited:
            self._connection.drain_events(timeout=_CONFIRM_S)
        if said.refused:
            self._confirmations = None
            raise ConnectionRefusedError("the broker refused messages")


class _Confirmations:
    """What a broker says of the messages of a channel, which it counts from 1."""

    def __init__(self, channel: Any) -> None:  # noqa: ANN401 - amqp's
        channel.confirm_select()
        channel.events["basic_ack"].add(self._take)
        channel.events["basic_nack"].add(self._refuse)
        self.awaited: set[int] = set()
        self.refused = False
        self._last = 0

    def expect(self, count: int) -> None:
        """So many messages are about to be sent."""
        self.awaited |= set(range(self._last + 1, self._last + count + 1))
        self._last += count

    def _take(self, tag: int, multiple: bool) -> None:  # noqa: FBT001 - amqp's signature
        self.awaited = {one for one in self.awaited if one > tag} if multiple else self.awaited - {tag}

    def _refuse(self, tag: int, multiple: bool) -> None:  # noqa: FBT001 - amqp's signature
        self.refused = True
        self._take(tag, multiple)
