"""Nodes of another host: what it says of them and of commands in them is read strictly."""

from __future__ import annotations

import base64
import zlib
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.cluster.nodes_elsewhere import NodesElsewhere, unpack_bytes
from gpuprov.core.errors import EngineError, HostNotReady
from gpuprov.drivers.base import Unreadable
from gpuprov.drivers.calls import MOST_OUTPUT_BYTES
from gpuprov.link.address import RemoteMachine
from gpuprov.link.several import HostAnswer
from gpuprov.shapes.node import Mount
from gpuprov.shapes.orders import NodeRunOrder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.link.ask import MemberRequest

HOFF = RemoteMachine(name="hoff", address="192.0.2.11")
MOUNT = {"source": "/data", "target": "/shared", "read_only": False}
NODES: dict[str, Any] = {
    "schema": "gpuprov.cluster-nodes/v1",
    "version": 1,
    "host": "hoff",
    "engine": "lxd",
    "command": "lxc",
    "capabilities": ["systemd"],
    "nodes": [{"name": "c000", "status": "running", "labels": {"gpuprov.cluster": "lab"}, "mounts": [MOUNT]}],
    "networks": [{"name": "gpbr0", "labels": {"gpuprov.cluster": "lab"}}],
}


def run_answer(**more: object) -> dict[str, Any]:
    empty = pack_bytes(b"")
    return {
        "schema": "gpuprov.node-run/v1",
        "version": 1,
        "host": "hoff",
        "exit_code": 0,
        "stdout": empty,
        "stderr": empty,
        **more,
    }


def pack_bytes(content: bytes) -> str:
    return base64.b64encode(zlib.compress(content)).decode()


class Saying:
    """A host that says what it is told to."""

    def __init__(self, nodes: Mapping[str, Any] = NODES, run: Mapping[str, Any] | None = None) -> None:
        self.nodes, self.result = nodes, run
        self.error: EngineError | None = None
        self.requests: list[MemberRequest] = []

    def work(self, requests: Mapping[RemoteMachine, MemberRequest]) -> list[HostAnswer]:
        ((machine, request),) = requests.items()
        self.requests.append(request)
        if self.error is not None:
            return [HostAnswer(machine=machine, error=self.error)]
        return [HostAnswer(machine=machine, document=self.nodes if request.verb == "cluster-nodes" else self.result)]


def elsewhere(saying: Saying) -> NodesElsewhere:
    return NodesElsewhere(saying, HOFF, "lab", "lxd")  # type: ignore[arg-type]


def test_nodes_are_those_of_the_host() -> None:
    there = elsewhere(Saying())
    (node,), (network,) = there.list_nodes(), there.list_networks()
    assert (node.name, node.host, node.status) == ("c000", "hoff", "running")
    assert node.mounts == (Mount(source="/data", target="/shared", read_only=False),)
    assert network.labels == {"gpuprov.cluster": "lab"}
    assert (there.host, there.command, there.capabilities) == ("hoff", "lxc", frozenset({"systemd"}))


@pytest.mark.parametrize(
    "wrong",
    [
        {"engine": "podman"},
        {"more": 1},
        {"nodes": [{"name": "c000"}]},
        {"nodes": [{**NODES["nodes"][0], "status": "odd"}]},
        {"nodes": [{**NODES["nodes"][0], "mounts": [{**MOUNT, "read_only": "no"}]}]},
        {"networks": [{"name": "gpbr0", "labels": {"a": 1}}]},
        {"networks": 5},
    ],
)
def test_what_is_no_answer_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(HostNotReady, match="hoff gave an unexpected answer"):
        elsewhere(Saying({**NODES, **wrong})).list_nodes()


def test_a_command_takes_its_input_and_its_limit_along_and_its_output_back() -> None:
    saying = Saying(run=run_answer(exit_code=3, stdout=pack_bytes("é\n".encode()), stderr=pack_bytes(b"w")))
    result = elsewhere(saying).run("c000", ["cat"], cwd="/", timeout_s=9.0, stdin=b"x" * 1000)
    assert (result.exit_code, result.stdout, result.stderr) == (3, "é\n", "w")
    sent = saying.requests[-1].order
    assert isinstance(sent, NodeRunOrder)
    assert (sent.node, sent.argv, sent.cwd, sent.timeout_s) == ("c000", ("cat",), "/", 9.0)
    assert unpack_bytes(sent.stdin) == b"x" * 1000


def test_an_error_of_the_host_is_passed_on() -> None:
    saying = Saying()
    there = elsewhere(saying)
    saying.error = EngineError("hoff: c000 does not run", evidence="stopped", fix="start it")
    with pytest.raises(EngineError, match="does not run"):
        there.run("c000", ["true"])


@pytest.mark.parametrize(
    "wrong", [{"exit_code": "0"}, {"stdout": "?"}, {"stdout": base64.b64encode(b"no zlib").decode()}, {"more": 1}]
)
def test_what_is_no_output_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(HostNotReady, match="gave an unexpected answer"):
        elsewhere(Saying(run=run_answer(**wrong))).run("c000", ["true"])


def test_output_has_a_limit_however_small_it_is_packed() -> None:
    whole = bytes(MOST_OUTPUT_BYTES)
    assert unpack_bytes(zlib.compress(whole)) == whole
    with pytest.raises(ValueError, match="too long"):
        unpack_bytes(zlib.compress(whole + b"\0"))
    with pytest.raises(ValueError, match="has no end"):
        unpack_bytes(zlib.compress(b"x" * 100)[:-4])


def test_a_file_is_read_by_a_command_in_the_node() -> None:
    there = elsewhere(Saying(run=run_answer(stdout=pack_bytes(base64.b64encode(b"\xff\0key")))))
    assert there.pull("c000", "/etc/key", most_bytes=10) == b"\xff\0key"
    with pytest.raises(Unreadable):
        there.pull("c000", "/etc/key", most_bytes=3)
    with pytest.raises(Unreadable, match="no base64"):
        elsewhere(Saying(run=run_answer(stdout=pack_bytes(b"key?")))).pull("c000", "/etc/key")


def test_nodes_are_asked_for_once_and_only_by_those_who_want_them() -> None:
    saying = Saying(run=run_answer())
    there = elsewhere(saying)
    there.run("c000", ["true"])
    assert [request.verb for request in saying.requests] == ["node-run"]
    assert there.find_node("c000") == there.list_nodes()[0]
    assert (there.find_node("c001"), there.command) == (None, "lxc")
    assert [request.verb for request in saying.requests] == ["node-run", "cluster-nodes"]
