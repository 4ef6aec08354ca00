"""Several hosts, each with a fake engine and simulated GPUs, behind a stand-in for ssh: the whole way and back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from gpuprov.core.errors import HostNotReady, PartDone, Unreachable, UsageError
from gpuprov.core.waiting import Wait
from gpuprov.link.address import RemoteMachine
from gpuprov.link.answers import read_answer
from gpuprov.link.ask import MemberRequest, ask_member
from gpuprov.link.connection import SshConnection
from gpuprov.link.hosts import HostsBySsh
from gpuprov.link.install_paths import PROGRAM
from gpuprov.link.lines import Lines, render_line
from gpuprov.link.members import MemberProcesses
from gpuprov.link.several import require_all, work_on_hosts
from gpuprov.shapes.base import raw, write
from gpuprov.shapes.cluster_spec import ClusterSpec, GpuSpec, NodesSpec
from gpuprov.shapes.host import Host
from gpuprov.shapes.lines import Failure, Request, Result
from gpuprov.shapes.members import PartOfHost
from gpuprov.shapes.nodes import Nodes
from gpuprov.shapes.orders import (
    DownOrder,
    ListOrder,
    LookOrder,
    MemberPlanOrder,
    MemberUpOrder,
    PartOrder,
    VerifyOrder,
)
from gpuprov.shapes.outcome import Changes, ClusterUp, Plan
from gpuprov.shapes.verify import Report
from gpuprov.spec.serialize import dump_spec
from gpuprov.stories.hosts import ask_host, look_at_hosts
from tests.fakes.member_orders import odd_order
from tests.fakes.ssh import scripted_member

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from msgspec import Raw

    from gpuprov.link.places import Places
    from gpuprov.link.several import HostAnswer
    from gpuprov.shapes.lines import AnyLine
    from gpuprov.shapes.orders import Order
    from tests.conftest import Recording
    from tests.fakes.ssh import FakeSsh

pytestmark = pytest.mark.slow

NAMES = ("hebb", "hoff")
UP = write(MemberUpOrder(cluster="lab", spec=raw("{}")))
ANSWERS = scripted_member("hear()", "say('result', document={})")


def machine(name: str) -> RemoteMachine:
    return RemoteMachine(name=name, address=f"{name}.example")


@pytest.fixture
def serve(ssh: FakeSsh, world_member: Callable[..., str]) -> Callable[..., RemoteMachine]:
    def serve_it(name: str, *, nodes: int = 0) -> RemoteMachine:
        root = ssh.reach(f"{name}.example")
        ssh.reach(f"{name}.example", member=world_member(root, "its-own-name", nodes=nodes))
        return machine(name)

    return serve_it


def spec(count: int) -> str:
    return dump_spec(ClusterSpec(name="lab", nodes=NodesSpec(count=count), gpus=GpuSpec(mode="simulated")))


def test_a_host_says_what_it_is_and_has_under_the_name_that_it_is_given(
    serve: Callable[..., RemoteMachine], places: Places
) -> None:
    hoff = serve("hoff", nodes=2)
    look = read_answer(Host, ask_host(hoff, places), "hoff")
    assert {row.name: row.host for row in look.nodes} == {"c000": "hoff", "c001": "hoff"}
    assert list(look.facts) == ["lxd"]
    assert look.gpus is not None
    assert look.gpus.simulated
    assert [len(gpu.holders) for gpu in look.gpus.gpus] == [1, 1, 0, 0]
    assert {holder.host for gpu in look.gpus.gpus for holder in gpu.holders} == {"hoff"}
    assert look.limits["inotify"]
    assert abs(look.clock_s - time.time()) < 60


def test_requests_are_served_by_the_stories_of_that_host(
    serve: Callable[..., RemoteMachine], places: Places, recording: Recording
) -> None:
    connection = SshConnection(machine=serve("hoff", nodes=2), places=places)

    def ask(order: Order) -> Raw:
        return ask_member(connection, MemberRequest(order=order), reporter=recording)

    rows = read_answer(Nodes, ask(ListOrder()), "hoff").nodes
    assert [row.name for row in rows] == ["c000", "c001"]
    part = read_answer(PartOfHost, ask(PartOrder(cluster="lab")), "hoff")
    assert [row.work for row in part.nodes] == ["idle", "idle"]
    plan, up = (kind(cluster="lab", spec=raw(spec(3))) for kind in (MemberPlanOrder, MemberUpOrder))
    planned = read_answer(Plan, ask(plan), "hoff").plan
    assert any("c002" in line for line in planned)
    done = ask(up)
    assert any("c002" in line for line in read_answer(ClusterUp, done, "hoff").changed)
    assert [row.name for row in read_answer(ClusterUp, done, "hoff").nodes] == ["c000", "c001", "c002"]
    assert "node c002 starting" in recording.lines
    report = read_answer(Report, ask(VerifyOrder(cluster="lab", nodes=("c000",))), "hoff")
    assert [node.node for node in report.nodes] == ["c000"]
    gone = ask(DownOrder(cluster="lab", force=True))
    assert any("c000" in line for line in read_answer(Changes, gone, "hoff").changed)


def test_a_host_that_an_answer_names_is_asked_beside_those_that_are_silent(
    ssh: FakeSsh, places: Places, recording: Recording, tmp_path: Path
) -> None:
    asked = tmp_path / "hinton-was-asked"
    waits = f"import pathlib; mark = pathlib.Path({str(asked)!r})"
    until = "ends = time.time() + 8\nwhile not mark.exists() and time.time() < ends: time.sleep(0.01)"
    ssh.reach("hoff.example", member=ANSWERS)
    ssh.reach("hebb.example", member=scripted_member("hear()", waits, until, "say('result', document={'no': 1})"))
    ssh.reach("hinton.example", member=scripted_member("hear()", waits, "mark.touch()", "say('result', document={})"))
    look = MemberRequest(order=LookOrder())

    def further(answer: HostAnswer) -> dict[RemoteMachine, MemberRequest]:
        assert answer.machine.name != "hebb" or asked.exists(), "hebb waits for it, as a silent host for its limit"
        return {machine(name): look for name in ("hebb", "hinton")}

    requests = {machine(name): look for name in NAMES}
    with closing(HostsBySsh(members=MemberProcesses(places), reporter=recording)) as hosts:
        answers = hosts.ask(requests, further)
    assert sorted(answer.machine.name for answer in answers) == ["hebb", "hinton", "hoff"], "each once"
    assert all(answer.document is not None for answer in answers)
    assert len(ssh.calls()) == 3


def test_a_command_in_a_node_there_has_these_streams_and_gives_its_status(
    ssh: FakeSsh, places: Places, capfd: pytest.CaptureFixture[str]
) -> None:
    ssh.reach("hoff.example", member='echo "$@"; echo err >&2; exit 3')
    way = SshConnection(machine=machine("hoff"), places=places)
    assert way.attach([PROGRAM, "exec", "c000", "--", "echo", "a b", "$HOME"], terminal=False) == 3
    said = capfd.readouterr()
    assert said.out == "exec c000 -- echo a b $HOME\n"
    assert said.err == "err\n"
    assert "-T" in ssh.calls()[0]


@pytest.mark.parametrize(
    ("verb", "document", "why"),
    [
        ("rm-rf", {}, "look, list"),
        ("key", {}, "missing required field `cluster`"),
        ("key", {"cluster": 7}, "Expected `str`, got `int` - at `$.cluster`"),
        ("key", {"cluster": "lab", "engine": "lxd"}, "unknown field `engine`"),
        ("key", {"cluster": "../lab"}, "allowed"),
        ("up", {**UP, "spec": "{"}, ""),
        ("up", {**UP, "left": [1]}, "$.left[0]"),
    ],
)
def test_what_cannot_be_served_is_refused(
    serve: Callable[..., RemoteMachine],
    places: Places,
    recording: Recording,
    verb: str,
    document: dict[str, object],
    why: str,
) -> None:
    connection = SshConnection(machine=serve("hoff"), places=places)
    with pytest.raises(UsageError) as caught:
        ask_member(connection, MemberRequest(order=odd_order(verb, **document)), reporter=recording)
    assert caught.value.what.startswith("hoff: ")
    assert why in caught.value.evidence


def test_a_host_that_is_away_holds_up_nobody(ssh: FakeSsh, places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUPROV_SILENCE_S", "150")  # half of all limits: a host has 5 s to begin
    for name in NAMES:
        ssh.reach(f"{name}.example", member=ANSWERS)
    hosts = [machine(name) for name in NAMES]
    away, hung = machine("away"), machine("hung")
    ssh.fail("away.example", "ssh: connect to host away.example port 22: No route to host")
    ssh.hang("hung.example")
    began_s = time.monotonic()
    answers = look_at_hosts([away, *hosts, hung], places)
    assert time.monotonic() - began_s < 5.0 + 2.0
    assert [answer.document is not None for answer in answers] == [False, True, True, False]
    first = answers[0].away_since
    assert first
    with pytest.raises(PartDone) as caught:
        require_all(answers)
    assert caught.value.exit_code == 7
    assert caught.value.what == "2 of 4 hosts did not answer: away, hung"
    assert f"away is unreachable since {first}: ssh: connect to host" in caught.value.evidence
    (again,) = look_at_hosts([away], places)
    assert again.away_since == first
    with pytest.raises(Unreachable, match=f"since {first}"):
        require_all([again])
    with pytest.raises(HostNotReady, match="2 of 2 hosts") as none:
        require_all([answers[0], answers[3]])
    assert none.value.exit_code == 3
    ssh.reach("away.example", member=ANSWERS)
    (back,) = look_at_hosts([away], places)
    assert not back.away_since
    assert not list(places.runtime.glob("away.away"))


def test_on_ctrl_c_every_host_undoes_what_it_began(
    ssh: FakeSsh, places: Places, recording: Recording, tmp_path: Path
) -> None:
    marks = {name: tmp_path / name for name in NAMES}
    for name, mark in marks.items():
        ssh.reach(
            f"{name}.example",
            member=scripted_member(
                "hear()",
                "say('note', text='begun')",
                "while sys.stdin.readline(): pass",
                "time.sleep(0.1)",
                f"open({str(mark)!r}, 'w').close()",
            ),
        )
    begun = Wait(what="all to have begun", timeout_s=30, fix="look", interval_s=0.02)

    def interrupt() -> None:
        begun.until(
            lambda: len([line for line in recording.lines if line.endswith("begun")]), lambda n: n == len(NAMES)
        )
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    requests = {machine(name): MemberRequest(order=odd_order("up")) for name in NAMES}
    with closing(MemberProcesses(places)) as members, pytest.raises(KeyboardInterrupt):
        work_on_hosts(requests, members, reporter=recording)
    assert all(mark.exists() for mark in marks.values())


def test_a_member_whose_controller_is_gone_undoes_and_frees_its_lock(
    tmp_path: Path, world_member: Callable[..., str]
) -> None:
    root = tmp_path / "root"
    root.mkdir()
    command = ["sh", "-c", world_member(root, "its-own-name"), "sh", "member"]
    document = raw(MemberUpOrder(cluster="lab", spec=raw(spec(3))))
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as member:
        assert member.stdin
        assert member.stdout
        lines = Lines()
        said: list[AnyLine] = []
        member.stdin.write(render_line(Request(verb="up", host="hoff", document=document)))
        member.stdin.flush()
        for line in member.stdout:
            said += lines.feed(line)
            if said[-1].kind == "phase":
                break
        member.stdin.close()
        rest = member.stdout.read()
        assert member.wait(60) == 0
    said += lines.feed(rest)
    assert said[0].kind == "hello"
    assert isinstance(said[-1], Failure)
    assert said[-1].what == "interrupted"
    subprocess.run(["flock", "--nonblock", root / "owner/lock", "true"], check=True)


def test_nothing_but_the_protocol_comes_on_its_stdout() -> None:
    code = (
        "import os, sys\n"
        "from gpuprov.link.serve import MemberEnd, take_streams\n"
        "_, out = take_streams()\n"
        "end = MemberEnd(out)\n"
        "print('a library prints'); sys.stdout.flush(); os.system('echo a child prints; cat')\n"
        "from gpuprov.shapes.orders import LookOrder; end.result(LookOrder())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, input="not for children"
    )
    assert done.stdout == render_line(Result(document=raw("{}"))).decode()
    assert done.stderr.splitlines() == ["a library prints", "a child prints"]
