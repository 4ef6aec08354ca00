"""The gpuprov of a host is started once for several requests, and again where it cannot be asked any more."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.core.errors import EngineError, HostNotReady, Unreachable
from gpuprov.link import ask as ask_module
from gpuprov.link import members as members_module
from gpuprov.link.ask import MemberRequest
from gpuprov.shapes.orders import LookOrder
from tests.fakes.ssh import scripted_member

if TYPE_CHECKING:
    from gpuprov.link.connection import SshConnection
    from gpuprov.link.members import MemberProcesses
    from tests.conftest import Recording
    from tests.fakes.ssh import FakeSsh

pytestmark = pytest.mark.slow

ADDRESS = "192.0.2.11"
LOOK = MemberRequest(order=LookOrder())
ANSWER = "hear(); say('result', document={'by': os.getpid()})"


@pytest.fixture
def ask(members: MemberProcesses, hoff: SshConnection, recording: Recording) -> Any:
    return lambda: json.loads(bytes(members.ask(hoff.machine, LOOK, reporter=recording)))["by"]


def test_requests_are_served_by_one_process(ask: Any, ssh: FakeSsh) -> None:
    ssh.reach(ADDRESS, member=scripted_member("import os", f"while True: {ANSWER}"))
    assert ask() == ask() == ask()
    assert len(ssh.calls()) == 1


def test_one_that_refused_a_request_serves_the_next(ask: Any, ssh: FakeSsh) -> None:
    refusal = "say('error', what='no', evidence='e', fix='f', exit_code=4)"
    ssh.reach(ADDRESS, member=scripted_member("import os", "hear()", refusal, ANSWER, ANSWER))
    with pytest.raises(EngineError, match="no"):
        ask()
    assert ask() == ask()
    assert len(ssh.calls()) == 1


def test_one_that_has_ended_is_started_again(
    ask: Any, ssh: FakeSsh, members: MemberProcesses, hoff: SshConnection
) -> None:
    ssh.reach(ADDRESS, member=scripted_member("import os", ANSWER))
    first = ask()
    member = members._idle[hoff.machine]
    while member.usable:
        pass
    assert ask() != first
    assert len(ssh.calls()) == 2


def test_one_that_has_waited_for_long_is_not_asked_again(
    ask: Any, ssh: FakeSsh, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ask_module, "KEPT_S", 0.0)
    ssh.reach(ADDRESS, member=scripted_member("import os", f"while True: {ANSWER}"))
    assert ask() != ask()
    assert len(ssh.calls()) == 2


def test_those_that_have_ended_give_way_to_others(
    ask: Any,
    ssh: FakeSsh,
    members: MemberProcesses,
    hoff: SshConnection,
    monkeypatch: pytest.MonkeyPatch,
    recording: Recording,
) -> None:
    monkeypatch.setattr(members_module, "_MOST", 1)
    ssh.reach(ADDRESS, member=scripted_member("import os", ANSWER))
    ask()
    while members._idle[hoff.machine].usable:
        pass
    hinton = replace(hoff.machine, name="hinton", address="192.0.2.12")
    ssh.reach("192.0.2.12", member=scripted_member("import os", f"while True: {ANSWER}"))
    served = {json.loads(bytes(members.ask(hinton, LOOK, reporter=recording)))["by"] for _ in range(3)}
    assert len(served) == 1


def test_what_was_said_on_stderr_before_is_no_evidence(ask: Any, ssh: FakeSsh, members: MemberProcesses) -> None:
    says = "print('of the first', file=sys.stderr, flush=True)"
    fails = "hear(); print('of the second', file=sys.stderr, flush=True); sys.exit(1)"
    ssh.reach(ADDRESS, member=scripted_member("import os", says, ANSWER, fails))
    ask()
    (kept,) = members._idle.values()
    while "of the first" not in kept._exchange.stderr:
        pass
    with pytest.raises(HostNotReady, match="ended without a result") as caught:
        ask()
    assert "of the second" in caught.value.evidence
    assert "of the first" not in caught.value.evidence


def test_one_that_says_more_than_its_answer_is_refused(ask: Any, ssh: FakeSsh) -> None:
    two = """sys.stdout.write('{"kind":"result","document":{}}\\n{"kind":"beat"}\\n'); sys.stdout.flush()"""
    ssh.reach(ADDRESS, member=scripted_member("hear()", two, "time.sleep(60)"))
    with pytest.raises(HostNotReady, match="hoff gave an unexpected answer"):
        ask()


def test_one_that_is_kept_and_falls_silent_is_given_up_as_soon_as_one_that_does_not_begin(
    ask: Any, ssh: FakeSsh, monkeypatch: pytest.MonkeyPatch
) -> None:
    ssh.reach(ADDRESS, member=scripted_member("import os", ANSWER, "time.sleep(60)"))
    ask()
    monkeypatch.setenv("GPUPROV_SILENCE_S", "30")  # a tenth of all limits: a host has 1 s to begin
    with pytest.raises(Unreachable, match="hoff is unreachable") as caught:
        ask()
    assert "no response within 1 s" in caught.value.evidence
