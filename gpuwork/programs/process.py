"""A process that runs a program's code, seen from outside: what it is asked, how long it may take, how it ended."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from gpuprov.shapes.base import Shape, read
from gpuwork.errors import WorkError
from gpuwork.memory_kills import KILLED, MemoryKills, ran_out
from gpuwork.program import program_argv
from gpuwork.programs.wire import receive, send

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from gpuwork.programs.config import ProgramConfig
    from gpuwork.programs.wire import Message

Told = TypeVar("Told", bound=Shape)
START_S: Final = 60.0
ASK_S: Final = 600.0
_END_S: Final = 5.0
_KILLED: Final = (signal.SIGKILL, signal.SIGTERM)  # from outside, or for want of memory


class ProgramError(WorkError):
    """A program's own code failed."""


class ProgramKilled(WorkError):
    """Somebody, or the kernel for want of memory, ended the process; nothing is said about the program."""


class ProgramProcess:
    """Runs a program's code.

    Args:
        code: The folder of the program.
        config: What its `config.yaml` says.
        log: The file to which what it prints is added.
        env: All of its environment.
    """

    def __init__(self, code: Path, config: ProgramConfig, *, log: Path, env: Mapping[str, str] = os.environ) -> None:
        self._log = log
        self._name = config.name
        self._kills = MemoryKills()
        to_it, self._outgoing = os.pipe()
        self._incoming, from_it = os.pipe()
        argv = program_argv(
            *("gpuwork.programs.inside", str(code), config.python, config.runner or "", f"{to_it},{from_it}"),
            str(os.getpid()),
        )
        try:
            with log.open("ab") as output:
                self._process = subprocess.Popen(  # noqa: S603  (of this package)
                    argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output, pass_fds=(to_it, from_it),
                    cwd=code, env={**env, "PYTHONDONTWRITEBYTECODE": "1"},
                )  # fmt: skip
        finally:
            os.close(to_it)
            os.close(from_it)
        try:
            self._answer("import its module", START_S)
        except BaseException:
            self.end()
            raise

    def ask(
        self, verb: str, *given: bytes | bytearray, limit_s: float = ASK_S, what: str | None = None, **head: Any  # noqa: ANN401
    ) -> Message:  # fmt: skip
        """What it answers.

        Args:
            verb: Of `inside.Program`.
            given: Pieces of bytes.
            limit_s: How long it may take.
            what: What it does, for people.
            head: What else it is told.

        Raises:
            ProgramError: The program failed, crashed, or took too long; the process has ended but for the first.
            ProgramKilled: The process was ended from outside.
        """
        with suppress(BrokenPipeError):  # how it ended is told below
            send(self._outgoing, {"verb": verb, **head}, given)
        return self._answer(what or verb.replace("_", " "), limit_s)

    def learn(
        self,
        kind: type[Told],
        verb: str,
        *given: bytes | bytearray,
        **asked: Any,  # noqa: ANN401
    ) -> tuple[Told, list[bytearray]]:
        """What it answers to `ask`, where that is more than pieces of bytes.

        Args:
            kind: What it is to be.
            verb: As for `ask`, and so is the rest.
            given: Pieces of bytes.
            asked: The rest.
        """
        said, pieces = self.ask(verb, *given, **asked)
        try:
            return read(kind, said), pieces
        except ValueError as error:
            raise self._failed("gave an odd answer", f"{verb}: {error}") from error

    def _answer(self, what: str, limit_s: float) -> Message:
        try:
            message = receive(self._incoming, ready=partial(_wait_readable, until=time.monotonic() + limit_s))
        except TimeoutError:
            self._process.kill()
            self._process.wait()
            raise self._failed(f"did not {what} within {limit_s:g} s", "the process was ended") from None
        except ValueError:
            message = None
        if message is None:
            raise self._ended(what)
        if "failed" in message[0]:
            raise self._failed(f"failed to {what}", str(message[0]["failed"]))
        return message

    def _ended(self, what: str) -> WorkError:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_S)
        status = self._process.poll()
        if status is None:
            self._process.kill()
            return self._failed(f"stopped responding when it had to {what}", "it closed the file by which it answers")
        if status >= 0:
            return self._failed(f"ended when it had to {what}", f"exit status {status}")
        number = signal.Signals(-status)
        evidence = f"{number.name}: {signal.strsignal(number)}"
        if number in _KILLED:
            evidence = self._kills.explain(KILLED, evidence) if number == signal.SIGKILL else evidence
            if ran_out(evidence):
                return self._failed(f"was killed when it had to {what}", evidence)
            return ProgramKilled(
                f"the process of program {self._name} was killed when it had to {what}",
                evidence=evidence, fix=f"dmesg | tail; tail {self._log}",
            )  # fmt: skip
        return self._failed(f"crashed when it had to {what}", evidence)

    def _failed(self, how: str, evidence: str) -> ProgramError:
        return ProgramError(f"program {self._name} {how}", evidence=evidence, fix=f"tail {self._log}")

    def end(self) -> None:
        """End it."""
        with suppress(OSError):
            os.close(self._outgoing)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_S)
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        with suppress(OSError):
            os.close(self._incoming)

    def __enter__(self) -> ProgramProcess:  # noqa: PYI034 - Self needs Python 3.11
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


def _wait_readable(handle: int, *, until: float) -> None:
    if not select.select([handle], [], [], max(0.0, until - time.monotonic()))[0]:
        raise TimeoutError
