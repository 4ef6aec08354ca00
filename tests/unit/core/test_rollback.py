from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuprov.core.errors import EngineError
from gpuprov.core.rollback import AGAIN, KEPT_BY, Rollback

if TYPE_CHECKING:
    from tests.conftest import Recording


def test_nothing_is_undone_when_the_block_ends_normally(recording: Recording) -> None:
    undone: list[str] = []
    with Rollback(recording, left_over=AGAIN) as rollback:
        rollback.add("network", lambda: undone.append("network"))
    assert undone == []
    assert recording.lines == []


@pytest.mark.parametrize("error", [ValueError("x"), KeyboardInterrupt()])
def test_what_was_made_is_undone_in_reverse(recording: Recording, error: BaseException) -> None:
    undone: list[str] = []
    with pytest.raises(type(error)), Rollback(recording, left_over=AGAIN) as rollback:
        rollback.add("network", lambda: undone.append("network"))
        rollback.add("node", lambda: undone.append("node"))
        raise error
    assert undone == ["node", "network"]
    assert recording.lines == ["note undid node", "note undid network"]


def test_a_step_that_fails_is_said_and_does_not_stop_the_others(recording: Recording) -> None:
    def broken() -> None:
        raise OSError("daemon is gone")

    undone: list[str] = []
    with pytest.raises(ValueError, match="first"), Rollback(recording, left_over=AGAIN) as rollback:
        rollback.add("network", lambda: undone.append("network"))
        rollback.add("node", broken)
        raise ValueError("first")
    assert undone == ["network"]
    assert recording.lines == [
        "warn could not undo node: daemon is gone",
        "note undid network",
        "warn some changes of this run are left; to continue, run the same command again",
    ]


@pytest.mark.parametrize("looks_at", ["c000", "c0001", "lab"])
def test_a_fix_that_looks_at_what_is_undone_says_that_it_is_gone(recording: Recording, looks_at: str) -> None:
    fix = f"gpuprov exec {looks_at} -- systemctl status slurmdbd"
    with pytest.raises(EngineError) as caught, Rollback(recording, left_over=AGAIN) as rollback:
        rollback.add("network lab", lambda: None)
        rollback.add("node c000", lambda: None)
        raise EngineError("slurmdbd did not restart", fix=fix)
    gone = f"c000 is gone, as this run was undone; {KEPT_BY}; then {fix}"
    assert caught.value.fix == (gone if looks_at == "c000" else fix)


@pytest.mark.parametrize("gone", [True, False])
def test_what_others_need_stays_with_them(recording: Recording, *, gone: bool) -> None:
    undone: list[str] = []

    def undo_node() -> None:
        if not gone:
            raise OSError("daemon is gone")

    with pytest.raises(ValueError, match="first"), Rollback(recording, left_over=AGAIN) as rollback:
        rollback.add("network", lambda: undone.append("network"))
        rollback.add("keys", lambda: undone.append("keys"), needed=True)
        rollback.add("node", undo_node)
        raise ValueError("first")
    assert undone == (["keys", "network"] if gone else ["network"])
    assert ("warn kept keys: something that needs it still exists" in recording.lines) is not gone


def test_an_interrupt_while_undoing_names_all_that_is_left(recording: Recording) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), Rollback(recording, left_over=AGAIN) as rollback:
        rollback.add("network", lambda: None)
        rollback.add("node", interrupted)
        raise ValueError("first")
    assert recording.lines == [
        "warn interrupted while undoing; not undone: node, network; to continue, run the same command again"
    ]


def test_keep_on_failure_keeps_and_says_so(recording: Recording) -> None:
    undone: list[str] = []
    with pytest.raises(ValueError, match="x"), Rollback(recording, left_over=AGAIN, keep=True) as rollback:
        rollback.add("node", lambda: undone.append("node"))
        raise ValueError("x")
    assert undone == []
    assert recording.lines == ["note kept node", "note to continue, run the same command again"]
