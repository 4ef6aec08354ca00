"""What Ansible reports while a play runs, as typed events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["started", "ok", "changed", "skipped", "failed", "unreachable"]

MESSAGE_LINES = 10  # the last of each field
# The fields of a failed result that explain it, the most telling first.
_TELLING = ("msg", "stderr", "module_stderr", "stdout", "module_stdout")


@dataclass(frozen=True, kw_only=True)
class TaskEvent:
    """One step of one task on one host; `message` says why where it failed or did not reach the host."""

    kind: Kind
    host: str
    role: str
    task: str
    message: str = ""
    seconds: float = 0.0


def parse_event(raw: Mapping[str, Any]) -> TaskEvent | None:
    """Translate an event of ansible-runner; None for those that are about no task on no host."""
    data = raw.get("event_data") or {}
    kind = _kind(str(raw.get("event", "")), data)
    if kind is None or "host" not in data:
        return None
    return TaskEvent(
        kind=kind,
        host=str(data["host"]),
        role=str(data.get("role") or ""),
        task=str(data.get("task") or ""),
        message=_message(data.get("res") or {}) if kind in {"failed", "unreachable"} else "",
        seconds=float(data.get("duration") or 0.0),
    )


def _kind(event: str, data: Mapping[str, Any]) -> Kind | None:
    match event:
        case "runner_on_start":
            return "started"
        case "runner_on_ok":
            return "changed" if (data.get("res") or {}).get("changed") else "ok"
        case "runner_on_skipped":
            return "skipped"
        case "runner_on_failed":
            return "ok" if data.get("ignore_errors") else "failed"
        case "runner_on_unreachable":
            return "unreachable"
        case _:
            return None


def _message(result: Mapping[str, Any]) -> str:
    parts = [_tail(str(result.get(key) or "")) for key in _TELLING]
    items = (item for item in result.get("results") or () if isinstance(item, Mapping))
    parts += [_message(item) for item in items if item.get("failed")]
    return "\n".join(dict.fromkeys(part for part in parts if part))


def _tail(text: str) -> str:
    return "\n".join(text.strip().splitlines()[-MESSAGE_LINES:])
