"""Root in the controller's node answers for Slurm what it likes: verbs end soon, show little, and end no job unsaid."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import pytest

from gpuprov.cli.main import main
from gpuprov.core.errors import EngineError, TimedOut
from gpuprov.drivers.base import ExecResult
from gpuprov.roles.slurm import daemons
from tests.fakes.slurm import FakeJob, said
from tests.own_time import own_time
from tests.unit.cli.test_hostile_words import FORGED, HOSTILE, is_harmless, own_lines
from tests.unit.roles.test_slurm_words import line

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fakes.engine import Command
    from tests.unit.cli.conftest import Typed

pytestmark = pytest.mark.slow

MOST = 15_000  # characters that a verb shows
LIMIT_S = 5.0
MANY = 12_000  # more jobs than are looked at
ENDING = (["stop", "c002"], ["rm", "c002"], ["cluster", "down", "--yes"])
LOOKING = (["cluster", "status"], ["cluster", "plan"], ["cluster", "up", "--no-verify"], ["start", "c002"])


def hang(_command: Command) -> ExecResult:
    raise TimedOut(f"it did not finish {HOSTILE}", evidence=FORGED, fix="gpuprov shell c000")


def flood(_command: Command) -> ExecResult:
    raise EngineError("it printed more than 16000000 bytes", evidence=repr(HOSTILE * 20), fix="gpuprov shell c000")


def fail(_command: Command) -> ExecResult:
    return ExecResult(exit_code=9, stdout=HOSTILE * 1000, stderr=f"{FORGED}\n" * 1000)


def telling(text: Callable[[], str]) -> Callable[[Command], ExecResult]:
    """The text is long, and made only where it is said."""
    once = cache(text)
    return lambda _command: said(once())


def jobs(most: int, state: str = "R", *, nodes: str = "?") -> str:
    return "\n".join(line(str(number), state, nodes=nodes) for number in range(most))


SINFO: dict[str, Callable[[], str]] = {
    "a state without end": lambda: f"c002 {'x' * 1_000_000} 1 root none",
    "a user and a reason without end": lambda: f"c002 drained 1 {'u' * 1_000_000} {'r' * 1_000_000}",
    "a version without end": lambda: f"c002 idle {'9' * 1_000_000} root none",
    "escape codes": lambda: f"c002 {HOSTILE.replace(' ', '')} 1 {HOSTILE.replace(' ', '')} {HOSTILE}\n{FORGED}",
    "nodes without end": lambda: "\n".join(f"n{number} idle 1 root none" for number in range(MANY)),
    "spaces without end": lambda: " " * 1_000_000,
    "nothing": str,
}
SQUEUE: dict[str, Callable[[], str]] = {
    "jobs without end": lambda: jobs(MANY),
    "jobs without end that end": lambda: jobs(MANY, "CG"),
    "nodes without end": lambda: jobs(MANY, nodes="x[0001-1024]"),
    "escape codes": lambda: "\n".join(line(str(number), nodes="?", name=HOSTILE) for number in range(9)) + FORGED,
    "a line without end": lambda: "7" * 1_000_000,
}
ANSWERS = {
    **{
        f"{program}: {answer.__name__}s": (program, answer)
        for program in ("sinfo", "squeue", "scontrol")
        for answer in (hang, flood, fail)
    },
    **{f"sinfo: {name}": ("sinfo", telling(text)) for name, text in SINFO.items()},
    **{f"squeue: {name}": ("squeue", telling(text)) for name, text in SQUEUE.items()},
}


@pytest.fixture(params=ANSWERS)
def hostile(request: pytest.FixtureRequest, typed: Typed, monkeypatch: pytest.MonkeyPatch) -> Typed:
    """Three nodes, a job on the last one, and a controller one of whose programs is root's."""
    monkeypatch.setattr(daemons, "_READY_BUDGET_S", 0.05)
    monkeypatch.setattr("gpuprov.lifecycle.leaving.SETTLE_S", 0.05)
    world = typed.world
    world.begin_with(3)
    program, answer = ANSWERS[request.param]

    def answering(command: Command) -> ExecResult:
        asked = command.argv[0] == program or (command.argv[0] == "sh" and program in command.argv[2])
        return answer(command) if asked and command.node.name == "c000" else world.slurm(command)

    world.engine.answer = answering
    return typed


def say(hostile: Typed, argv: list[str], capsys: pytest.CaptureFixture[str]) -> int:
    """Type a verb; its exit code."""
    capsys.readouterr()
    with own_time(LIMIT_S):
        code = main(argv, host=hostile.world.host)
    shown = "".join(capsys.readouterr())
    assert code in range(7)
    assert len(shown) < MOST
    assert is_harmless(shown)
    assert len(own_lines(shown, "fix:")) == (code > 1)
    assert "forged" not in "".join(own_lines(shown, "error:"))
    return code


def test_every_verb_ends_soon_and_shows_little(hostile: Typed, capsys: pytest.CaptureFixture[str]) -> None:
    for argv in (*LOOKING, *ENDING):
        say(hostile, argv, capsys)


@pytest.mark.parametrize("argv", ENDING, ids=" ".join)
def test_force_goes_on_whatever_it_answers(hostile: Typed, argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    hostile.world.slurm.queue = [FakeJob(id="17", nodes="c002")]
    say(hostile, [*argv, "--force"], capsys)
    node = hostile.world.engine.nodes.get("c002")
    assert node is None or node.status == "stopped"
