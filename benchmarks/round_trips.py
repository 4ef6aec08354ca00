"""Counts how often each verb over hosts asks, and how many connections of ssh it needs to each of them.

Usage: python -m benchmarks.round_trips [--time HOST]

A cluster of Slurm over two hosts, and every verb as it is typed on a third machine, in turn. The hosts are the tests'
fakes in this process: only what is asked of them counts, and this is the same on every machine. A round is what is
asked of hosts side by side; the next one waits for its answers. Connections are counted by the control sockets that
ssh would be told to use: everything that names the same one shares a connection. Prints a table in Markdown;
docs/benchmarks.md holds one.

With --time, what one round costs: HOST, which `gpuprov host add` has added, is asked ten times for what no member
knows, over the connection to one process there. It has a log of each refusal.
"""

from __future__ import annotations

import argparse
import io
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import ExitStack, closing, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchmarks.machine import describe
from gpuprov.cli import session
from gpuprov.cli.main import main as run_gpuprov
from gpuprov.core import group_files
from gpuprov.core.errors import UsageError
from gpuprov.core.reporter import Silent
from gpuprov.link.ask import MemberRequest
from gpuprov.link.hosts_file import get_machine
from gpuprov.link.members import MemberProcesses
from gpuprov.link.places import Places, ensure_places
from gpuprov.machine.folders import FolderLook
from gpuprov.spec.shared_folder import ACCOUNT_UID
from tests.conftest import Recording
from tests.fakes.forked_programs import ForkedPrograms
from tests.fakes.hosts_in_worlds import HostsInWorlds, keep_keys_below
from tests.fakes.jobs_in_nodes import give_jobs
from tests.fakes.member_orders import odd_order
from tests.unit.gpuwork.conftest import JOB, PANDAS, PARAMS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from gpuprov.link.address import RemoteMachine
    from gpuprov.link.several import HostAnswer

HOSTS = ("hoff", "hinton")  # Slurm's controller is on the first one
SHARED = "/data/lab"
TIMED = 10
SPEC = """\
version: gpuprov/v1
hosts: [{name: hoff, internal_ip: 192.0.2.11}, {name: hinton, internal_ip: 192.0.2.12}]
nodes: {count: 4}
gpus: {mode: simulated}
"""
# What is typed, in this order: each verb finds what those before it have left. What stands in braces are paths
TYPED: Mapping[str, str] = {
    "`cluster up -f`, new": "cluster up -f {bare} --no-verify",
    "`cluster up`, unchanged": "cluster up --no-verify",
    "`cluster up`, growing": "cluster up -n 6 --no-verify",
    "`cluster up`, shrinking": "cluster up -n 4 --no-verify",
    "`cluster down`": "cluster down lab --yes --force",
    "`cluster up -f`, new, with a shared folder": "cluster up -f {shared} --no-verify",
    "`cluster up`, growing, with a shared folder": "cluster up -n 6 --no-verify",
    "`cluster plan`": "cluster plan",
    "`cluster status`": "cluster status",
    "`verify`": "verify",
    "`list`": "list",
    "`gpus`": "gpus",
    "`inventory`": "inventory",
    "`exec`": "exec c003 -- true",
    "`create-node`": "create-node c009 --host hinton --gpus 0",
    "`rm`": "rm c009",
    "`stop`": "stop c003",
    "`clone`": "clone c003 c010",
    "`start`": "start c003",
    "`snapshot`": "snapshot c003 before",
    "`restore`": "restore c003 before --force",
    "`submit`, with a project": "submit --project {project} --gpus 0 -- python3 train.py",
    "`submit --no-project`": "submit --no-project --gpus 0 -- true",
    "`jobs`": "jobs",
    "`jobs show`": "jobs show 1",
    "`jobs cancel`": "jobs cancel 1",
    "`grid run`": "grid run --minimal --gpus 0 {project}",
}
NOTHING_RUNS = ("`verify`",)  # nothing runs in nodes of a fake engine


@dataclass(frozen=True, kw_only=True)
class Count:
    """What a verb asked.

    Attributes:
        rounds: What was asked side by side, in words of the member protocol.
        connections: How many the host with the most of them needs.
    """

    rounds: tuple[str, ...]
    connections: int


class CountedHosts(HostsInWorlds):
    """The tests' hosts, which note each round and the connections that it uses."""

    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        super().__init__(folder, Recording(), names)
        self._places = Places(config=folder, runtime=folder)
        self.begin()

    def begin(self) -> None:
        """Count from here."""
        self.rounds: list[str] = []
        self.sockets: dict[str, set[Path]] = defaultdict(set)

    def counted(self) -> Count:
        """Since `begin`."""
        return Count(rounds=tuple(self.rounds), connections=max(map(len, self.sockets.values()), default=0))

    def ask(
        self,
        requests: Mapping[RemoteMachine, MemberRequest],
        further: Callable[[HostAnswer], Mapping[RemoteMachine, MemberRequest]] = lambda _answer: {},
    ) -> list[HostAnswer]:
        """Also of `work`, which asks; hosts that an answer names are asked after it, in a round of their own."""
        words = " and ".join(dict.fromkeys(request.verb for request in requests.values()))
        if requests:
            self._note(requests, words)
        answers = super().ask(requests, further)
        if named := [answer.machine for answer in answers if answer.machine not in requests]:
            self._note(named, words)
        return answers

    def attach(self, machine: RemoteMachine, command: Sequence[str], *, terminal: bool) -> int:
        """A command of gpuprov there."""
        self._note([machine], command[1])
        return super().attach(machine, command, terminal=terminal)

    def write_tree(self, machine: RemoteMachine, place: Sequence[str], tar: Iterable[bytes]) -> None:
        """A copy into a node."""
        self._note([machine], "write a tree")
        super().write_tree(machine, place, tar)

    def _note(self, machines: Iterable[RemoteMachine], words: str) -> None:
        self.rounds.append(words)
        for machine in machines:
            self.sockets[machine.name].add(self._places.socket(machine))


@contextmanager
def controller(folder: Path, names: Sequence[str] = HOSTS) -> Iterator[CountedHosts]:
    """A machine that has added these hosts with one folder, for the block."""
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        hosts = CountedHosts(folder, names)
        hosts.attach_status = 0
        keep_keys_below(folder / "data", patch)
        marks: dict[tuple[str, str], str] = {}
        for world in hosts.worlds.values():
            world.host.folders.there[SHARED] = FolderLook(kind="folder", at=SHARED, owner=ACCOUNT_UID)
            world.host.folders.marks = marks
        patch.setattr(session, "remembered_hosts", lambda: hosts.machines)
        patch.setattr(session, "way_to_hosts", lambda *_: hosts)
        patch.setattr(session, "log_folder", lambda *_, **__: folder / "log")
        patch.setattr(group_files, "LOCK_FOLDER", folder / "lock")
        patch.setenv("HOME", str(folder / "home"))
        programs = ForkedPrograms(sys.executable, folder)
        stack.callback(programs.finish)
        (folder / "jobs").mkdir()
        jobs = give_jobs(hosts.worlds[names[0]], folder / "jobs", patch, programs)
        stack.callback(jobs.finish)
        jobs.give_python()
        yield hosts


def write_project(folder: Path) -> None:
    """A job and a grid."""
    (folder / "src").mkdir(parents=True)
    files = {"train.py": "", "src/params.py": PARAMS, "src/job.py": JOB, "pandas.py": PANDAS}
    for name, text in files.items():
        (folder / name).write_text(text)


def count(verbs: Mapping[str, str], folder: Path) -> dict[str, Count]:
    """Type them, in turn; each has to succeed."""
    paths = {name: folder / name for name in ("bare", "shared", "project")}
    paths["bare"].write_text(SPEC)
    paths["shared"].write_text(f"{SPEC}share: {SHARED}\n")
    write_project(paths["project"])
    counts = {}
    with controller(folder) as hosts:
        for words, line in verbs.items():
            hosts.begin()
            argv = line.format(**paths).split()
            with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()) as said:
                code = run_gpuprov(argv, host=hosts.controller)
            if code and words not in NOTHING_RUNS:
                raise SystemExit(f"gpuprov {' '.join(argv)}: exit status {code}\n{said.getvalue()}")
            counts[words] = hosts.counted()
    return counts


def render(counts: Mapping[str, Count]) -> str:
    """The table: a row for all verbs that ask the same, by one connection to a host unless it says otherwise."""
    alike: dict[Count, list[str]] = defaultdict(list)
    for words, found in counts.items():
        alike[found].append(words)
    rows = [["Verb", "Round trips", "What is asked"], ["---"] * 3]
    for found, verbs in alike.items():
        more = f" ({found.connections} connections)" if found.connections > 1 else ""
        rows.append(["; ".join(verbs), str(len(found.rounds)), ", ".join(found.rounds) + more])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def time_rounds(host: str, places: Places) -> list[float]:
    """Seconds of a question that a host refuses, again and again, once the connection is open."""
    request, seconds = MemberRequest(order=odd_order("nothing")), []
    with closing(MemberProcesses(places)) as members:
        for _ in range(TIMED + 1):
            began_s = time.monotonic()
            with pytest.raises(UsageError, match="do not know"):
                members.ask(get_machine(places.inventory, host), request, reporter=Silent())
            seconds.append(time.monotonic() - began_s)
    return seconds[1:]


def main() -> None:
    """Count, and print the table; or measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--time", metavar="HOST", help="measure a question to this host")
    host = parser.parse_args().time
    if host:
        seconds = time_rounds(host, ensure_places())
        taken = f"{statistics.median(seconds):.3f} s, {min(seconds):.3f} to {max(seconds):.3f} s"
        sys.stdout.write(f"{describe('one question')}\n\n{taken}\n")
        return
    with tempfile.TemporaryDirectory() as folder:
        sys.stdout.write(f"{render(count(TYPED, Path(folder)))}\n")


if __name__ == "__main__":
    main()
