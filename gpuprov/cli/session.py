"""What one run of the program shares: how much to say, to whom, where the log is, and the way to the hosts."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timezone
from functools import cached_property, partial
from typing import TYPE_CHECKING, Union

from gpuprov.cli.progress import QUICK_S, Live, Plain, can_show
from gpuprov.cli.runlog import Both, RunLog, log_folder
from gpuprov.cli.stdout import takes_all_letters
from gpuprov.cli.tables import Screen, screen_of
from gpuprov.core.printable import printable, printable_json
from gpuprov.core.reporter import TimingReporter

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpuprov.core.outcome import PhaseTiming
    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver
    from gpuprov.fleet.fleet import Fleet
    from gpuprov.link.address import RemoteMachine
    from gpuprov.link.hosts import HostsBySsh
    from gpuprov.link.members import MemberProcesses
    from gpuprov.machine.base import Host
    from gpuprov.shapes.base import Shape

Shown = Union[Mapping[str, object], "Shape"]
VERSION = 1  # of each document: docs/documents.md


class Session:
    """Options as given, the reporter made from them, and the ways to hosts, nodes and stdout.

    Args:
        host: The machine that verbs are about; this one where None.

    Attributes:
        engine: The one that was typed.
        gpu_profile: Of this machine's simulated GPUs, where it was typed.
        cluster: That which the verb is about; empty where it is about none.
        implied: A name of an engine or cluster that was not typed, and where it is from.
    """

    def __init__(self, host: Host | None = None) -> None:
        self._host = host
        self.quiet = False
        self.verbose = False
        self.as_json = False
        self.engine: str | None = None
        self.gpu_profile = ""
        self.cluster = ""
        self.implied: dict[str, str] = {}

    @cached_property
    def log(self) -> RunLog:
        """This run's log file, begun when it is first needed."""
        return RunLog.begin(log_folder(os.environ, uid=os.getuid()), sys.argv[1:])

    @cached_property
    def reporter(self) -> TimingReporter:
        """Tells the user, on stderr, and the log file."""
        if can_show(sys.stderr, os.environ) and not (self.quiet or self.verbose):
            return TimingReporter(Both(Live(sys.stderr), self.log))
        return TimingReporter(Both(Plain(sys.stderr, quiet=self.quiet, verbose=self.verbose), self.log))

    @cached_property
    def host(self) -> Host:
        """The machine that verbs are about."""
        from gpuprov.machine.local import LocalHost

        return self._host or LocalHost(gpu_profile=self.gpu_profile)

    @cached_property
    def members(self) -> MemberProcesses:
        """The gpuprov of other hosts, kept from request to request."""
        from gpuprov.link.members import MemberProcesses
        from gpuprov.link.places import ensure_places

        return MemberProcesses(ensure_places())

    @cached_property
    def fleet(self) -> Fleet:
        """This machine and the hosts that were added, or this machine alone with `--engine`; none is asked yet."""
        return open_fleet(self, self.engine)

    @cached_property
    def controller(self) -> Driver:
        """The way to the nodes that take the cluster's jobs, here or on its hosts."""
        from gpuprov.fleet.where import reach_controller

        return reach_controller(self.fleet, self.cluster)

    @property
    def interactive(self) -> bool:
        """Whether a user can be asked at this terminal."""
        return sys.stdin.isatty() and sys.stderr.isatty()

    @property
    def screen(self) -> Screen:
        """What stdout is for a table."""
        return screen_of(sys.stdout, os.environ)

    def show(self, document: Shown, text: str) -> None:
        """Print the result: the document with `--json`, else the text."""
        sys.stdout.write(self._as_json(document) if self.as_json else f"{printable(text.rstrip(), styles=True)}\n")

    def end(self, exit_code: int) -> None:
        """Say on stderr how long each phase took, where several took more than a moment, and complete the log."""
        if "reporter" not in self.__dict__:  # nothing was done: --help, --version
            return
        self.log.note(f"exit code {exit_code}")
        phases = [phase for phase in self.reporter.phases if self.verbose or phase.seconds >= QUICK_S]
        if len(phases) > 1 and not self.quiet and not self.as_json:
            parts = [f"{phase.name} {phase.seconds:.1f} s" for phase in phases]
            tell(f"durations: {', '.join(parts)}\n")

    def close(self) -> None:
        """End what was kept for the next request."""
        if "members" in self.__dict__:
            self.members.close()

    def show_round(self, document: Shown, text: str, *, at: str) -> None:
        """Print what one round of a watch has to tell: the document on a line of its own with `--json`, else the text.

        Args:
            document: For programs.
            text: For people.
            at: When that was seen.
        """
        if self.as_json:
            said = printable_json(json.dumps(of_round(document, at), ensure_ascii=not takes_all_letters()))
        else:
            said = printable(text.rstrip(), styles=True)
        sys.stdout.write(f"{said}\n")
        sys.stdout.flush()

    def show_part(self, text: str) -> None:
        """Print a part of a text as it comes: what follows it stands right behind it."""
        sys.stdout.write(printable(text))
        sys.stdout.flush()

    def _as_json(self, document: Shown) -> str:
        whole = with_durations(document, self.reporter.phases)
        dumped = json.dumps(whole, indent=2, ensure_ascii=not takes_all_letters())
        return printable_json(dumped) + "\n"


def moment() -> str:
    """Now, as documents and lines of a watch say it."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def tell(text: str) -> None:
    """Write to stderr; where nobody listens any more, the exit code and the log say it too."""
    with suppress(OSError, ValueError):
        sys.stderr.write(printable(text))
        sys.stderr.flush()


def plain(content: Shown) -> Mapping[str, object]:
    """A document as JSON's values."""
    if isinstance(content, Mapping):
        return content
    from gpuprov.shapes.base import write

    return write(content)


def with_durations(content: Shown, phases: Iterable[PhaseTiming]) -> dict[str, object]:
    """The one document of a run."""
    return {"version": VERSION, **plain(content), "seconds": {phase.name: round(phase.seconds, 3) for phase in phases}}


def of_round(content: Shown, at: str) -> dict[str, object]:
    """The document of one round of a watch."""
    return {"version": VERSION, "at": at, **plain(content)}


def open_fleet(
    session: Session, engine: str | None = None, *, here_alone: bool = False, reporter: Reporter | None = None
) -> Fleet:
    """This machine and the hosts that were added; none is asked yet.

    Args:
        engine: The one that was typed; this machine alone is meant then.
        here_alone: Whether it is without that, too.
        reporter: Is told of what goes on; the session's where None.
    """
    from gpuprov.fleet.fleet import Fleet

    return Fleet(
        here=session.host,
        others={} if here_alone or engine else _remembered_or_unknown(),
        connect=partial(way_to_hosts, session, reporter),
        reporter=reporter or session.reporter,
        engine=engine or "",
    )


def _remembered_or_unknown() -> Mapping[str, RemoteMachine]:
    from gpuprov.core.errors import UsageError

    try:
        return remembered_hosts()
    except UsageError as error:  # of the inventory: what this machine has can be used all the same
        from gpuprov.fleet.fleet import UnknownHosts

        return UnknownHosts(error)


def remembered_hosts() -> Mapping[str, RemoteMachine]:
    """Those that `host add` has remembered."""
    from gpuprov.link.hosts_file import read_machines
    from gpuprov.link.places import ensure_places

    return read_machines(ensure_places().inventory)


def way_to_hosts(session: Session, reporter: Reporter | None = None) -> HostsBySsh:
    """By ssh; what hosts say of their progress, `reporter` is told, or else the session's."""
    from gpuprov.link.hosts import HostsBySsh

    return HostsBySsh(members=session.members, reporter=reporter or session.reporter)
