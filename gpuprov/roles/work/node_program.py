"""A program of `gpuwork` in a node that takes jobs, asked through the engine.

The node may be hostile: each question has a time limit, each answer a size limit (Driver.run) and a strict parser.
"""

from __future__ import annotations

import platform
import secrets
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from gpuprov.core.errors import EngineError, GpuprovError, HostNotReady, ProgramFailed, TimedOut, UsageError
from gpuprov.core.excerpt import LINE, excerpt, last_words
from gpuprov.core.exhaustion import NO_PROCESS, used_up_processes
from gpuprov.core.names import name_cluster
from gpuprov.core.silence_limit import scaled_limit_s
from gpuprov.machine.submitter import get_submitter
from gpuprov.roles.work.work_place import PROJECTS, require_program
from gpuprov.shapes.base import changed, encode, parse_json, read
from gpuprov.shapes.error import Error
from gpuprov.shapes.submitter import VARIABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from typing_extensions import Self

    from gpuprov.drivers.base import Driver, ExecResult
    from gpuprov.shapes.error import ErrorParts
    from gpuprov.shapes.submitter import Submitter

    Answer = TypeVar("Answer")

ANSWER_S: Final = 90.0
_TIDY_S: Final = 60.0
_KINDS: Final[dict[int, type[GpuprovError]]] = {1: ProgramFailed, 2: UsageError, 3: HostNotReady, 4: EngineError}
_TIMED_OUT: Final = 6
# A copy that a killed run has left goes with the next one; `-cmin`, as its other times are those of the project
_TIDY: Final = f"rm -rf -- \"$1\"; find /opt -maxdepth 1 -path '{PROJECTS}*' -cmin +1440 -exec rm -rf -- {{}} +"
# How long the removal takes is not held against the program, which has answered
_TAKE: Final = '(shift 3; exec "$@"); status=$?; timeout -s KILL "$2" sh -c "$3" sh "$1" >&2; exit $status'


def parse_answer(text: str) -> dict[str, Any] | Error:
    """What a program in a node says; raises ValueError where that is neither an object nor an error of its own."""
    told = parse_json(text)
    if not isinstance(told, dict) or type(told.get("version")) is not int or told["version"] != 1:
        raise ValueError("it is not a document of version 1")
    return read(Error, told) if told.get("schema") == "gpuprov.error/v1" else told


class NotEnded(TimedOut):
    """Jobs had not ended when the time was over that the program was given."""


@dataclass(frozen=True, kw_only=True)
class NodeProgram:
    """A program in a node that takes jobs for its cluster.

    Attributes:
        driver: Reaches the node.
        node: Its name.
        cluster: Name of the cluster.
        work: What the program is for, in a word.
        person: For whom the user acts; empty for nobody.
        shares_account: Whether what it does for people runs as the account of all jobs.
    """

    driver: Driver
    node: str
    cluster: str
    work: ClassVar[str]
    person: str = ""
    shares_account: bool = False

    @classmethod
    def beside(cls, other: NodeProgram, **more: Any) -> Self:  # noqa: ANN401 - fields of its own
        """In the same node, for the same person; `more` are fields that this program has besides."""
        return cls(
            driver=other.driver,
            node=other.node,
            cluster=other.cluster,
            person=other.person,
            shares_account=other.shares_account,
            **more,
        )

    @property
    def runs_as(self) -> str:
        """The person as whom it runs; empty for the account of jobs."""
        return "" if self.shares_account else self.person

    def argv(self, *arguments: str) -> list[str]:
        """The command by which the node's root runs it."""
        raise NotImplementedError

    def translated(self, fix: str) -> str | None:
        """What to type on this host for a command of the program's; None where that is nothing."""
        raise NotImplementedError

    @contextmanager
    def holding(self, project: Iterable[bytes]) -> Iterator[str]:
        """Have a project in the node for the block, as root's, readable for all; gives its path there.

        The last question of the block takes it (`ask`): then it is gone. So it is where the block fails.

        Args:
            project: A tar, as `Driver.write_tree` takes it.

        Raises:
            EngineError: The node cannot hold it.
        """
        place = f"{PROJECTS}{secrets.token_hex(8)}"
        try:
            self.driver.write_tree(self.node, place, project)
            yield place
        except BaseException:
            with suppress(GpuprovError):
                self.driver.run(self.node, ["sh", "-c", _TIDY, "sh", place], cwd="/", timeout_s=_TIDY_S)
            raise

    def ask(
        self,
        reader: Callable[[dict[str, Any]], Answer],
        *arguments: str,
        stdin: bytes = b"",
        limit_s: float | None = None,
        takes: Iterable[str] = (),
    ) -> Answer:
        """What the program answers.

        Args:
            reader: Reads it.
            arguments: Of the program.
            stdin: What it reads.
            limit_s: How long it may take, without the removal of what it takes.
            takes: Projects that the node removes once the program has ended: one question is one round trip.

        Raises:
            GpuprovError: It complains, or what it says is no answer.
        """
        timeout_s = scaled_limit_s(ANSWER_S) if limit_s is None else limit_s
        argv = self.argv(*arguments)
        for place in takes:
            argv = ["sh", "-c", _TAKE, "sh", place, f"{_TIDY_S:g}", _TIDY, *argv]
            timeout_s += _TIDY_S
        caller = {VARIABLE: encode(self._submitter()).decode()} if stdin else {}
        result = self.driver.run(self.node, argv, environment=caller, cwd="/", timeout_s=timeout_s, stdin=stdin)
        if not result.stdout.strip():
            require_program(result.stderr, self.node, self.cluster)
        try:
            told = parse_answer(result.stdout)
            if not isinstance(told, Error):
                return reader(told)
        except ValueError as error:
            if NO_PROCESS.search(result.stderr):
                raise used_up_processes(self.node, excerpt(result.stderr[-LINE:].strip())) from error
            raise self._unreadable(arguments[0], result, str(error)) from error
        raise self.as_error(told.error)

    def _submitter(self) -> Submitter:
        """Who calls, and for whom."""
        caller = get_submitter(platform.node())
        return changed(caller, person=self.person) if self.person else caller

    def as_error(self, complaint: ErrorParts) -> GpuprovError:
        """An error of the program's as one of this host's."""
        kind = NotEnded if complaint.exit_code == _TIMED_OUT else _KINDS.get(complaint.exit_code, EngineError)
        return kind(
            excerpt(complaint.what),
            evidence=last_words(complaint.evidence, most=40) if complaint.evidence else "",
            fix=self._as_fix(complaint.fix),
        )

    def _as_fix(self, fix: str) -> str:
        """What to type on this host; what is to be typed in the node is shown as a node's words."""
        ours = self.translated(fix)
        if ours is None:
            return f"gpuprov shell {self.node}, and there: {excerpt(fix, LINE)}"
        return name_cluster(ours, self.cluster)

    def _unreadable(self, verb: str, result: ExecResult, why: str) -> EngineError:
        said = (result.stderr or result.stdout)[-LINE:].strip() or f"exit status {result.exit_code}"
        return EngineError(
            f"the program for {self.work} in {self.node} gave an unexpected answer (`{verb}`)",
            evidence=f"{excerpt(why)}: {excerpt(said)}",
            fix=f"look into the node: gpuprov shell {self.node}",
        )
