"""Fake hosts of 8 GPUs and eight nodes each, which answer as `gpuprov member` does; nothing is made.

All in one process, on a socket; or each in a process of its own, started by a stand-in for ssh.
"""

from __future__ import annotations

import os
import socketserver
import sys
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from benchmarks.many_hosts import members_of, offers_of, spec_of, underlay, whole_of
from gpuprov import __version__
from gpuprov.fleet.member.host_part import HostPart
from gpuprov.fleet.member.told_part import fingerprint_of, tell_part, tell_record
from gpuprov.lifecycle.inventory import tell_nodes
from gpuprov.lifecycle.rows import node_row
from gpuprov.link.lines import PROTOCOL, Lines, render_line
from gpuprov.link.requests import MOST_REQUEST_BYTES
from gpuprov.shapes.base import changed, encode, raw, read
from gpuprov.shapes.lines import Hello, Request, Result
from gpuprov.shapes.members import NOTHING, PlannedHost
from gpuprov.shapes.orders import PartOrder
from gpuprov.shapes.whole import WholeCluster

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from benchmarks.many_hosts import FakeMember
    from gpuprov.shapes.base import Shape
    from gpuprov.shapes.cluster_spec import ClusterSpec
    from gpuprov.shapes.members import ClusterRecord

HEAD = "h0000"  # the host of c000, whose Slurm knows the nodes of all hosts
UNDERLAY_MTU, OVERLAY_MTU = 1500, 1450
PIECE = 65536
_LOOK_S = 0.02  # how often a server looks whether it is to end
# One host in one process: the real end of the protocol, with an answer from a file
MEMBER = """\
#!{python} -IS
import os, pathlib, sys
sys.path[:0] = [{root!r}, {packages!r}]
from gpuprov.link.requests import Requests
from gpuprov.link.serve import take_streams
from gpuprov.shapes.base import raw
from gpuprov.shapes.lines import Result
host = sys.argv[sys.argv.index("--") + 1]
requests = Requests(*take_streams())
requests.greet(host)
while asked := requests.receive():
    if end := requests.fork():
        end._end(Result(document=raw(pathlib.Path({folder!r}, host, asked.verb).read_text())))
        os._exit(0)
"""


def settled_spec(hosts: int) -> ClusterSpec:
    """That of a cluster over these hosts, with nothing left open."""
    spec = spec_of(hosts)
    overlay = changed(spec.network.overlay, mtu=OVERLAY_MTU)
    return changed(spec, network=changed(spec.network, overlay=overlay))


@dataclass(frozen=True)
class FakeHosts:
    """So many hosts; `new` where none of them has anything of the cluster yet."""

    count: int
    new: bool = False

    @cached_property
    def spec(self) -> ClusterSpec:
        """Of their cluster."""
        return settled_spec(self.count)

    @cached_property
    def whole(self) -> WholeCluster:
        """The nodes of all of them."""
        found = whole_of([*self.full.values()])
        return changed(found, members=tuple(sorted(found.members, key=lambda member: member.name)))

    @cached_property
    def record(self) -> ClusterRecord:
        """What each of them has recorded of all of them."""
        return tell_record(None if self.new else self.spec, None if self.new else self.whole, host=HEAD)

    @cached_property
    def fingerprint(self) -> str:
        """Of that."""
        return "" if self.new else fingerprint_of(self.spec, self.whole)

    @cached_property
    def full(self) -> Mapping[str, FakeMember]:
        """The hosts with their nodes, by name."""
        return {member.name: member for member in members_of(self.count, empty=False)}

    @cached_property
    def seen(self) -> Mapping[str, FakeMember]:
        """The hosts as they are."""
        return {member.name: member for member in members_of(self.count, empty=True)} if self.new else self.full

    def answer(self, host: str, verb: str, *, offers: bool) -> Shape:
        """What a host answers to `part`, with an offer or without one, `record`, `plan` or `inventory`."""
        if verb == "part":
            return self._part(self.seen[host], offers=offers)
        if verb == "record":
            return self.record
        return (self._plan if verb == "plan" else self._inventory)(self.seen[host])

    def _part(self, member: FakeMember, *, offers: bool) -> Shape:
        words = dict.fromkeys(self.whole.homes, "idle") if member.name == HEAD and not self.new else {}
        found = HostPart(
            engine="lxd",
            known_as="" if self.new else member.name,
            exists=not self.new,
            rows=tuple(node_row(node, words.get(node.name, ""), engine="lxd") for node in member.nodes),
            words=words,
            offer=offers_of(self.spec, [member])[0] if offers else None,
            address=underlay(int(member.name[1:])),
            mtu=UNDERLAY_MTU,
        )
        return changed(tell_part(found, host=member.name), record=self.fingerprint)

    def _plan(self, member: FakeMember) -> Shape:
        names = [node.name for node in self.full[member.name].nodes]
        lines = [f"create node {name}" for name in names] if self.new else []
        mine = {node.name: node for node in self.whole.on(member.name)}
        whole = WholeCluster(members=tuple(mine[name] for name in names))
        return PlannedHost(plan=tuple(lines), older=(), unlimited=(), whole=whole, secret=b"")

    def _inventory(self, member: FakeMember) -> Shape:
        nodes = [("lxd", node) for node in member.nodes]
        return tell_nodes(nodes, lambda _mode: member.place.gpus)


def write_members(hosts: FakeHosts, folder: Path) -> Path:
    """Have a stand-in for ssh start a process for each of the hosts; returns the folder in which it is."""
    for name in hosts.seen:
        (folder / name).mkdir()
        for verb in ("part", "record", "plan", "inventory"):
            (folder / name / verb).write_bytes(encode(hosts.answer(name, verb, offers=True)))
    programs = folder / "bin"
    programs.mkdir()
    root = str(Path(__file__).parents[1])
    packages = str(Path(msgspec.__file__).parents[1])
    python = os.path.realpath(sys.executable)
    (programs / "ssh").write_text(MEMBER.format(python=python, root=root, packages=packages, folder=str(folder)))
    (programs / "ssh").chmod(0o700)
    return programs


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    request_queue_size = 128
    daemon_threads = True


class _Member(socketserver.StreamRequestHandler):
    """Requests to one of the hosts: each says to which."""

    def __init__(self, hosts: FakeHosts, *arguments: Any) -> None:  # noqa: ANN401 - socketserver's
        self._hosts = hosts
        super().__init__(*arguments)

    def handle(self) -> None:
        """Say hello, and answer as long as something is asked."""
        self.wfile.write(render_line(Hello(protocol=PROTOCOL, version=__version__, host="")))
        lines = Lines(most_line_bytes=MOST_REQUEST_BYTES)
        for piece in iter(partial(self.connection.recv, PIECE), b""):
            for message in lines.feed(piece):
                if isinstance(message, Request):
                    offers = message.verb == "part" and read(PartOrder, message.document).spec != NOTHING
                    answer = self._hosts.answer(message.host, message.verb, offers=offers)
                    self.wfile.write(render_line(Result(document=raw(answer))))


@contextmanager
def serving(hosts: FakeHosts, address: str) -> Iterator[None]:
    """Answer for all of them during the block."""
    # made now: the first one who asks would wait for it
    hosts.record, hosts.fingerprint, hosts.seen, hosts.full  # noqa: B018
    with _Server(address, partial(_Member, hosts)) as server:
        threading.Thread(target=server.serve_forever, args=(_LOOK_S,), daemon=True).start()
        try:
            yield
        finally:
            server.shutdown()


def main() -> None:
    """Answer until stdin ends."""
    address, count, state = sys.argv[1:]
    with serving(FakeHosts(int(count), new=state == "new"), address):
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.read()


if __name__ == "__main__":
    main()
