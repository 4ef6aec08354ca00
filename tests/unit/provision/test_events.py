from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuprov.provision.events import TaskEvent, parse_event, parse_warning
from gpuprov.provision.playbook import summarise

RECORDED = json.loads((Path(__file__).parent / "data" / "events.json").read_text(encoding="utf-8"))


def parsed() -> list[TaskEvent]:
    return [event for event in map(parse_event, RECORDED) if event is not None]


def test_a_recorded_play_gives_one_start_and_one_end_for_each_task() -> None:
    ends = [(event.kind, event.task) for event in parsed() if event.kind != "started"]
    starts = [event.task for event in parsed() if event.kind == "started"]
    assert ends == [
        ("changed" if task == "Change something" else kind, task)
        for kind, task in [
            ("ok", "Say ok"),
            ("ok", "Change something"),
            ("skipped", "Skip this"),
            ("ok", "Fail and go on"),
            ("ok", "Fail in a loop"),
            ("failed", "Fail for good"),
        ]
    ]
    assert starts == [task for _, task in ends]


def test_a_failure_says_why() -> None:
    (failed,) = [event for event in parsed() if event.kind == "failed"]
    assert (failed.host, failed.role) == ("localhost", "demo")
    assert failed.message.splitlines() == ["non-zero return code", "the reason", "some output"]


def test_a_failure_in_a_loop_says_which_items_reason() -> None:
    raw = next(
        raw for raw in RECORDED if raw["event"] == "runner_on_failed" and raw["event_data"]["task"].endswith("loop")
    )
    event = parse_event({**raw, "event_data": {**raw["event_data"], "ignore_errors": False}})
    assert event is not None
    assert "about 3" in event.message
    assert "about 0" not in event.message


def test_a_long_output_does_not_drown_the_reason() -> None:
    result = {"msg": "no", "stderr": "the reason", "stdout": "line\n" * 1000}
    event = parse_event({"event": "runner_on_failed", "event_data": {"host": "h", "res": result}})
    assert event is not None
    assert event.message.splitlines()[:2] == ["no", "the reason"]
    assert len(event.message.splitlines()) < 20


def test_an_event_without_a_host_is_none() -> None:
    assert parse_event({"event": "playbook_on_stats", "event_data": {"changed": {"localhost": 1}}}) is None
    assert parse_event({"event": "verbose"}) is None


def test_the_summary_names_what_changed() -> None:
    result = summarise(parsed())
    assert result.changed == ("demo: Change something",)
    assert result.ok == 4


@pytest.mark.parametrize("kind", ["verbose", "warning"])
def test_what_ansible_warns_of_is_one_line(kind: str) -> None:
    said = "[WARNING]: Could not match supplied host pattern,\r\nignoring: c009"
    assert parse_warning({"event": kind, "stdout": said}) == "Could not match supplied host pattern, ignoring: c009"
    assert parse_warning({"event": "playbook_on_play_start", "stdout": said}) is None
    assert parse_warning({"event": kind, "stdout": "c000 | SUCCESS"}) is None
