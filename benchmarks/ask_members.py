"""How plan, status and inventory over many hosts grow, asked over the member protocol of fake hosts of 8 GPUs.

Usage: python -m benchmarks.ask_members [--hosts 10 50 100 300 1000] [--processes 50] [--rounds 3]

The stories and the way to the hosts are gpuprov's own; in place of ssh and the gpuprov there stand fakes
(fake_members.py), which answer at once: all hosts in one process on a socket, and once each in a process of its own.
Each verb runs in a process of its own, whose seconds, processor time and largest size are told. Prints a table in
Markdown; docs/benchmarks.md holds one.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast
from unittest import mock

from benchmarks.fake_members import FakeHosts, settled_spec, write_members
from benchmarks.machine import describe
from benchmarks.many_hosts import GPUS
from gpuprov.core.execution import Piped
from gpuprov.core.reporter import Silent
from gpuprov.fleet.agree import HostsUpOrder
from gpuprov.fleet.find_hosted import require_spanning
from gpuprov.fleet.fleet import Fleet
from gpuprov.fleet.host_statuses import host_statuses
from gpuprov.fleet.hosts_up import look_and_plan_over_hosts
from gpuprov.lifecycle.inventory import render_script
from gpuprov.lifecycle.leaving import SPARE_JOBS
from gpuprov.link.address import RemoteMachine
from gpuprov.link.connection import SshConnection
from gpuprov.link.exchange import Exchange
from gpuprov.link.hosts import HostsBySsh
from gpuprov.link.members import MemberProcesses
from gpuprov.link.places import Places
from gpuprov.shapes.base import write
from gpuprov.shapes.nodes import ClusterStatus
from gpuprov.shapes.outcome import Plan
from gpuprov.spec import addressing, validate
from gpuprov.spec.draft import Draft
from gpuprov.stories.inventory import read_inventory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

COUNTS = (10, 50, 100, 300, 1000)
MIB = 1024**2
NEW = "plan of a new cluster"


@dataclass(frozen=True, kw_only=True)
class Run:
    """One verb: seconds until it ended and of the processor, its process's largest size, and what it printed."""

    seconds: float
    cpu_s: float
    peak_bytes: int
    printed_bytes: int


@contextmanager
def hosts_at(address: str) -> Iterator[None]:
    """Have connections lead to the process of the fake hosts instead of ssh."""

    @contextmanager
    def exchange(_connection: SshConnection, _command: Sequence[str]) -> Iterator[Exchange]:
        with socket.socket(socket.AF_UNIX) as channel:
            channel.connect(address)
            process = cast("Any", SimpleNamespace(poll=lambda: 0, wait=lambda _wait_s: 0))
            ends = [os.fdopen(os.dup(channel.fileno()), mode, buffering=0) for mode in ("wb", "rb")]
            stdin, stdout = map(opened.enter_context, ends)
            yield Exchange(Piped(process=process, stdin=stdin, stdout=stdout))

    with ExitStack() as opened, mock.patch.object(SshConnection, "exchange", exchange):
        yield


def plan(known: Mapping[str, RemoteMachine], hosts: HostsBySsh) -> object:
    """`cluster plan`."""
    order = HostsUpOrder(draft=Draft(spec=settled_spec(len(known))), known=known, policy=SPARE_JOBS)
    found = look_and_plan_over_hosts(order, hosts, reporter=Silent())
    if found.error:
        raise found.error
    return write(Plan(host="here", plan=found.lines))


def status(known: Mapping[str, RemoteMachine], hosts: HostsBySsh) -> object:
    """`cluster status`."""
    seen = require_spanning("lab", known, hosts)
    for error in seen.failed.values():
        raise error
    told = host_statuses(seen.machines, seen.failed, seen.away)
    return write(ClusterStatus(host="here", cluster="lab", shared_folder=None, nodes=seen.rows, hosts=told))


def inventory(known: Mapping[str, RemoteMachine], hosts: HostsBySsh) -> object:
    """`inventory --list`, on a machine without an engine."""
    here = cast("Any", SimpleNamespace(engines=(), name="here"))
    found = read_inventory(Fleet(here=here, others=known, connect=lambda: hosts, reporter=Silent()))
    if found.warnings:
        raise SystemExit(found.warnings[0])
    return render_script(found)


VERBS: Mapping[str, Callable[[Mapping[str, RemoteMachine], HostsBySsh], object]] = {
    NEW: plan,
    "plan, nothing to do": plan,
    "status": status,
    "inventory": inventory,
}


def known_hosts(count: int) -> dict[str, RemoteMachine]:
    """The fake hosts, as `host add` would have remembered them."""
    return {name: RemoteMachine(name=name, address=name) for name in (f"h{number:04d}" for number in range(count))}


def way_to_hosts(folder: Path) -> HostsBySsh:
    """That of gpuprov."""
    return HostsBySsh(members=MemberProcesses(Places(config=folder, runtime=folder)), reporter=Silent())


def measure(verb: str, count: int, folder: Path, rounds: int = 1) -> Run:
    """Run a verb over the hosts in this process; the median of the rounds."""
    known = known_hosts(count)
    seconds, cpu_s, printed = [], [], ""
    with ExitStack() as more_nodes:  # a spec allows fewer
        for module in (addressing, validate):
            more_nodes.enter_context(mock.patch.object(module, "NODES_MAX", GPUS * count))
        for _ in range(rounds):
            hosts = way_to_hosts(folder)  # as of each run of gpuprov, which finds no process of another one
            began_s, cpu_began_s = time.monotonic(), time.process_time()
            printed = json.dumps(VERBS[verb](known, hosts), indent=2)
            seconds.append(time.monotonic() - began_s)
            cpu_s.append(time.process_time() - cpu_began_s)
            hosts.close()
    found = re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())
    return Run(
        seconds=statistics.median(seconds),
        cpu_s=statistics.median(cpu_s),
        peak_bytes=int(found[1]) * 1024 if found else 0,
        printed_bytes=len(printed),
    )


def run_apart(verb: str, count: int, rounds: int, address: str, **environment: str) -> Run:
    """The same in a process of its own."""
    argv = [sys.executable, "-m", "benchmarks.ask_members", "--verb", verb, "--hosts", str(count)]
    argv += ["--rounds", str(rounds), "--address", address]
    done = subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True, env={**os.environ, **environment})
    run = Run(**json.loads(done.stdout))
    sys.stderr.write(f"{count} hosts, {verb}: {run.seconds:.2f} s, {run.peak_bytes / MIB:.0f} MiB\n")
    return run


def in_one_process(count: int, rounds: int, folder: Path) -> dict[str, Run]:
    """Each verb, asked of fake hosts in one process."""
    runs: dict[str, Run] = {}
    for state, verbs in (("new", [NEW]), ("there", [verb for verb in VERBS if verb != NEW])):
        address = str(folder / f"{count}-{state}")
        argv = [sys.executable, "-m", "benchmarks.fake_members", address, str(count), state]
        # Leaving the block closes its stdin, which ends it
        with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as serving:
            if serving.stdout is None or serving.stdout.readline() != "ready\n":
                raise SystemExit("the fake hosts do not answer")
            runs |= {verb: run_apart(verb, count, rounds, address) for verb in verbs}
    return runs


def in_processes(count: int, rounds: int, folder: Path) -> dict[str, Run]:
    """Each verb, asked of fake hosts in a process each."""
    runs: dict[str, Run] = {}
    for state, verbs in (("new", [NEW]), ("there", [verb for verb in VERBS if verb != NEW])):
        with tempfile.TemporaryDirectory(dir=folder) as place:
            programs = write_members(FakeHosts(count, new=state == "new"), Path(place))
            path = f"{programs}:{os.environ['PATH']}"
            runs |= {verb: run_apart(verb, count, rounds, "", PATH=path) for verb in verbs}
    return runs


def render(found: Mapping[str, Mapping[str, Run]]) -> str:
    """A row for each verb and number of hosts; each is compared with the first number, by processor time."""
    baseline = next(iter(found))
    rows = [["Verb", "Hosts", "Time", "Processor", f"of {baseline} hosts", "Largest size", "Printed"]]
    rows.append(["---"] * len(rows[0]))
    for verb in VERBS:
        for hosts, runs in found.items():
            run, base = runs[verb], found[baseline][verb]
            rows.append(
                [
                    verb,
                    hosts,
                    f"{run.seconds:.2f} s",
                    f"{run.cpu_s:.2f} s",
                    f"{run.cpu_s / base.cpu_s:.1f} times",
                    f"{run.peak_bytes / MIB:,.0f} MiB",
                    f"{run.printed_bytes / MIB:.1f} MiB",
                ]
            )
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--hosts", type=int, nargs="+", default=COUNTS)
    parser.add_argument("--processes", type=int, default=50, help="how many hosts once have a process each; 0 for none")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--verb", choices=VERBS, help="measure it in this process")
    parser.add_argument("--address", default="", help="of the fake hosts; empty where ssh starts them")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        if asked.verb and asked.address:
            with hosts_at(asked.address):
                run = measure(asked.verb, asked.hosts[0], folder, asked.rounds)
        elif asked.verb:
            run = measure(asked.verb, asked.hosts[0], folder, asked.rounds)
        else:
            found = {f"{count:,}": in_one_process(count, asked.rounds, folder) for count in asked.hosts}
            if asked.processes:
                words = f"{asked.processes}, a process each"
                found[words] = in_processes(asked.processes, asked.rounds, folder)
            sys.stdout.write(f"{describe()}\n\n{render(found)}\n")
            return
    sys.stdout.write(json.dumps(asdict(run)))


if __name__ == "__main__":
    main()
