"""A ping of a given size: one lost packet says nothing."""

from __future__ import annotations

import os

import pytest

from gpuprov.machine.overlay import ping

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="raw sockets need root")


@pytest.mark.parametrize(("lost", "told"), [(0, "answers"), (2, "answers"), (3, "silent")])
def test_it_is_sent_three_times_at_most(monkeypatch: pytest.MonkeyPatch, lost: int, told: str) -> None:
    answers = iter(["silent"] * lost + ["answers"])
    monkeypatch.setattr(ping, "_wait", lambda *_: next(answers))
    assert ping.ping_whole("127.0.0.1", 64) == told
