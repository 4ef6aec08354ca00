from __future__ import annotations

import os
import subprocess
from typing import Any, cast

import pytest

from gpuprov.cluster.transport import LOOK_S, DriverTransport
from gpuprov.core.errors import UsageError
from gpuprov.drivers.base import ExecResult
from gpuprov.provision.transport import load_entry, owner_lives


def test_an_entry_is_the_function_it_names() -> None:
    assert load_entry("os:getpid") == os.getpid  # type: ignore[comparison-overlap]


@pytest.mark.parametrize("entry", ["", "os", "os:", ":getpid", "no_such_module:f", "os:no_such_function"])
def test_an_entry_that_names_nothing_is_refused(entry: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_entry(entry)
    assert repr(entry) in caught.value.evidence


def test_a_play_knows_whether_its_owner_lives() -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    assert owner_lives(str(os.getpid()))
    assert not owner_lives(str(ended.pid))


def test_what_processes_of_a_node_do_is_asked_within_a_limit() -> None:
    asked: list[tuple[str, list[str], float]] = []

    class Driver:
        def run(self, name: str, argv: list[str], *, timeout_s: float) -> ExecResult:
            asked.append((name, argv, timeout_s))
            return ExecResult(exit_code=2, stdout="1\n", stderr="grep: /proc/9/io: Permission denied")

    transport = DriverTransport(cast("Any", Driver()))
    assert transport.look("c000", ["sh", "-c", "x"]) == "1\n"
    assert asked == [("c000", ["sh", "-c", "x"], LOOK_S)]
