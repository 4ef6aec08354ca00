"""The lock of this host, tried by users of every kind: who may hold it, who may not, and who comes first."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest

from gpuprov.core.group_files import LOCK_FOLDER, LOCK_NAME, Gates
from gpuprov.core.queue import Queue
from gpuprov.drivers.sockets import engine_groups
from tests.e2e.test_races import READ_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.e2e.conftest import Gpuprov

NOBODY = 65534
ROOT = Path(__file__).parents[2]
TAKES_IT = ("image", "rm", "gpte2e-nothing", "--engine", "lxd")
HOLD = """
import sys, time
from gpuprov.core.errors import GpuprovError
from gpuprov.core.reporter import Silent
from gpuprov.machine.local import LocalHost
sys.argv = ["gpuprov", "\\x1b[2J\\nerror: all is lost"]
try:
    with LocalHost().lock(Silent()):
        print("held", flush=True)
        time.sleep(600)
except GpuprovError as error:
    sys.exit(f"error: {error}")
"""
SEIZE = """
import fcntl, os, sys
for place, folders, files in os.walk(sys.argv[1]):
    print("saw", place)
    for name in files:
        with open(os.path.join(place, name)) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    for path in (os.path.join(place, "new"), *(os.path.join(place, folder, "lock") for folder in folders)):
        for flags in (os.O_RDONLY, os.O_RDWR | os.O_CREAT, os.O_PATH):
            try:
                os.open(path, flags)
                print("opened", path)
            except OSError:
                pass
"""


@pytest.fixture(scope="module")
def code() -> Iterator[Path]:
    """The package where every user may read it. What takes the lock needs no other."""
    with TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        shutil.copytree(ROOT / "gpuprov", Path(name, "gpuprov"))
        subprocess.run(["chmod", "-R", "a+rX", name], check=True)
        yield Path(name)


@pytest.fixture
def as_nobody(code: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start a program of Python's as a user without a name in some groups."""
    started: list[subprocess.Popen[str]] = []

    def start(program: str, *argv: str, group: int = NOBODY) -> subprocess.Popen[str]:
        who = ("setpriv", f"--reuid={NOBODY}", f"--regid={group}", "--clear-groups")
        process = subprocess.Popen(
            [*who, "/usr/bin/python3", "-c", program, *argv],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd="/",
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(code)},
        )
        started.append(process)
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture(autouse=True)
def made_by_root(gpuprov: Gpuprov) -> None:
    gpuprov(*TAKES_IT)


def test_who_is_in_no_engines_group_is_told_so_at_once(
    gpuprov: Gpuprov, as_nobody: Callable[..., subprocess.Popen[str]]
) -> None:
    stranger = as_nobody(HOLD)
    out, said = stranger.communicate(timeout=READ_S)
    assert (stranger.returncode, out) == (1, "")
    assert "error: this user may not change this host\nevidence: only root and members of " in said
    assert "\nfix: sudo usermod -aG " in said
    out, _ = as_nobody(SEIZE, str(LOCK_FOLDER)).communicate(timeout=READ_S)
    assert f"saw {LOCK_FOLDER}\n" in out
    assert "opened" not in out
    gpuprov(*TAKES_IT)


@pytest.mark.parametrize("group", sorted(engine_groups()))
def test_a_member_of_any_engines_group_holds_the_one_lock(
    gpuprov: Gpuprov, as_nobody: Callable[..., subprocess.Popen[str]], group: int
) -> None:
    member = as_nobody(HOLD, group=group)
    assert member.stdout
    assert member.stdout.readline() == "held\n"
    with gpuprov.start(*TAKES_IT) as waiting:
        assert waiting.stderr
        said = next(line for line in waiting.stderr if "waiting" in line)
        assert f"waiting for process {member.pid} of " in said
        assert r"gpuprov \x1b[2J\nerror: all is lost, since " in said
        stranger = as_nobody(HOLD)
        stranger.communicate(timeout=READ_S)
        assert stranger.returncode == 1, "it is told so instead of waiting"
        member.kill()
        waiting.communicate(timeout=READ_S)
        assert waiting.returncode == 0
    assert Queue(Gates(), LOCK_NAME).waiting() == ()
