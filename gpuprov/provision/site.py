"""Run anybody's playbook: its hosts' results as data, its progress told to a reporter."""

from __future__ import annotations

import os
import shlex
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gpuprov
from gpuprov.core.catalogue import find_entries, load_catalogue
from gpuprov.core.errors import PlaybookError
from gpuprov.provision.events import parse_event, parse_play, parse_stats, parse_warning
from gpuprov.provision.folder import play_folder
from gpuprov.provision.run import LOG, PlaybookRun, run_ansible
from gpuprov.provision.transport import OWNER_VARIABLE
from gpuprov.shapes.play import PlayChange, Played, PlayedHost, PlayStatus

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuprov.core.reporter import Reporter
    from gpuprov.provision.events import HostStats, TaskEvent

INVENTORY = "gpuprov.yml"  # the inventory plugin looks at this name
_ENDS = frozenset({"changed", "failed", "unreachable"})
LOG_LINES = 15


@dataclass(frozen=True, kw_only=True)
class Site:
    """A playbook and how to run it.

    Attributes:
        playbook: Its path.
        inventories: Paths, or what else Ansible's `-i` takes; none means the nodes of `cluster`.
        cluster: Its name; empty for every node there is.
        arguments: More of ansible-playbook's own: `--limit`, `--check` and the like.
    """

    playbook: Path
    inventories: tuple[str, ...] = ()
    cluster: str = ""
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class HostResult:
    """What a run did on one host; `problem` is why it failed or was not reached."""

    stats: HostStats
    problem: TaskEvent | None = None

    @property
    def status(self) -> PlayStatus:
        """`ok`, `changed`, `failed` or `unreachable`."""
        if self.stats.unreachable:
            return "unreachable"
        if self.stats.failed:
            return "failed"
        return "changed" if self.stats.changed else "ok"


@dataclass(frozen=True, kw_only=True)
class SiteResult:
    """What a run did.

    Attributes:
        hosts: By name.
        changes: The tasks that changed something, in order.
        log: What Ansible said; kept where a host failed.
    """

    hosts: tuple[HostResult, ...]
    changes: tuple[TaskEvent, ...]
    log: Path | None = None

    @property
    def failed(self) -> tuple[HostResult, ...]:
        """The hosts that failed or were not reached."""
        return tuple(host for host in self.hosts if host.status in ("failed", "unreachable"))


def tell_play(playbook: Path, result: SiteResult) -> Played:
    """A run that has ended, as its document tells it."""
    hosts = {
        one.stats.host: PlayedHost(
            status=one.status,
            ok=one.stats.ok,
            changed=one.stats.changed,
            failed=one.stats.failed,
            unreachable=one.stats.unreachable,
            skipped=one.stats.skipped,
            task=one.problem.title if one.problem else None,
            message=one.problem.message if one.problem else None,
        )
        for one in result.hosts
    }
    changes = tuple(PlayChange(host=one.host, task=one.title, diff=one.diff or None) for one in result.changes)
    log = str(result.log) if result.log else None
    return Played(playbook=str(playbook), hosts=hosts, changes=changes, log=log)


class HostsFailed(PlaybookError):
    """A play ended, and not well on every host."""

    def __init__(self, result: SiteResult) -> None:
        failed = result.failed
        lines = [_problem_line(host) for host in failed]
        lines.append(f"log: {result.log}")
        super().__init__(
            f"{len(failed)} of {len(result.hosts)} hosts failed: {', '.join(host.stats.host for host in failed)}",
            evidence="\n".join(lines),
            fix=_known_fix("\n".join(lines)) or f"less {result.log}  # then run the same command again",
        )
        self.result = result


def run_site(site: Site, *, reporter: Reporter) -> SiteResult:
    """Run the playbook; its private folder is removed unless a host failed.

    Raises:
        PlaybookError: Ansible did not get as far as running tasks.
        KeyboardInterrupt: It was cancelled; Ansible and its forks have ended.
    """
    with play_folder() as private:
        folder = private.path
        told = _Told(reporter, shlex.join(["ansible-playbook", *_arguments(site, folder), str(site.playbook)]))
        (folder / INVENTORY).write_text(dynamic_inventory(site.cluster), encoding="utf-8")
        run = PlaybookRun(
            playbook=str(site.playbook),
            cwd=Path.cwd(),
            arguments=_arguments(site, folder),
            environment=site_environment(os.environ, search_path=sys.path),
        )
        status = run_ansible(run, folder, told.hear)
        if status == "canceled":
            raise KeyboardInterrupt
        result = summarise_site(told.stats or (), told.events, log=folder / LOG)
        if result.failed:
            private.keep()
            return result
        if not told.stats or status != "successful":  # as where an inventory could not be read while another one could
            private.keep()
            raise _not_begun(status, folder / LOG)
    return replace(result, log=None)


def dynamic_inventory(cluster: str) -> str:
    """An inventory of the nodes of one cluster, or of all where it is empty."""
    one = f"cluster: '{cluster}'\n" if cluster else ""  # quoted: `on` would be a truth
    return f"plugin: gpuprov.cluster.gpuprov\n{one}"


def _arguments(site: Site, folder: Path) -> tuple[str, ...]:
    inventories = site.inventories or (str(folder / INVENTORY),)
    return (*(part for source in inventories for part in ("-i", source)), *site.arguments)


class _Told:
    """Hears ansible-runner's events: keeps what counts, and tells the reporter."""

    def __init__(self, reporter: Reporter, evidence: str) -> None:
        self.events: list[TaskEvent] = []
        self.stats: tuple[HostStats, ...] | None = None
        self._reporter = reporter
        self._evidence = evidence  # of a warning

    def hear(self, raw: dict[str, Any]) -> bool:
        """Take one event; nothing reads ansible-runner's event files, so none is kept."""
        warning = parse_warning(raw)
        if warning:
            self._warn(warning)
        play = parse_play(raw)
        if play:
            self._reporter.note(f"play: {play}")
        self.stats = parse_stats(raw) or self.stats
        event = parse_event(raw)
        if event is not None:
            self._tell(event)
        return False

    def _warn(self, text: str) -> None:
        fix = _known_fix(text)
        self._reporter.warn(f"{text}\nevidence: {self._evidence}\nfix: {fix}" if fix else text)

    def _tell(self, event: TaskEvent) -> None:
        if event.kind in _ENDS:
            self.events.append(event)
        if event.kind == "started":
            self._reporter.node(event.host, event.title)
        elif event.kind in ("failed", "unreachable"):
            self._reporter.warn(f"{event.host} {event.kind}: {event.title}: {event.message}")
        if event.diff.strip():
            self._reporter.note(f"{event.host}: {event.title}\n{event.diff.rstrip()}")


def summarise_site(stats: Sequence[HostStats], events: Sequence[TaskEvent], *, log: Path | None) -> SiteResult:
    """Put the counts of each host and the reason of each failure together."""
    problems = {event.host: event for event in events if event.kind in ("failed", "unreachable")}
    hosts = [HostResult(stats=host) for host in stats]
    hosts = [
        HostResult(stats=host.stats, problem=problems.get(host.stats.host))
        if host.status in ("failed", "unreachable")
        else host
        for host in hosts
    ]
    changes = tuple(event for event in events if event.kind == "changed")
    return SiteResult(hosts=tuple(hosts), changes=changes, log=log)


def site_environment(environment: Mapping[str, str], *, search_path: Sequence[str]) -> dict[str, str]:
    """What Ansible needs of ours; all else, a user's own settings too, is as it is.

    Args:
        environment: This process's.
        search_path: Where Python looks, and with it Ansible for collections.
    """
    ours = str(Path(gpuprov.__file__).parent.parent)
    added = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{environment.get('PATH', os.defpath)}",
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_RETRY_FILES_ENABLED": "0",
        # ansible-runner would take any host key, also one that changed
        "ANSIBLE_HOST_KEY_CHECKING": environment.get("ANSIBLE_HOST_KEY_CHECKING", "True"),
        "ANSIBLE_DUPLICATE_YAML_DICT_KEY": environment.get("ANSIBLE_DUPLICATE_YAML_DICT_KEY", "error"),
        OWNER_VARIABLE: str(os.getpid()),
    }
    if ours not in search_path:  # an editable install: Ansible would not find the collection
        added["PYTHONPATH"] = os.pathsep.join(filter(None, (ours, environment.get("PYTHONPATH"))))
    return added


def _problem_line(host: HostResult) -> str:
    event = host.problem
    if event is None:
        return f"{host.stats.host}: {host.status}"
    return f"{host.stats.host}: {host.status}: {event.title}: {event.message}"


def _not_begun(status: str, log: Path) -> PlaybookError:
    said = _tail(log)
    return PlaybookError(
        "the playbook matched no hosts" if status == "successful" else "Ansible could not run the playbook",
        evidence=f"{said or f'status {status}, no output'}\nlog: {log}",
        fix=_known_fix(said) or f"less {log}  # then run the same command again",
    )


def _known_fix(text: str) -> str:
    entries = [entry for entry in find_entries(text, load_catalogue()) if entry.id.startswith("ansible-")]
    return entries[0].fix if entries else ""


def _tail(log: Path) -> str:
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return "\n".join([line for line in lines if line.strip()][-LOG_LINES:])
