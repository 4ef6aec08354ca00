"""What Ansible reports while a play runs, as typed events."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from gpuprov.core.excerpt import end_and_causes

EventKind = Literal["started", "ok", "changed", "skipped", "failed", "unreachable"]

_WARNING = "[WARNING]: "
MESSAGE_LINES = 10  # of each field
# The fields of a failed result that explain it, the most telling first.
_TELLING = ("msg", "stderr", "module_stderr", "stdout", "module_stdout")


@dataclass(frozen=True, kw_only=True)
class TaskEvent:
    """One step of one task on one host.

    Attributes:
        message: Why it failed or did not reach the host.
        diff: What it changed, or would change, where the play runs with `--diff`.
    """

    kind: EventKind
    host: str
    role: str
    task: str
    message: str = ""
    seconds: float = 0.0
    diff: str = ""

    @property
    def title(self) -> str:
        """The task with its role."""
        return f"{self.role}: {self.task}" if self.role else self.task


@dataclass(frozen=True, kw_only=True)
class HostStats:
    """How many tasks ended how on one host, as Ansible counts at the end of a run."""

    host: str
    ok: int
    changed: int
    failed: int
    unreachable: int
    skipped: int


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
        diff=render_diff((data.get("res") or {}).get("diff")),
    )


def parse_stats(raw: Mapping[str, Any]) -> tuple[HostStats, ...] | None:
    """The counts of every host, from the event at the end of a run; None for any other event."""
    if raw.get("event") != "playbook_on_stats":
        return None
    data = raw.get("event_data") or {}
    columns = {"ok": "ok", "changed": "changed", "failed": "failures", "unreachable": "dark", "skipped": "skipped"}
    counts = {name: data.get(key) or {} for name, key in columns.items()}
    hosts = sorted({host for column in (*counts.values(), data.get("processed") or {}) for host in column})
    return tuple(HostStats(host=host, **{name: int(counts[name].get(host, 0)) for name in counts}) for host in hosts)


def is_sign(raw: Mapping[str, Any]) -> bool:
    """Whether the event says that a play goes on; that a task looks once more says nothing."""
    event = str(raw.get("event", ""))
    return event.startswith(("playbook_on_", "runner_")) and event != "runner_retry"


def parse_play(raw: Mapping[str, Any]) -> str | None:
    """The name of the play that begins; None for any other event."""
    data = raw.get("event_data") or {}
    return str(data.get("name") or data.get("play") or "") if raw.get("event") == "playbook_on_play_start" else None


def parse_warning(raw: Mapping[str, Any]) -> str | None:
    """What Ansible warns of; None for any other event."""
    said = str(raw.get("stdout") or "") if raw.get("event") in ("verbose", "warning") else ""
    return " ".join(said.removeprefix(_WARNING).split()) if said.startswith(_WARNING) else None


def render_diff(diff: object) -> str:
    """What a module hands back for `--diff`, as a unified diff or as it prepared it."""
    if isinstance(diff, list):
        return "".join(render_diff(part) for part in diff)
    if not isinstance(diff, Mapping):
        return ""
    if "prepared" in diff:
        return str(diff["prepared"])
    before, after = (_lines(diff.get(key)) for key in ("before", "after"))
    old, new = (str(diff.get(f"{key}_header") or key) for key in ("before", "after"))
    return "".join(difflib.unified_diff(before, after, old, new))


def _lines(value: object) -> list[str]:
    text = value if isinstance(value, str) else json.dumps(value, indent=2, sort_keys=True) if value else ""
    return [f"{line}\n" for line in text.splitlines()]


def _kind(event: str, data: Mapping[str, Any]) -> EventKind | None:
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
    parts[1:1] = [_tail(_answer(result))]
    items = (item for item in result.get("results") or () if isinstance(item, Mapping))
    parts += [_message(item) for item in items if item.get("failed")]
    return "\n".join(dict.fromkeys(part for part in parts if part))


def _answer(result: Mapping[str, Any]) -> str:
    """What an engine or a server answered where a request to it failed: LXD's and Docker's JSON, else any body."""
    said = result.get("json")
    if isinstance(said, Mapping):
        return str(next((said[key] for key in ("error", "message", "err") if said.get(key)), ""))
    return str(result.get("content") or "") if "status" in result else ""


def _tail(text: str) -> str:
    return end_and_causes(text, MESSAGE_LINES)
