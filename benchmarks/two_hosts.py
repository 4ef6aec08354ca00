"""Times clusters over two hosts against one host, and the private network against the network between the hosts.

Usage, on a machine that has added two hosts (`gpuprov host add`):
    python -m benchmarks.two_hosts HOST HOST [--rounds 3] [--link-gbit 10]

In turn: four nodes on the first host, eight there, and four on each: where both hosts are containers of one machine,
the eight show what its processors allow. Then a stream of TCP from one host to the other, and from a node of one to a
node of the other, and four streams at once; with --link-gbit also while both hosts send at most that fast, as through a
network card: tc limits the interface between them, which is refused where that has a discipline of its own. Prints a
table in Markdown; docs/benchmarks.md holds one. Makes and removes a cluster `gptbench` (nodes b000, b001, ..., bridges
gpbrn0 and gpbrn1, 10.79.3.0/24 and 10.79.5.0/24).
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.machine import describe
from gpuprov.link.connection import SshConnection
from gpuprov.link.hosts_file import get_machine
from gpuprov.link.places import ensure_places

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

NAME, PORT, STREAM_S, STREAMS = "gptbench", 7013, 4, 4
SPEC = """\
version: gpuprov/v1
name: {name}
hosts: [{hosts}]
nodes: {{count: {count}, prefix: b}}
gpus: {{mode: simulated}}
network: {{bridge: gpbrn0, subnet: 10.79.3.0/24, private_bridge: gpbrn1, private_subnet: 10.79.5.0/24}}
"""
GPUPROV = str(Path(sys.executable).parent / "gpuprov")
RECEIVE = """\
import socket, sys, time
listener = socket.create_server(("", int(sys.argv[1])))
print("ready", flush=True)
channel, _ = listener.accept()
piece, taken, begun = bytearray(1 << 20), 0, time.monotonic()
while count := channel.recv_into(piece):
    taken += count
print(taken / (time.monotonic() - begun))
"""
SEND = """\
import socket, sys, time
channel = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=20)
piece, end = bytes(1 << 20), time.monotonic() + float(sys.argv[3])
while time.monotonic() < end:
    channel.sendall(piece)
"""
GBIT = 1e9 / 8
Seconds = defaultdict[str, list[float]]
Line = Callable[[list[str]], list[str]]


def run(*argv: str) -> str:
    """Run a command; its output is the evidence when it fails."""
    finished = subprocess.run(argv, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if finished.returncode:
        raise SystemExit(f"{' '.join(argv)}\n{finished.stdout}{finished.stderr}")
    return finished.stdout


def timed(seconds: Seconds, what: str, *argv: str) -> None:
    """Run and time a command."""
    started = time.monotonic()
    run(*argv)
    seconds[what].append(time.monotonic() - started)
    sys.stderr.write(f"{what}: {seconds[what][-1]:.2f} s  (load {os.getloadavg()[0]:.1f})\n")


def stream(at_receiver: Line, at_sender: Line, address: str, port: int = PORT) -> float:
    """Bytes in a second of one TCP stream; the two make the command line that runs a command where it is to run."""
    receive = at_receiver(["python3", "-c", RECEIVE, str(port)])
    with subprocess.Popen(receive, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as listening:
        if listening.stdout is None or listening.stdout.readline() != "ready\n":
            raise SystemExit(f"nobody listens: {' '.join(receive)}")
        run(*at_sender(["python3", "-c", SEND, address, str(port), str(STREAM_S)]))
        return float(listening.stdout.read())


def streams(count: int, at_receiver: Line, at_sender: Line, address: str) -> float:
    """Bytes in a second of so many TCP streams side by side."""
    with ThreadPoolExecutor(count) as pool:
        return sum(pool.map(lambda number: stream(at_receiver, at_sender, address, PORT + number), range(count)))


def node(name: str) -> Line:
    """How a command runs in a node."""
    return lambda command: [GPUPROV, "exec", name, "--", *command]


def compare_ups(hosts: Sequence[str], folder: Path, rounds: int) -> Seconds:
    """Bring up four and eight nodes on one host, and four on each, in turn; the cluster over both stays."""
    seconds: Seconds = defaultdict(list)
    spec = folder / "spec.yaml"
    up = ("cluster", "up", "-f", str(spec), "--no-verify")
    cases = (
        (hosts[:1], 4, "4 nodes on one host"),
        (hosts[:1], 8, "8 nodes on one host"),
        (hosts, 8, "4 on each of two"),
    )
    for number in range(rounds):
        for used, count, words in cases:
            named = ", ".join(f"{{name: {host}}}" for host in used)
            spec.write_text(SPEC.format(name=NAME, hosts=named, count=count))
            if number == 0:  # images are built, which is not what is compared
                timed(defaultdict(list), f"first up of {words}", GPUPROV, *up)
                run(GPUPROV, "cluster", "down", NAME, "--yes", "--force")
            timed(seconds, f"up, {words}", GPUPROV, *up)
            if number < rounds - 1 or len(used) == 1:
                timed(seconds, f"down, {words}", GPUPROV, "cluster", "down", NAME, "--yes", "--force")
    timed(seconds, "second up, two hosts, nothing to do", GPUPROV, "cluster", "up", "--name", NAME, "--no-verify")
    for _ in range(rounds):
        timed(seconds, "cluster status, two hosts", GPUPROV, "cluster", "status", NAME)
        timed(seconds, "exec -- true, on the other host", GPUPROV, "exec", "b007", "--", "true")
    return seconds


@contextmanager
def limited(one: SshConnection, other: SshConnection, gbit: int) -> Iterator[None]:
    """Have two hosts send to each other at most so fast during the block."""
    with ExitStack() as undo:
        for here, there in ((one, other), (other, one)):
            address = socket.gethostbyname(there.machine.address)
            device = json.loads(run(*here.argv(["ip", "-json", "route", "get", address])))[0]["dev"]
            root = ["dev", device, "root"]
            limit = ["tbf", "rate", f"{gbit}gbit", "burst", "4mb", "latency", "50ms"]
            run(*here.argv(["tc", "qdisc", "add", *root, *limit]))
            undo.callback(run, *here.argv(["tc", "qdisc", "del", *root]))
        yield


def compare_streams(hosts: Sequence[str], rounds: int, gbit: int | None) -> dict[str, tuple[list[float], list[float]]]:
    """Streams between the hosts, and between a node of each, in turn."""
    places = ensure_places()
    one, other = (SshConnection(machine=get_machine(places.inventory, host), places=places) for host in hosts)
    address = socket.gethostbyname(other.machine.address)

    def measure(count: int) -> tuple[list[float], list[float]]:
        under, over = [], []
        for _ in range(rounds):
            under.append(streams(count, other.argv, one.argv, address))
            over.append(streams(count, node("b007"), node("b000"), "b007-private"))
        return under, over

    rates = {"one stream": measure(1), f"{STREAMS} streams": measure(STREAMS)}
    if gbit:
        with limited(one, other, gbit):
            rates[f"one stream at {gbit} Gbit/s"] = measure(1)
    return rates


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("hosts", nargs=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--link-gbit", type=int)
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        try:
            seconds = compare_ups(wanted.hosts, Path(folder), wanted.rounds)
            rates = compare_streams(wanted.hosts, wanted.rounds, wanted.link_gbit)
        finally:
            run(GPUPROV, "cluster", "down", NAME, "--yes", "--force", "--purge")
    base = statistics.median(next(iter(seconds.values())))
    sys.stdout.write(f"{describe('two hosts')}\n\n| What | Median | Range | Relative |\n|---|---|---|---|\n")
    for what, taken in seconds.items():
        row = f"{statistics.median(taken):.1f} s | {min(taken):.1f} to {max(taken):.1f} s"
        sys.stdout.write(f"| {what} | {row} | {statistics.median(taken) / base:.2f} |\n")
    for what, (under, over) in rates.items():
        for ends, found in (("between the hosts", under), ("between nodes of both", over)):
            median, least, most = (number / GBIT for number in (statistics.median(found), min(found), max(found)))
            relative = statistics.median(found) / statistics.median(under)
            row = f"{median:.1f} Gbit/s | {least:.1f} to {most:.1f} Gbit/s | {relative:.2f}"
            sys.stdout.write(f"| {what} {ends} | {row} |\n")


if __name__ == "__main__":
    main()
