"""Apply Ansible roles to machines."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gpuprov
from gpuprov.core.errors import HostNotReady, PlaybookError, TimedOut
from gpuprov.core.exhaustion import NO_ROOM, room_fix
from gpuprov.core.silence_limit import more_patience, silence_limit_s
from gpuprov.provision.events import parse_event
from gpuprov.provision.folder import play_folder
from gpuprov.provision.run import LOG, SILENT, PlaybookRun, find_work_of_tasks, run_ansible
from gpuprov.provision.signs import Signs
from gpuprov.provision.targets import render_inventory
from gpuprov.provision.transport import ENTRY_VARIABLE, OWNER_VARIABLE, look_into

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gpuprov.core.activity import Activities
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
        silence_s: For how long no task may give a sign that it works; None for the usual limit.
        gather_facts: Collect Ansible's facts first; costs a second.
        more_roles_path: Another folder with roles, looked through after the first one.
    """

    roles: tuple[RoleUse, ...]
    targets: tuple[Target, ...]
    roles_path: Path
    transport: str = ""
    silence_s: float | None = None
    gather_facts: bool = False
    more_roles_path: Path | None = None


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
        TimedOut: No task gave a sign that it works for `silence_s`.
        HostNotReady: The disk of this machine's temporary files is full.
    """
    events: list[TaskEvent] = []
    silence_s = play.silence_s or silence_limit_s()

    def hear(raw: dict[str, Any]) -> bool:
        if signs.verdict:
            return False  # it is being ended
        signs.hear(raw)
        event = parse_event(raw)
        if event is not None:
            events.append(event)
            if event.kind == "started":
                reporter.node(event.host, event.title)
        return False  # nothing reads ansible-runner's event files

    with play_folder() as folder:
        signs = Signs(silence_s, [partial(find_work_of_tasks, folder.path), *_looks_into(play)])
        with signs.watched():
            status = _run(play, folder.path, hear, signs.judge)
        if status == SILENT:
            folder.keep()
            raise _silent(signs, silence_s, events, folder.path / LOG)
        if status not in ("successful", "canceled"):
            _check_room(_failed(events), folder.path)
            folder.keep()
        _judge(status, events, folder.path)
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


def play_environment(play: Play, *, folder: Path, path: str) -> dict[str, str]:
    """Ansible's settings, none of them the user's own, and the way to programs of the environment gpuprov runs in."""
    return {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{path}",
        "PYTHONPATH": str(COLLECTIONS),
        "LC_ALL": "C.UTF-8",
        "ANSIBLE_CONFIG": str(folder / CONFIG),
        "ANSIBLE_HOME": str(folder / "home"),
        "ANSIBLE_LOCAL_TEMP": str(folder / "tmp"),
        "ANSIBLE_REMOTE_TMP": "/tmp/.gpuprov-ansible",  # noqa: S108 - made by Ansible with mode 0700, inside the node
        "ANSIBLE_ROLES_PATH": os.pathsep.join(str(path) for path in (play.roles_path, play.more_roles_path) if path),
        "ANSIBLE_COLLECTIONS_PATH": str(COLLECTIONS),
        "ANSIBLE_PIPELINING": "1",
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_RETRY_FILES_ENABLED": "0",
        "ANSIBLE_DEPRECATION_WARNINGS": "0",
        ENTRY_VARIABLE: play.transport,
        OWNER_VARIABLE: str(os.getpid()),
    }


def _looks_into(play: Play) -> list[Callable[[], Activities]]:
    """How to see what processes do in each node of the play."""
    nodes = [(target.name, target.engine) for target in play.targets if target.engine is not None]
    return [partial(look_into, play.transport, node, engine) for node, engine in nodes]


def _run(play: Play, folder: Path, hear: Callable[[dict[str, Any]], bool], judge: Callable[[], str]) -> str:
    (folder / CONFIG).touch()
    (folder / PLAYBOOK).write_text(json.dumps(render_playbook(play)), encoding="utf-8")
    (folder / HOSTS).write_text(json.dumps(render_inventory(play.targets)), encoding="utf-8")
    run = PlaybookRun(
        playbook=str(folder / PLAYBOOK),
        cwd=folder,
        arguments=("-i", str(folder / HOSTS)),
        environment=play_environment(play, folder=folder, path=os.environ.get("PATH", os.defpath)),
        judge=judge,
    )
    return run_ansible(run, folder, hear)


def _judge(status: str, events: Sequence[TaskEvent], folder: Path) -> None:
    if status == "successful":
        return
    if status == "canceled":
        raise KeyboardInterrupt
    log = folder / LOG
    if failed := _failed(events):
        raise TaskFailed(failed, folder=folder)
    raise PlaybookError(
        f"Ansible ended with status {status}",
        evidence=f"{_tail(log)}\nlog: {log}",
        fix=f"less {log}  # if it says that Ansible is missing: pip install ansible-core, in gpuprov's environment",
    )


def _silent(signs: Signs, silence_s: float, events: Sequence[TaskEvent], log: Path) -> TimedOut:
    running = next((f"{event.title}, on {event.host}" for event in reversed(events) if event.kind == "started"), "none")
    ended = [event.title for event in events if event.kind != "started"]
    before = f"tasks that ended before it: {len(ended)}{f', the last of them: {ended[-1]}' if ended else ''}"
    return TimedOut(
        f"the play {signs.verdict}",
        evidence=f"task: {running}\n{before}\nlast line: {signs.last_line or 'none'}\nlog: {log}",
        fix=f"less {log}; then run the same command again; {more_patience(silence_s)}",
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
