"""`strike` of the tests on real engines leaves nothing that goes on by itself."""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from tests.e2e.conftest import Gpuprov
from tests.e2e.killing import Blow, strike

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path
    from typing import Any

PROGRAM = """\
import sys, time
print("plan ...", file=sys.stderr, flush=True)
time.sleep(10)  # what does not kill it waits for its end, and sees it
"""


class NoEngineToKill(Exception):
    pass


class Watched(Gpuprov):
    run: subprocess.Popen[str]

    def start(self, *argv: str, **how: Any) -> subprocess.Popen[str]:
        self.run = super().start(*argv, **how)
        return self.run


def no_engine() -> None:
    raise NoEngineToKill


def test_where_the_blow_fails_neither_the_guard_nor_the_run_is_left(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text(f"#!{sys.executable}\n{PROGRAM}")
    program.chmod(0o755)
    gpuprov = Watched(program=program, folder=tmp_path, environment=dict(os.environ))
    before = set(threading.enumerate())
    with pytest.raises(NoEngineToKill):
        strike(gpuprov, [], Blow(how="engine", step="plan ..."), on_host=no_engine)
    assert gpuprov.run.returncode == -signal.SIGKILL
    clocks = [
        thread for thread in threading.enumerate() if thread not in before and isinstance(thread, threading.Timer)
    ]
    for clock in clocks:
        clock.join(timeout=1)
    assert not any(clock.is_alive() for clock in clocks)
