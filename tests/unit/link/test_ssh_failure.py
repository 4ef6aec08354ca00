"""The words are those of OpenSSH 9.2."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuprov.core.errors import Unreachable
from gpuprov.link.address import RemoteMachine
from gpuprov.link.ssh_failure import ChangedKey, explain_ssh, silent

HOFF = RemoteMachine(
    name="hoff", address="192.0.2.11", user="root", port=2222, identity_file="~/.ssh/lab", proxy_jump="gate"
)
CHANGED = """\
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
IT IS POSSIBLE THAT SOMEONE IS DOING SOMETHING NASTY!
Someone could be eavesdropping on you right now (man-in-the-middle attack)!
It is also possible that a host key has just been changed.
The fingerprint for the ED25519 key sent by the remote host is
SHA256:2kYJ0CPDvjCRtZBBdSqfTgpJMjpWYMOCpxMvWkVnKDE.
Please contact your system administrator.
Add correct host key in /home/u/.config/gpuprov/known_hosts to get rid of this message.
Offending ED25519 key in /home/u/.config/gpuprov/known_hosts:3
  remove with:
  ssh-keygen -f "/home/u/.config/gpuprov/known_hosts" -R "[192.0.2.11]:2222"
Host key for [192.0.2.11]:2222 has changed and you have requested strict checking.
Host key verification failed.
"""


def test_a_key_file_is_shown_as_a_shell_reads_it() -> None:
    spaced = replace(HOFF, identity_file="/home/u/my keys/lab")
    assert "-i '/home/u/my keys/lab'" in silent(spaced, 9.0).fix
    assert "-i ~/.ssh/lab" in silent(HOFF, 9.0).fix


def test_a_changed_key_is_told_with_both_fingerprints_and_the_way_out() -> None:
    error = explain_ssh(HOFF, CHANGED, known="SHA256:old (ED25519)")
    assert isinstance(error, ChangedKey)
    assert "has changed" in error.what
    assert error.evidence.splitlines() == [
        "known: SHA256:old (ED25519), in /home/u/.config/gpuprov/known_hosts, line 3",
        "shown by the host: SHA256:2kYJ0CPDvjCRtZBBdSqfTgpJMjpWYMOCpxMvWkVnKDE (ED25519)",
    ]
    assert "ssh-keygen -f /home/u/.config/gpuprov/known_hosts -R '[192.0.2.11]:2222'" in error.fix


@pytest.mark.parametrize(
    ("said", "what", "fix"),
    [
        (
            "No ED25519 host key is known for 192.0.2.11 and you have requested strict checking.\r\n",
            "the host key of hoff is not known",
            "gpuprov host add hoff",
        ),
        (
            "root@192.0.2.11: Permission denied (publickey,password).",
            "hoff does not accept the ssh key of this user",
            "ssh-copy-id -i ~/.ssh/lab -p 2222 root@192.0.2.11",
        ),
        (
            "ssh: Could not resolve hostname hoff: Name or service not known",
            "the address of hoff cannot be resolved",
            "gpuprov host add hoff --address",
        ),
        (
            "ssh: connect to host 192.0.2.11 port 2222: No route to host",
            "hoff is unreachable",
            "ssh -p 2222 -i ~/.ssh/lab -J gate root@192.0.2.11",
        ),
        ("", "hoff is unreachable", "ssh -p 2222"),
    ],
)
def test_what_ssh_says_is_the_evidence(said: str, what: str, fix: str) -> None:
    error = explain_ssh(HOFF, said)
    assert type(error) is Unreachable
    assert error.what == what
    assert (said.splitlines() or ["ssh printed nothing"])[0] in error.evidence
    assert fix in error.fix
    assert error.exit_code == 3


def test_who_says_nothing_is_unreachable_too() -> None:
    error = silent(HOFF, 10.0, "debug: banner exchange\n")
    assert error.what == "hoff is unreachable"
    assert error.evidence == "no response within 10 s; ssh: debug: banner exchange"
