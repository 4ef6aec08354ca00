"""What ssh says where it fails, as an error in three parts: pure."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Final

from gpuprov.core.errors import HostNotReady, Unreachable
from gpuprov.core.excerpt import last_words

if TYPE_CHECKING:
    from gpuprov.link.address import RemoteMachine

SSH_FAILED: Final = 255  # its exit status, unless the command's own is the same
MISSING: Final = 127
_CHANGED: Final = "REMOTE HOST IDENTIFICATION HAS CHANGED"
_SENT: Final = re.compile(r"fingerprint for the (\S+) key sent by the remote host is\s+(\S+?)\.?\s*$", re.MULTILINE)
_OFFENDING: Final = re.compile(r"Offending (?:\S+ )?key in (\S+?):(\d+)")
_UNKNOWN_KEY: Final = re.compile(r"No \S+ host key is known for|Host key verification failed", re.IGNORECASE)
_PLAIN: Final = re.compile(r"[\w@%+=:,./~-]+")
_DENIED: Final = re.compile(r"Permission denied|Too many authentication failures", re.IGNORECASE)
_NO_NAME: Final = re.compile(r"Could not resolve hostname", re.IGNORECASE)
_NOISE: Final = re.compile(r"@{3,}|Warning: Permanently added|Pseudo-terminal will not be allocated")


class ChangedKey(Unreachable):
    """The host shows another host key than the known one."""


class NotInstalled(HostNotReady):
    """The host answers, and has no gpuprov."""


def explain_ssh(machine: RemoteMachine, stderr: str, *, known: str = "") -> Unreachable:
    """Why ssh did not come through.

    Args:
        stderr: All that ssh said.
        known: The fingerprint of its known host key, where that is known.
    """
    said = "\n".join(line for line in stderr.splitlines() if line.strip() and not _NOISE.search(line))
    evidence = last_words(said, most=12) or "ssh printed nothing"
    if _CHANGED in stderr:
        return _changed(machine, stderr, known)
    if _UNKNOWN_KEY.search(stderr):
        return Unreachable(
            f"the host key of {machine.name} is not known", evidence=evidence, fix=f"gpuprov host add {machine.name}"
        )
    if _DENIED.search(stderr):
        identity = f"-i {_typed(machine.identity_file)} " if machine.identity_file else ""
        port = f"-p {machine.port} " if machine.port else ""
        return Unreachable(
            f"{machine.name} does not accept the ssh key of this user",
            evidence=evidence,
            fix=f"ssh-copy-id {identity}{port}{machine.destination}; then run the command again",
        )
    if _NO_NAME.search(stderr):
        return Unreachable(
            f"the address of {machine.name} cannot be resolved",
            evidence=evidence,
            fix=f"give an address: gpuprov host add {machine.name} --address ADDRESS",
        )
    return Unreachable(f"{machine.name} is unreachable", evidence=evidence, fix=try_by_hand(machine))


def silent(machine: RemoteMachine, seconds: float, stderr: str = "") -> Unreachable:
    """The error where there was no result within a limit."""
    words = last_words(stderr, most=12)
    return Unreachable(
        f"{machine.name} is unreachable",
        evidence=f"no response within {seconds:g} s{f'; ssh: {words}' if words else ''}",
        fix=try_by_hand(machine),
    )


def try_by_hand(machine: RemoteMachine) -> str:
    """The command that shows the same to a person."""
    options = [
        f"-p {machine.port}" if machine.port else "",
        f"-i {_typed(machine.identity_file)}" if machine.identity_file else "",
        f"-J {machine.proxy_jump}" if machine.proxy_jump else "",
    ]
    return " ".join(["ssh", *filter(None, options), machine.destination])


def _typed(path: str) -> str:
    """A path as a shell reads it; `~` stays what it is."""
    return path if _PLAIN.fullmatch(path) else shlex.quote(path)


def _changed(machine: RemoteMachine, stderr: str, known: str) -> ChangedKey:
    sent, place = _SENT.search(stderr), _OFFENDING.search(stderr)
    lines = [
        f"known: {known or 'another one'}{f', in {place[1]}, line {place[2]}' if place else ''}",
        f"shown by the host: {sent[2]} ({sent[1]})" if sent else "",
    ]
    file = f" -f {place[1]}" if place else ""
    target = f"'[{machine.address}]:{machine.port}'" if machine.port not in (None, 22) else machine.address
    return ChangedKey(
        f"the host key of {machine.name} has changed: it is another machine, or was reinstalled",
        evidence="\n".join(filter(None, lines)),
        fix=f"compare the fingerprint on the machine itself: ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub; if it "
        f"is the same: ssh-keygen{file} -R {target} && gpuprov host add {machine.name}",
    )
