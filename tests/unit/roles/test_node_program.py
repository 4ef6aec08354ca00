"""A project that was copied into a node for a program: the node removes it once the program has ended."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import pytest

from gpuprov.core.errors import EngineError, UsageError
from gpuprov.drivers.base import ExecResult
from gpuprov.roles.work import node_program
from gpuprov.roles.work.job_controller import JobController
from gpuprov.roles.work.node_program import NodeProgram
from gpuprov.shapes.base import changed
from gpuprov.shapes.error import ErrorParts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from gpuprov.drivers.base import Driver

COMPLAINT = (
    '{"schema": "gpuprov.error/v1", "version": 1, '
    '"error": {"what": "no room", "evidence": "", "fix": "", "exit_code": 4}}'
)


class Program(NodeProgram):
    work = "tests"

    def argv(self, *arguments: str) -> list[str]:
        return ["sh", "-c", *arguments]

    def translated(self, fix: str) -> str | None:
        return fix


@dataclass
class ThisMachine:
    """Runs here what a node is to run."""

    place: str = ""
    ran: list[Sequence[str]] = field(default_factory=list)
    limits: list[float] = field(default_factory=list)

    def write_tree(self, _node: str, place: str, _tar: Iterable[bytes]) -> None:
        self.place = place

    def run(
        self,
        _node: str,
        argv: Sequence[str],
        *,
        cwd: str,
        timeout_s: float,
        environment: object = None,
        stdin: bytes = b"",
    ) -> ExecResult:
        assert not environment or stdin, "who calls is told where something is handed in"
        self.ran.append(argv)
        self.limits.append(timeout_s)
        done = subprocess.run(list(argv), cwd=cwd, timeout=timeout_s, input=stdin, capture_output=True, check=False)
        return ExecResult(exit_code=done.returncode, stdout=done.stdout.decode(), stderr=done.stderr.decode())


@pytest.fixture
def machine() -> ThisMachine:
    return ThisMachine()


@pytest.fixture
def program(machine: ThisMachine) -> Program:
    return Program(driver=cast("Driver", machine), node="c000", cluster="lab")


def read(told: dict[str, Any]) -> object:
    return told["input"]


def test_projects_are_there_for_the_program_and_gone_after_it(
    program: Program, machine: ThisMachine, tmp_path: Path
) -> None:
    places = [tmp_path / name for name in ("a b", "c")]
    for place in places:
        place.mkdir()
    line = 'test -d "$0" && test -d "$1" && printf \'{"schema": "x", "version": 1, "input": "%s"}\' "$(cat)"; exit 3'
    given = map(str, places)
    assert program.ask(read, line, *given, stdin=b"words", takes=map(str, places)) == "words"
    assert len(machine.ran) == 1
    assert not any(place.exists() for place in places)


def test_a_node_that_can_start_nothing_is_told_as_such(program: Program) -> None:
    with pytest.raises(EngineError, match="c000 has used up its processes") as raised:
        program.ask(read, "echo 'sh: 0: Cannot fork' >&2; exit 2")
    assert raised.value.fix.startswith("gpuprov stop c000 --force")


def test_a_removal_that_hangs_takes_neither_the_answer_nor_the_time_of_the_program(
    program: Program, machine: ThisMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging = tmp_path / "rm"
    hanging.write_text("#!/bin/sh\nexec sleep 20\n")
    hanging.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(node_program, "_TIDY_S", 0.1)
    line = 'printf \'{"schema": "x", "version": 1, "input": "words"}\''
    assert program.ask(read, line, limit_s=2.0, takes=["/opt/none", "/opt/neither"]) == "words"
    assert machine.limits == [pytest.approx(2.2)]


def test_what_a_block_holds_is_asked_away_only_where_the_block_fails(program: Program, machine: ThisMachine) -> None:
    with program.holding([]) as place:
        assert place == machine.place
    assert machine.ran == []
    with pytest.raises(EngineError, match="no room"), program.holding([]) as place:
        program.ask(read, f"echo '{COMPLAINT}'", takes=[place])
    assert [argv[4] for argv in machine.ran] == [place, place], "after the program, and once more after the complaint"


def test_options_that_the_program_for_jobs_suggests_are_those_of_submit() -> None:
    driver: Driver = object()  # type: ignore[assignment]
    controller = JobController(driver=driver, node="c000", cluster="lab")
    parts = ErrorParts(what="refused", evidence="", fix="--qos NAME, one of these: long\x1b[2J", exit_code=2)
    error = controller.as_error(parts)
    assert isinstance(error, UsageError)
    assert error.fix.startswith("--qos NAME, one of these: long")
    assert "\x1b" not in error.fix
    assert controller.as_error(changed(parts, fix="squeue")).fix == "gpuprov shell c000, and there: squeue"


def test_who_is_in_the_spec_gets_to_the_accounting_from_there() -> None:
    driver: Driver = object()  # type: ignore[assignment]
    controller = JobController(driver=driver, node="c000", cluster="lab", people=("ann",), person="ann")
    add = "sacctmgr -i add account people; sacctmgr -i add user {} account=people"
    parts = ErrorParts(what="refused", evidence="", fix=add.format("ann"), exit_code=2)
    assert controller.as_error(parts).fix == "gpuprov cluster up"
    other = add.format("dora")
    assert controller.as_error(changed(parts, fix=other)).fix == f"gpuprov shell c000, and there: {other}"
