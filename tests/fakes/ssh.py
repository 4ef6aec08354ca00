"""An `ssh` in PATH that runs the command on this machine, below a folder that stands for the host's root.

What it does with each address stands in a file, which a test changes while it runs. Every call is recorded.
"""

from __future__ import annotations

import json
import os
import shlex
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).parents[2]
PLACE = "/opt/gpuprov"
_PROGRAM = """\
#!{python} -IS
import json, os, pathlib, sys, time
folder = pathlib.Path({folder!r})
with open(folder / "calls", "a") as calls:
    print(json.dumps(sys.argv[1:]), file=calls)
if "-O" in sys.argv:
    sys.exit(0)
if "-G" in sys.argv:
    print("hostname", sys.argv[-1].rpartition("@")[2])
    sys.exit(0)
at = sys.argv.index("--")
address = sys.argv[at + 1].rpartition("@")[2]
host = json.loads((folder / "hosts.json").read_text()).get(address)
if host is None:
    host = {{"says": "ssh: Could not resolve hostname " + address + ": Name or service not known"}}
if "key" in host:
    (option,) = [word for word in sys.argv if word.startswith("UserKnownHostsFile=")]
    known_hosts = pathlib.Path(option.split('"')[1])
    known = known_hosts.read_text().splitlines() if known_hosts.exists() else []
    shown = address + " " + host["key"]
    if any(line.startswith(address + " ") and line != shown for line in known):
        print("@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @", file=sys.stderr)
        print("Offending ED25519 key in " + str(known_hosts) + ":1", file=sys.stderr)
        print("Host key verification failed.", file=sys.stderr)
        sys.exit(255)
    if shown not in known:
        if "StrictHostKeyChecking=accept-new" not in sys.argv:
            print("No ED25519 host key is known for " + address + " and ...", file=sys.stderr)
            sys.exit(255)
        with known_hosts.open("a") as file:
            print(shown, file=file)
if "says" in host:
    print(host["says"], file=sys.stderr)
    sys.exit(host.get("status", 255))
if host.get("hangs"):
    time.sleep(600)
if "greeting" in host:
    print(host["greeting"], flush=True)
line = " ".join(sys.argv[at + 2 :]).replace({place!r}, host["root"] + {place!r})
os.execve("/bin/sh", ["sh", "-c", line], {{**os.environ, "GPUPROV_FAKE_ROOT": host["root"]}})
"""


class FakeSsh:
    """The stand-in, and the hosts that it reaches."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._hosts: dict[str, dict[str, Any]] = {}
        for name, text in (
            ("bin/ssh", _PROGRAM.format(python=sys.executable, folder=str(folder), place=PLACE)),
            # The hosts' Python: a user's may be a slow script that chooses among many
            ("python/python3", f'#!/bin/sh\nexec {shlex.quote(os.path.realpath(sys.executable))} "$@"\n'),
        ):
            program = folder / name
            program.parent.mkdir(parents=True)
            program.write_text(text)
            program.chmod(program.stat().st_mode | stat.S_IXUSR)
        self._write()

    def root_of(self, address: str) -> Path:
        """The folder that stands for the root of a host."""
        return self.folder / "roots" / address

    def reach(self, address: str, *, member: str = "") -> Path:
        """Let a host answer; `member` is a shell command that stands for its gpuprov."""
        root = self.root_of(address)
        root.mkdir(parents=True, exist_ok=True)
        self._hosts[address] = {"root": str(root)}
        self._write()
        if member:
            program = root / "opt/gpuprov/current/bin/gpuprov"
            program.parent.mkdir(parents=True, exist_ok=True)
            program.write_text(f"#!/bin/sh\n{member}\n")
            program.chmod(0o755)
        return root

    def fail(self, address: str, says: str, *, status: int = 255) -> None:
        """Let ssh fail with these words."""
        self._hosts[address] = {"says": says, "status": status}
        self._write()

    def show_key(self, address: str, key: str) -> None:
        """Give a host a host key, which the stand-in treats as ssh does."""
        self._hosts[address]["key"] = key
        self._write()

    def greet(self, address: str, words: str) -> None:
        """Let each login print something."""
        self._hosts[address]["greeting"] = words
        self._write()

    def hang(self, address: str) -> None:
        """Let ssh get no answer."""
        self._hosts[address] = {"hangs": True}
        self._write()

    def calls(self) -> list[list[str]]:
        """The arguments of each call so far."""
        recorded = self.folder / "calls"
        return [json.loads(line) for line in recorded.read_text().splitlines()] if recorded.exists() else []

    def _write(self) -> None:
        (self.folder / "hosts.json").write_text(json.dumps(self._hosts))


def install_ssh(folder: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSsh:
    """Put it first in PATH, then the hosts' Python; and this user's places below the folder."""
    ssh = FakeSsh(folder / "ssh")
    monkeypatch.setenv("PATH", f"{ssh.folder / 'bin'}:{ssh.folder / 'python'}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
    return ssh


def scripted_member(*steps: str) -> str:
    """The command of a program that says hello and then does these steps of Python, with `say` and `hear`."""
    controller = f"""
import json, sys, time
sys.path.insert(0, {str(ROOT)!r})
from gpuprov import __version__
from gpuprov.link.lines import PROTOCOL
def say(kind, **content):
    print(json.dumps({{"kind": kind, **content}}), flush=True)
def hear():
    return json.loads(sys.stdin.readline())
say("hello", protocol=PROTOCOL, version=__version__, host="there")
"""
    return f"exec {shlex.quote(sys.executable)} -c {shlex.quote(controller + chr(10).join(steps))}"
