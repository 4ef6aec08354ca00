"""A request and its answer, over a stand-in for ssh and programs that stand for the gpuprov of a host."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from gpuprov import __version__
from gpuprov.core.errors import EngineError, HostNotReady, TimedOut, Unreachable, UsageError
from gpuprov.link import ask as ask_module
from gpuprov.link.address import RemoteMachine
from gpuprov.link.ask import MemberProcess, MemberRequest, OtherVersion, WorkStopped, ask_member
from gpuprov.link.connection import SshConnection
from gpuprov.link.exchange import Exchange
from gpuprov.link.lines import PROTOCOL, render_line
from gpuprov.link.ssh_failure import NotInstalled
from gpuprov.shapes.base import raw
from gpuprov.shapes.lines import Hello
from gpuprov.shapes.orders import LookOrder
from tests.fakes.member_orders import odd_order
from tests.fakes.ssh import scripted_member

if TYPE_CHECKING:
    from pathlib import Path

    from gpuprov.link.places import Places
    from tests.conftest import Recording
    from tests.fakes.ssh import FakeSsh

pytestmark = pytest.mark.slow

LOOK = MemberRequest(order=odd_order("look", x=1))
ADDRESS = "192.0.2.11"


def test_a_result_comes_with_the_progress_before_it(ssh: FakeSsh, hoff: SshConnection, recording: Recording) -> None:
    ssh.reach(
        ADDRESS,
        member=scripted_member(
            "request = hear()",
            "say('phase', name='nodes', state='begins')",
            "say('node', name='c000', state='starting')",
            "say('beat')",
            "say('note', text='n')",
            "say('warn', text='w')",
            "say('result', document=request)",
        ),
    )
    assert json.loads(bytes(ask_member(hoff, LOOK, reporter=recording))) == {
        "kind": "request",
        "verb": "look",
        "host": "hoff",
        "document": {"x": 1},
    }
    assert recording.lines == ["node hoff nodes begins", "node c000 starting", "note hoff: n", "warn hoff: w"]
    (call,) = ssh.calls()
    assert "BatchMode=yes" in call
    assert "StrictHostKeyChecking=yes" in call
    assert "ControlMaster=auto" in call
    assert call[-3:] == ["--", "root@192.0.2.11", "/opt/gpuprov/current/bin/gpuprov member"]


def test_an_error_there_is_one_here_with_the_name_of_the_host(
    ssh: FakeSsh, hoff: SshConnection, recording: Recording
) -> None:
    script = "say('error', what='lxd went away', evidence='e', fix='gpuprov doctor', exit_code=4)"
    ssh.reach(ADDRESS, member=scripted_member("hear()", script))
    with pytest.raises(EngineError) as caught:
        ask_member(hoff, LOOK, reporter=recording)
    assert (caught.value.what, caught.value.evidence) == ("hoff: lxd went away", "e")
    assert caught.value.fix == "on hoff: gpuprov doctor"


@pytest.mark.parametrize(
    "fix", ["run the same command again; or look", "repeat the command with --force", "request fewer nodes: -n 2"]
)
def test_the_command_to_run_again_is_the_one_that_was_typed_here(
    ssh: FakeSsh, hoff: SshConnection, recording: Recording, fix: str
) -> None:
    script = f"say('error', what='changed', evidence='e', fix={fix!r}, exit_code=2)"
    ssh.reach(ADDRESS, member=scripted_member("hear()", script))
    with pytest.raises(UsageError) as caught:
        ask_member(hoff, LOOK, reporter=recording)
    assert caught.value.fix == fix


def test_evidence_that_names_four_gpus_is_not_cut(ssh: FakeSsh, hoff: SshConnection, recording: Recording) -> None:
    evidence = "; ".join(f"GPU {number} GPU-5d33a2c0-6f5f-4c5e-9d3a-7bafb9c0a1f{number}: held" for number in range(8))
    script = f"say('error', what='too few', evidence={evidence!r}, fix='--sharing shared', exit_code=2)"
    ssh.reach(ADDRESS, member=scripted_member("hear()", script))
    with pytest.raises(UsageError) as caught:
        ask_member(hoff, LOOK, reporter=recording)
    assert caught.value.evidence == evidence


def test_an_error_without_end_is_shortened(ssh: FakeSsh, hoff: SshConnection, recording: Recording) -> None:
    script = "say('error', what='w' * 100000, evidence='e' * 100000, fix='f' * 100000, exit_code=4)"
    ssh.reach(ADDRESS, member=scripted_member("hear()", script))
    with pytest.raises(EngineError) as caught:
        ask_member(hoff, LOOK, reporter=recording)
    assert max(map(len, (caught.value.what, caught.value.fix))) < 2000
    assert len(caught.value.evidence) < 50_000


def test_a_path_with_a_space_is_one_word_for_ssh(places: Places) -> None:
    machine = RemoteMachine(name="hoff", address=ADDRESS, identity_file="/home/u/my keys/lab")
    argv = SshConnection(machine=machine, places=places).argv(["true"])
    assert 'IdentityFile="/home/u/my keys/lab"' in argv
    assert f'ControlPath="{places.socket(machine)}"' in argv


def test_ssh_goes_through_the_machine_that_is_named(places: Places) -> None:
    through = RemoteMachine(name="hoff", address=ADDRESS, proxy_jump="ops@gate.example:2200,inner")
    argv = SshConnection(machine=through, places=places).argv(["true"])
    assert argv[argv.index("ProxyJump=ops@gate.example:2200,inner") - 1] == "-o"
    straight = SshConnection(machine=RemoteMachine(name="hoff", address=ADDRESS), places=places).argv(["true"])
    assert "ProxyJump" not in " ".join(straight), "then ssh does what its own settings say"
    assert places.socket(through) != places.socket(RemoteMachine(name="hoff", address=ADDRESS))


@pytest.mark.parametrize(
    ("protocol", "version"),
    [(PROTOCOL - 1, __version__), (PROTOCOL + 1, __version__), (PROTOCOL, "0.0.1"), (PROTOCOL, "99.0.0")],
    ids=["a host with an older protocol", "a newer one", "an older version", "a newer one with the same protocol"],
)
def test_a_host_of_another_version_is_asked_nothing_and_told_of_with_the_command_that_cures_it(
    ssh: FakeSsh,
    hoff: SshConnection,
    recording: Recording,
    monkeypatch: pytest.MonkeyPatch,
    protocol: int,
    version: str,
) -> None:
    asked: list[bytes] = []
    monkeypatch.setattr(Exchange, "send", lambda _self, line: asked.append(line))
    hello = render_line(Hello(protocol=protocol, version=version, host="x")).decode().strip()
    ssh.reach(ADDRESS, member=f"echo '{hello}'; cat")
    with pytest.raises(OtherVersion) as caught:
        ask_member(hoff, LOOK, reporter=recording)
    assert f"it has {version} (protocol {protocol}), this is {__version__}" in caught.value.evidence
    assert caught.value.fix == "bring it up to date: gpuprov host add hoff"
    assert asked == []


def test_a_host_without_gpuprov_is_told_apart(ssh: FakeSsh, hoff: SshConnection, recording: Recording) -> None:
    ssh.reach(ADDRESS)
    with pytest.raises(NotInstalled) as caught:
        ask_member(hoff, LOOK, reporter=recording)
    assert caught.value.fix == "gpuprov host add hoff"


@pytest.mark.parametrize(
    "steps",
    [
        ["print('Welcome to Debian', flush=True)"],
        ["hear()", "say('shell', text='x')"],
        ["hear()", "say('request', verb='look', host='h', document={})"],
        ["hear()", "say('result', document={}, more=1)"],
        ["hear()", "sys.stdout.write('x' * 20_000_000)"],
    ],
)
def test_what_is_not_the_protocol_is_refused(
    ssh: FakeSsh, hoff: SshConnection, recording: Recording, steps: list[str]
) -> None:
    ssh.reach(ADDRESS, member=scripted_member(*steps))
    with pytest.raises(HostNotReady, match="hoff gave an unexpected answer"):
        ask_member(hoff, LOOK, reporter=recording)


def test_a_host_that_is_away_is_told_in_the_words_of_ssh(
    ssh: FakeSsh, hoff: SshConnection, recording: Recording
) -> None:
    ssh.fail(ADDRESS, "ssh: connect to host 192.0.2.11 port 22: No route to host")
    with pytest.raises(Unreachable) as caught:
        ask_member(hoff, LOOK, reporter=recording)
    assert caught.value.evidence == "ssh: connect to host 192.0.2.11 port 22: No route to host"


def test_a_program_that_ends_without_a_word_is_no_unreachable_host(
    ssh: FakeSsh, hoff: SshConnection, recording: Recording
) -> None:
    ssh.reach(ADDRESS, member=scripted_member("hear()", "raise RuntimeError('oops')"))
    with pytest.raises(HostNotReady) as caught:
        ask_member(hoff, LOOK, reporter=recording)
    assert not isinstance(caught.value, Unreachable)
    assert "exit status 1" in caught.value.evidence
    assert "RuntimeError: oops" in caught.value.evidence


def test_an_ssh_that_fails_before_it_is_asked_is_quoted(
    ssh: FakeSsh, hoff: SshConnection, recording: Recording
) -> None:
    words = "ssh: connect to host 192.0.2.11 port 22: No route to host"
    ssh.fail(ADDRESS, words)
    member = MemberProcess(hoff)
    with closing(member):
        assert member._exchange.status(20.0) == 255
        with pytest.raises(Unreachable, match="hoff is unreachable") as caught:
            member.ask(LOOK, reporter=recording)
    assert caught.value.evidence == words


def test_a_connection_that_breaks_is_told_apart_from_a_host_that_is_away(
    ssh: FakeSsh, hoff: SshConnection, recording: Recording
) -> None:
    steps = ["hear()", "print('Shared connection to hoff closed.', file=sys.stderr)", "sys.exit(255)"]
    ssh.reach(ADDRESS, member=scripted_member(*steps))
    with pytest.raises(Unreachable, match="the connection to hoff was lost") as caught:
        ask_member(hoff, LOOK, reporter=recording)
    assert caught.value.evidence == "Shared connection to hoff closed."


def test_a_silent_host_is_given_up_within_its_limit(
    ssh: FakeSsh, hoff: SshConnection, recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUPROV_SILENCE_S", "30")  # a tenth of all limits
    ssh.hang(ADDRESS)
    began_s = time.monotonic()
    with pytest.raises(Unreachable, match="hoff is unreachable") as caught:
        ask_member(hoff, LOOK, reporter=recording)
    assert 1.0 <= time.monotonic() - began_s < 3.0
    assert "no response within 1 s" in caught.value.evidence


def test_one_that_falls_silent_is_given_up_and_one_that_beats_is_not(
    ssh: FakeSsh, hoff: SshConnection, recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ask_module, "SILENCE_S", 0.8)
    ssh.reach(ADDRESS, member=scripted_member("hear()", "time.sleep(60)"))
    with pytest.raises(Unreachable, match="hoff is unreachable"):
        ask_member(hoff, LOOK, reporter=recording)
    beats = "for _ in range(5): say('beat'); time.sleep(0.25)"
    ssh.reach(ADDRESS, member=scripted_member("hear()", beats, "say('result', document={})"))
    assert ask_member(hoff, LOOK, reporter=recording) == raw("{}")


def test_a_question_has_a_limit_although_it_beats(ssh: FakeSsh, hoff: SshConnection, recording: Recording) -> None:
    beats = "while True: say('beat'); time.sleep(0.1)"
    ssh.reach(ADDRESS, member=scripted_member("hear()", beats))
    began_s = time.monotonic()
    with pytest.raises(TimedOut, match="has not answered `look`"):
        ask_member(hoff, MemberRequest(order=LookOrder(), total_s=0.5), reporter=recording)
    assert time.monotonic() - began_s < 3.0


def test_who_is_stopped_closes_the_input_and_waits_for_the_undo(
    ssh: FakeSsh, hoff: SshConnection, recording: Recording, tmp_path: Path
) -> None:
    begun, undone = (f"open({str(tmp_path / name)!r}, 'w').close()" for name in ("begun", "undone"))
    ssh.reach(
        ADDRESS,
        member=scripted_member(
            "hear()",
            begun,
            "while sys.stdin.readline(): pass",
            "time.sleep(0.3)",
            undone,
            "say('error', what='interrupted', evidence='', fix='', exit_code=130)",
        ),
    )
    stop = threading.Event()

    def stop_once_begun() -> None:
        while not (tmp_path / "begun").exists():
            time.sleep(0.01)
        stop.set()

    threading.Thread(target=stop_once_begun, daemon=True).start()
    with closing(MemberProcess(hoff)) as member, pytest.raises(WorkStopped, match="hoff: interrupted"):
        member.ask(LOOK, reporter=recording, stop=stop)
    assert (tmp_path / "undone").exists()


def test_ctrl_c_is_the_same(ssh: FakeSsh, hoff: SshConnection, recording: Recording, tmp_path: Path) -> None:
    ssh.reach(
        ADDRESS,
        member=scripted_member(
            "hear()", "while sys.stdin.readline(): pass", f"open({str(tmp_path / 'undone')!r}, 'w').close()"
        ),
    )
    threading.Timer(0.7, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        ask_member(hoff, LOOK, reporter=recording)
    assert (tmp_path / "undone").exists()


def test_the_end_of_what_ssh_said_is_told_whole_and_a_flood_holds_up_nothing(
    ssh: FakeSsh, hoff: SshConnection, recording: Recording
) -> None:
    flood = "for _ in range(4): os.write(2, b'x' * 50000 + b'\\n')"
    steps = ["import os", "hear()", flood, "os.write(2, b'the reason\\n')", "sys.exit(255)"]
    ssh.reach(ADDRESS, member=scripted_member(*steps))
    with pytest.raises(Unreachable, match="was lost") as caught:
        ask_member(hoff, LOOK, reporter=recording)
    assert caught.value.evidence.endswith("the reason")
    endless = "while True: os.write(2, b'x' * 50000)"
    answers = "threading.Thread(target=flood, daemon=True).start(); say('result', document={})"
    steps = ["import os, threading", f"def flood():\n    {endless}", "hear()", answers, "time.sleep(60)"]
    ssh.reach(ADDRESS, member=scripted_member(*steps))
    assert ask_member(hoff, LOOK, reporter=recording) == raw("{}")
