"""One run of ansible-playbook in a private folder: the one place that knows ansible-runner."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuprov.core.activity import find_work_below

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from gpuprov.core.activity import Activities

IDENT = "run"
LOG = f"artifacts/{IDENT}/stdout"
SILENT = "silent"
MARK = "GPUPROV_PLAY"  # names the private folder in the environment of every process of the run
GRACE_S = 10.0  # for Ansible to end its forks, and for their modules to undo what they began
_POLL_S = 1
_STEP_S = 0.1


@dataclass(frozen=True, kw_only=True)
class PlaybookRun:
    """What ansible-playbook is started with.

    Attributes:
        playbook: Its path, absolute or below `cwd`.
        cwd: The folder it runs in.
        arguments: Of the command line, besides the playbook.
        environment: Variables to add to this process's own.
        judge: Is asked every second why the run has to end; empty words let it go on.
    """

    playbook: str
    cwd: Path
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    judge: Callable[[], str] = str


def run_ansible(run: PlaybookRun, folder: Path, hear: Callable[[dict[str, Any]], bool]) -> str:
    """Run a playbook and hand each event on; nothing is written to this process's stdout or stderr.

    Ctrl-C, or SIGTERM, ends Ansible and its forks: first as a user would, after GRACE_S by force.

    Returns:
        ansible-runner's word for how it ended: `successful`, `failed` or `canceled`; or SILENT where it was judged.
    """
    import ansible_runner

    cancel = _Cancel(folder, run.judge)
    with _own_signals(cancel):
        runner = ansible_runner.run(
            private_data_dir=str(folder),
            project_dir=str(run.cwd),
            playbook=run.playbook,
            inventory=[],  # in the arguments; ansible-runner would add a folder of its own
            cmdline=_quote(run.arguments),
            ident=IDENT,
            envvars={**run.environment, MARK: str(folder)},
            settings={
                "pexpect_timeout": _POLL_S,
                "pexpect_use_poll": True,
                "suppress_ansible_output": True,
            },
            cancel_callback=cancel,
            event_handler=hear,
            quiet=True,
        )
    status = "canceled" if cancel.asked else str(runner.status)
    if cancel.judged and not cancel.asked and status != "successful":
        status = SILENT
    if status in ("canceled", SILENT):
        _end_forks(folder)
    return status


def _end_forks(folder: Path) -> None:
    """Wait for forks that outlive Ansible, for their modules undo what they began; then end them by force."""
    deadline = time.monotonic() + GRACE_S
    while (left := _marked(folder)) and time.monotonic() < deadline:
        time.sleep(_STEP_S)
    _signal(left, signal.SIGKILL)


def _quote(arguments: tuple[str, ...]) -> str:
    import shlex

    return shlex.join(arguments)


class _Cancel:
    """Asked by ansible-runner every second whether to end the run by force."""

    def __init__(self, folder: Path, judge: Callable[[], str]) -> None:
        self.asked = False
        self.judged = ""
        self._folder = folder
        self._judge = judge
        self._since: float | None = None

    def __call__(self) -> bool:
        self.judged = self.judged or self._judge()
        if not self.asked and not self.judged:
            return False
        if self._since is None:
            self._since = time.monotonic()
            _signal(_own(self._folder), signal.SIGINT)  # Ansible passes it on to its forks and what they started
        return time.monotonic() - self._since > GRACE_S


@contextlib.contextmanager
def _own_signals(cancel: _Cancel) -> Iterator[None]:
    """Make what ends this process end the run instead; only the main thread can."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def ask(*_: object) -> None:
        cancel.asked = True

    endings = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    heard = (number for number in endings if signal.getsignal(number) != signal.SIG_IGN)  # as under nohup
    before = {number: signal.signal(number, ask) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _marked(folder: Path) -> list[int]:
    """The processes of the run: its forks leave their parent's process group, but not their environment."""
    mark = f"{MARK}={folder}".encode()
    return [int(path.parent.name) for path in Path("/proc").glob("[0-9]*/environ") if mark in _read(path).split(b"\0")]


def _own(folder: Path) -> list[int]:
    """Ansible itself."""
    return [pid for pid in _marked(folder) if _parent(pid) == os.getpid()]


def find_work_of_tasks(folder: Path) -> Activities:
    """What tasks of a run do that run on this machine; Ansible and its forks only wait for them."""
    return {key: done for pid in _own(folder) for key, done in find_work_below(pid).items()}


def _parent(pid: int) -> int:
    """The parent's number; 0 for a process that is gone."""
    fields = _read(Path("/proc", str(pid), "stat")).rpartition(b")")[2].split()
    return int(fields[1]) if len(fields) > 1 else 0


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _signal(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
