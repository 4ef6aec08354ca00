"""Apply Ansible roles to machines."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gpuprov
from gpuprov.core.errors import HostNotReady, PlaybookError, TimedOut
from gpuprov.core.exhaustion import NO_ROOM, room_fix
from gpuprov.provision.events import parse_event
from gpuprov.provision.folder import play_folder
from gpuprov.provision.run import LOG, PlaybookRun, run_ansible
from gpuprov.provision.targets import render_inventory
from gpuprov.provision.transport import ENTRY_VARIABLE, OWNER_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gpuprov.core.reporter import Reporter
    from gpuprov.provision.events import TaskEvent
    from gpuprov.provision.targets import Target

COLLECTIONS = Path(gpuprov.__file__).parent.parent  # in a checkout and in site-packages alike
PLAYBOOK, HOSTS = "play.json", "hosts.json"
CONFIG = "ansible.cfg"  # an empty one: a user's own must not change what gpuprov does
LOG_LINES = 15


@dataclass(frozen=True, kw_only=True)
class RoleUse:
    """A role, with its variables; `tasks` names another entry file of it than `main`."""

    name: str
    variables: Mapping[str, object] = field(default_factory=dict)
    tasks: str = "main"


@dataclass(frozen=True, kw_only=True)
class Play:
    """Roles to apply, in order, to machines.

    Attributes:
        roles_path: The folder that holds the roles.
        transport: `module:function` that opens a Transport for a node's engine; not needed for this machine alone.
        timeout_s: After this many seconds the play is stopped.
        gather_facts: Collect Ansible's facts first; costs a second.
    """

    roles: tuple[RoleUse, ...]
    targets: tuple[Target, ...]
    roles_path: Path
    transport: str = ""
    timeout_s: int = 1800
    gather_facts: bool = False


@dataclass(frozen=True, kw_only=True)
class PlayResult:
    """What a play did; `changed` holds the tasks that changed something, as `role: task`."""

    changed: tuple[str, ...]
    ok: int


class TaskFailed(PlaybookError):
    """A task failed; `event` is the first that did, and `folder` is the play's, kept for its log."""

    def __init__(self, event: TaskEvent, *, folder: Path) -> None:
        log = folder / LOG
        verb = "cannot reach" if event.kind == "unreachable" else "failed on"
        super().__init__(
            f"Ansible task '{event.title}' {verb} {event.host}",
            evidence=f"{event.message}\nlog: {log}".strip(),
            fix=f"less {log}  # then run the same command again; it continues where this run stopped",
        )
        self.event = event
        self.folder = folder


def run_play(play: Play, *, reporter: Reporter) -> PlayResult:
    """Apply the play's roles; its private folder is removed unless it failed.

    Raises:
        TaskFailed: A task failed or a machine could not be reached.
        PlaybookError: Ansible could not start or ended without saying which task failed.
        TimedOut: The play took longer than `timeout_s`.
        HostNotReady: The disk of this machine's temporary files is full.
    """
    events: list[TaskEvent] = []

    def hear(raw: dict[str, Any]) -> bool:
        event = parse_event(raw)
        if event is not None:
            events.append(event)
            if event.kind == "started":
                reporter.node(event.host, event.title)
        return False  # nothing reads ansible-runner's event files

    with play_folder() as folder:
        status = _run(play, folder.path, hear)
        if status not in ("successful", "canceled"):
            _check_room(_failed(events), folder.path)
            folder.keep()
        _judge(status, play, events, folder.path)
    return summarise(events)


def summarise(events: Sequence[TaskEvent]) -> PlayResult:
    """Count what a play that ended well did."""
    return PlayResult(
        changed=tuple(f"{event.role}: {event.task}" for event in events if event.kind == "changed"),
        ok=sum(event.kind in {"ok", "changed"} for event in events),
    )


def render_playbook(play: Play) -> list[dict[str, object]]:
    """The playbook document that Ansible reads."""
    tasks = [
        {
            "name": f"Apply role {role.name}",
            "ansible.builtin.import_role": {"name": role.name, "tasks_from": role.tasks},
            "vars": dict(role.variables),
        }
        for role in play.roles
    ]
    return [{"name": "gpuprov", "hosts": "all", "gather_facts": play.gather_facts, "tasks": tasks}]


def render_environment(play: Play, *, folder: Path, path: str) -> dict[str, str]:
    """Ansible's settings, none of them the user's own, and the way to programs of the environment gpuprov runs in."""
    return {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{path}",
        "PYTHONPATH": str(COLLECTIONS),
        "LC_ALL": "C.UTF-8",
        "ANSIBLE_CONFIG": str(folder / CONFIG),
        "ANSIBLE_HOME": str(folder / "home"),
        "ANSIBLE_LOCAL_TEMP": str(folder / "tmp"),
        "ANSIBLE_REMOTE_TMP": "/tmp/.gpuprov-ansible",  # noqa: S108 - made by Ansible with mode 0700, inside the node
        "ANSIBLE_ROLES_PATH": str(play.roles_path),
        "ANSIBLE_COLLECTIONS_PATH": str(COLLECTIONS),
        "ANSIBLE_PIPELINING": "1",
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_RETRY_FILES_ENABLED": "0",
        "ANSIBLE_DEPRECATION_WARNINGS": "0",
        ENTRY_VARIABLE: play.transport,
        OWNER_VARIABLE: str(os.getpid()),
    }


def _run(play: Play, folder: Path, hear: Callable[[dict[str, Any]], bool]) -> str:
    (folder / CONFIG).touch()
    (folder / PLAYBOOK).write_text(json.dumps(render_playbook(play)), encoding="utf-8")
    (folder / HOSTS).write_text(json.dumps(render_inventory(play.targets)), encoding="utf-8")
    run = PlaybookRun(
        playbook=str(folder / PLAYBOOK),
        cwd=folder,
        arguments=("-i", str(folder / HOSTS)),
        environment=render_environment(play, folder=folder, path=os.environ.get("PATH", os.defpath)),
        timeout_s=play.timeout_s,
    )
    return run_ansible(run, folder, hear)


def _judge(status: str, play: Play, events: Sequence[TaskEvent], folder: Path) -> None:
    if status == "successful":
        return
    if status == "canceled":
        raise KeyboardInterrupt
    log = folder / LOG
    last = next((f"{event.role}: {event.task}" for event in reversed(events) if event.kind == "started"), "none")
    if status == "timeout":
        raise TimedOut(
            f"the play did not finish within {play.timeout_s} s",
            evidence=f"last task started: {last}\nlog: {log}",
            fix=f"less {log}  # then run the same command again",
        )
    if failed := _failed(events):
        raise TaskFailed(failed, folder=folder)
    raise PlaybookError(
        f"Ansible ended with status {status}",
        evidence=f"{_tail(log)}\nlog: {log}",
        fix=f"less {log}  # if it says that Ansible is missing: pip install ansible-core, in gpuprov's environment",
    )


def _failed(events: Sequence[TaskEvent]) -> TaskEvent | None:
    return next((event for event in events if event.kind in {"failed", "unreachable"}), None)


def _check_room(failed: TaskEvent | None, folder: Path) -> None:
    """Say so if it is the folder's own disk that is full; a task that found one full may speak of another's."""
    words = failed.message if failed else _tail(folder / LOG)
    fix = room_fix(words, tempfile.gettempdir())
    if fix and (failed is None or str(folder) in words):
        evidence = next(line for line in reversed(words.splitlines()) if NO_ROOM.search(line))
        raise HostNotReady("a disk of this machine is full", evidence=evidence.strip(), fix=fix)


def _tail(log: Path) -> str:
    with contextlib.suppress(OSError):
        return "\n".join(log.read_text(encoding="utf-8", errors="replace").rstrip().splitlines()[-LOG_LINES:])
    return "no output"
