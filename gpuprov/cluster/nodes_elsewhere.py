"""Nodes of another host, through the gpuprov there: what jobs, `cp` and Ansible need of a driver, and how it is served.

It asks and runs, and puts files into nodes or takes some out. It makes nothing: that is each host's own matter.
"""

from __future__ import annotations

import zlib
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Final, cast

from gpuprov.cluster.state import observe_cluster
from gpuprov.drivers.base import MOST_FILE_BYTES, READ_S, ExecResult, File, NodeState
from gpuprov.drivers.calls import MOST_OUTPUT_BYTES, Call, Output
from gpuprov.drivers.networks import NetworkState
from gpuprov.drivers.node_files import PIECE_BYTES, read_in_pieces, write_whole
from gpuprov.drivers.node_trees import ITEM, WHOLE, look_in_node
from gpuprov.drivers.tars import pack
from gpuprov.link.answers import read_answer, strictly
from gpuprov.link.ask import MemberRequest
from gpuprov.link.install_paths import PROGRAM
from gpuprov.link.several import told_by
from gpuprov.shapes.base import of_object
from gpuprov.shapes.members import ClusterNodes, NodeRun, ToldNetwork, ToldNode
from gpuprov.shapes.node import Mount
from gpuprov.shapes.orders import ClusterNodesOrder, NodeRunOrder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from gpuprov.drivers.base import Driver, PathKind
    from gpuprov.drivers.node_files import Execute
    from gpuprov.link.address import RemoteMachine
    from gpuprov.link.hosts import Hosts
    from gpuprov.machine.base import Host
    from gpuprov.shapes.base import Told
    from gpuprov.shapes.choices import Engine
    from gpuprov.shapes.orders import Order

_PASSED: Final = 131072  # bytes of a large file at once


def tell_nodes(driver: Driver, cluster: str, host: str) -> ClusterNodes:
    """What `NodesElsewhere` reads of the answer to `cluster-nodes`."""
    state = observe_cluster(driver, cluster)
    return ClusterNodes(
        host=host,
        engine=cast("Engine", driver.name),
        command=driver.command,
        capabilities=tuple(sorted(driver.capabilities)),
        nodes=tuple(of_object(ToldNode, node) for node in state.nodes),
        networks=tuple(ToldNetwork(name=network.name, labels=network.labels) for network in state.own_networks),
    )


def run_in_node_here(order: NodeRunOrder, host: Host) -> NodeRun:
    """What `NodesElsewhere` reads of the answer to `node-run`."""
    result = host.open(order.engine).run(
        order.node,
        order.argv,
        environment=order.environment,
        cwd=order.cwd,
        timeout_s=order.timeout_s,
        stdin=unpack_bytes(order.stdin),
    )
    return NodeRun(
        host=host.name,
        exit_code=result.exit_code,
        stdout=zlib.compress(result.stdout.encode()),
        stderr=zlib.compress(result.stderr.encode()),
    )


def unpack_bytes(packed: bytes) -> bytes:
    """What zlib has compressed; raises ValueError for anything else, or for more than a command may print."""
    if not packed:
        return b""
    opened = zlib.decompressobj()
    try:
        content = opened.decompress(packed, MOST_OUTPUT_BYTES + 1)
    except zlib.error as error:
        raise ValueError(f"not packed: {error}") from error
    if len(content) > MOST_OUTPUT_BYTES or not opened.eof:
        raise ValueError("it is too long, or has no end")
    return content


class NodesElsewhere:
    """A cluster's nodes on one other host, as far as verbs on jobs, `cp` and Ansible need them.

    The host is asked when something is wanted of it; which nodes there are, it is asked once.

    Args:
        hosts: The way to it.
        machine: The host.
        cluster: Name of the cluster.
        engine: Which has its nodes there.
    """

    nameserver = None

    def __init__(self, hosts: Hosts, machine: RemoteMachine, cluster: str, engine: str) -> None:
        self._hosts, self._machine, self._cluster = hosts, machine, cluster
        self.host, self.name = machine.name, engine

    @classmethod
    def as_driver(cls, hosts: Hosts, machine: RemoteMachine, cluster: str, engine: str) -> Driver:
        """The same for those who take a driver; they call what is here alone."""
        return cast("Driver", cls(hosts, machine, cluster, engine))

    def disk(self) -> None:
        """Its own host tells of it."""

    @property
    def command(self) -> str:
        """The engine's own command there."""
        return self._found.command

    @property
    def capabilities(self) -> frozenset[str]:
        """What the engine there can do."""
        return frozenset(self._found.capabilities)

    def list_nodes(self) -> list[NodeState]:
        """Those of the cluster, as they were when they were asked for first."""
        return [_node(node, self.host) for node in self._found.nodes]

    def find_node(self, name: str) -> NodeState | None:
        """One of these."""
        return next((node for node in self.list_nodes() if node.name == name), None)

    def list_networks(self) -> list[NetworkState]:
        """The same of its networks."""
        return [NetworkState(name=one.name, managed=True, labels=one.labels) for one in self._found.networks]

    def run(
        self,
        name: str,
        argv: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        cwd: str | None = None,
        timeout_s: float | None = None,
        stdin: bytes = b"",
    ) -> ExecResult:
        """Run a command as root in a running node and wait; it is ended with the connection."""
        call = Call(argv=argv, environment=environment or {}, cwd=cwd, timeout_s=timeout_s, stdin=stdin)
        return self._run(name, call).text()

    def pull(self, name: str, path: str, *, most_bytes: int = MOST_FILE_BYTES, timeout_s: float = READ_S) -> bytes:
        """Read a regular file of a running node."""
        return read_in_pieces(self._within(name), name, path, most_bytes=most_bytes, timeout_s=timeout_s)

    def push(self, name: str, files: Sequence[File]) -> None:
        """Write files into a running node; each is whole, or it is not there."""
        for file in files:
            if len(file.content) <= PIECE_BYTES:
                write_whole(self._within(name), name, file)
                continue
            tar = pack([replace(file, path=f"/{ITEM}"), File(path=f"/{WHOLE}", content=b"")])
            self.write_tree(name, file.path, (tar[at : at + _PASSED] for at in range(0, len(tar), _PASSED)))

    def look(self, name: str, path: str) -> PathKind:
        """What stands at a path."""
        return look_in_node(self._within(name), name, path)

    def read_tree(self, name: str, path: str, take: Callable[[bytes], object]) -> str:
        """Hand on a file or folder as a tar."""
        return self._hosts.read_tree(self._machine, (self.name, name, path), take)

    def write_tree(self, name: str, path: str, tar: Iterable[bytes]) -> None:
        """Put a file or folder into a node; it is whole, or it is not there."""
        self._hosts.write_tree(self._machine, (self.name, name, path), tar)

    def attach_argv(
        self,
        name: str,
        argv: Sequence[str],
        *,
        environment: Mapping[str, str],
        piped: bool = False,  # noqa: ARG002 - every byte passes anyway
    ) -> list[str]:
        """The command of ssh that runs one in the node."""
        variables = [f"{key}={value}" for key, value in environment.items()]
        wanted = ["env", *variables, *argv] if variables else list(argv)
        return self._hosts.argv(self._machine, [PROGRAM, "exec", "--engine", self.name, name, "--", *wanted])

    @cached_property
    def _found(self) -> ClusterNodes:
        order = ClusterNodesOrder(cluster=self._cluster, engine=self.name)
        return read_answer(ClusterNodes, self._ask(order), self.host)

    def _within(self, name: str) -> Execute:
        return lambda call: self._run(name, call)

    def _run(self, name: str, call: Call) -> Output:
        order = NodeRunOrder(
            engine=self.name,
            node=name,
            argv=tuple(call.argv),
            environment=call.environment,
            cwd=call.cwd,
            timeout_s=call.timeout_s,
            stdin=zlib.compress(call.stdin) if call.stdin else b"",
        )
        ran = read_answer(NodeRun, self._ask(order), self.host)
        stdout, stderr = strictly(lambda: (unpack_bytes(ran.stdout), unpack_bytes(ran.stderr)), self.host)
        return Output(exit_code=ran.exit_code, stdout=stdout, stderr=stderr)

    def _ask(self, order: Order) -> Told:
        (answer,) = self._hosts.work({self._machine: MemberRequest(order=order)})
        return told_by(answer)


def _node(told: ToldNode, host: str) -> NodeState:
    mounts = tuple(Mount(source=one.source, target=one.target, read_only=one.read_only) for one in told.mounts)
    return NodeState(name=told.name, status=told.status, labels=told.labels, mounts=mounts, host=host)
