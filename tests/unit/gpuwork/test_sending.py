from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from gpuwork.broker import make_app, send_runs
from gpuwork.errors import BrokerError
from gpuwork.sending import send_tasks

if TYPE_CHECKING:
    from collections.abc import Callable

RUNS = 1200  # more than go at once


class Line:
    """A connection to a broker that confirms, and the app that opens it.

    Attributes:
        waits: How often somebody waited for confirmations.
        loses: How many times the connection is lost while somebody waits.
        refuses: Whether the broker refuses.
    """

    def __init__(self, *, loses: int = 0, refuses: bool = False) -> None:
        self.sent: list[tuple[object, ...]] = []
        self.waits = 0
        self.loses = loses
        self.refuses = refuses
        self.options: dict[str, object] = {}
        self.conf = SimpleNamespace(broker_transport_options={"confirm_publish": True})
        self._open()

    def _open(self) -> None:
        self._count = self._told = 0
        events: dict[str, set[Any]] = {"basic_ack": set(), "basic_nack": set()}
        self.default_channel = SimpleNamespace(events=events, confirm_select=lambda: None)

    def connection_for_write(self, *, transport_options: dict[str, object]) -> Line:
        self.options = transport_options
        return self

    def __enter__(self) -> Line:  # noqa: PYI034
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def ensure_connection(self, **_policy: object) -> None:
        pass

    def Producer(self, channel: object, *, auto_declare: bool) -> object:  # noqa: N802 - kombu's name
        assert not auto_declare
        return channel

    def ensure(
        self, sender: Any, act: Callable[[Any], None], *, max_retries: int, **_: object
    ) -> Callable[[Any], None]:
        def ensured(some: Any) -> None:
            for left in reversed(range(max_retries + 1)):
                try:
                    return act(some)
                except OSError:  # noqa: PERF203
                    if not left:
                        raise
                    self._open()
                    sender.revive(self.default_channel)
            return None

        return ensured

    def send_task(self, name: str, arguments: tuple[object, ...], **how: object) -> None:
        assert name == "run"
        assert how["producer"] is self.default_channel
        self._count += 1
        self.sent.append(arguments)

    def drain_events(self, *, timeout: float) -> None:
        assert timeout
        self.waits += 1
        if self.loses:
            self.loses -= 1
            raise ConnectionResetError
        kind = "basic_nack" if self.refuses else "basic_ack"
        middle = (self._told + self._count) // 2
        for tag in range(self._told + 1, middle + 1):  # in two ways, as brokers do
            self._say(kind, tag, multiple=False)
        self._say(kind, self._count, multiple=True)
        self._told = self._count

    def _say(self, kind: str, tag: int, *, multiple: bool) -> None:
        for hear in self.default_channel.events[kind]:
            hear(tag, multiple)


def send(line: Any) -> None:
    send_tasks(line, "run", (("7", number) for number in range(RUNS)), queue="gpuwork")


def test_many_are_under_way_and_all_are_confirmed() -> None:
    line = Line()
    send(line)
    assert line.sent == [("7", number) for number in range(RUNS)]
    assert line.waits == 3, "one wait for each 500"
    assert line.options == {"confirm_publish": False}, "the library waits for each"


def test_what_is_not_confirmed_when_the_connection_is_lost_is_sent_again() -> None:
    line = Line(loses=1)
    send(line)
    assert set(line.sent) == {("7", number) for number in range(RUNS)}
    assert len(line.sent) == RUNS + 500


@pytest.mark.parametrize("line", [Line(loses=100), Line(refuses=True)], ids=["lost", "refused"])
def test_a_broker_that_never_confirms_is_an_error(line: Line) -> None:
    with pytest.raises(ConnectionError):
        send(line)


@pytest.mark.slow
def test_a_broker_that_does_not_confirm_gets_all(monkeypatch: pytest.MonkeyPatch) -> None:
    app = make_app("memory://")
    send_runs(app, "7", range(RUNS))
    with app.connection_for_read() as connection:
        assert app.amqp.queues["gpuwork"](connection.default_channel).queue_declare().message_count == RUNS
    monkeypatch.setattr(
        app, "connection_for_write", lambda **_: (_ for _ in ()).throw(OSError("amqp://a:b@c is unreachable"))
    )
    with pytest.raises(BrokerError) as caught:
        send_runs(app, "7", [1])
    assert "a:b" not in caught.value.evidence
