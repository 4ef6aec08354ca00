"""What is handed in: a command or a function, and how often and with what it is to run."""

from __future__ import annotations

import math
import posixpath
import re
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

from gpuwork.errors import Fault
from gpuwork.strict import exactly, is_text, matching, optional, parse_strict_json, whole
from gpuwork.units import MIB

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

SCHEMA: Final = "gpuprov.job-order/v1"
FILE: Final = "order"
NUMBER: Final = "{n}"
MOST_RUNS: Final = 10_000
MOST_WORDS: Final = 10_000
MOST_BYTES: Final = MIB
MOST_SECONDS: Final = 365 * 24 * 3600
_MOST_WORD_BYTES: Final = 128 * 1024 - 1  # the kernel's limit for one argument
_DEEPEST: Final = 8
_IDENTIFIER: Final = r"[^\W\d]\w*"
_RULES: Final[Mapping[str, tuple[Callable[[object], bool], str]]] = {
    "schema": (exactly(SCHEMA), SCHEMA),
    "version": (exactly(1), "1"),
    "name": (optional(matching(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")), "letters, digits, . _ and -, 64 at most"),
    "project": (
        optional(lambda value: is_text(value) and posixpath.isabs(cast("str", value)) and "\0" not in str(value)),
        "the absolute path of a folder",
    ),
    "function": (
        optional(matching(rf"{_IDENTIFIER}(\.{_IDENTIFIER}){{0,15}}:{_IDENTIFIER}")),
        "MODULE:FUNCTION, such as app.tasks:train",
    ),
    "count": (optional(whole(1, MOST_RUNS)), f"1 to {MOST_RUNS:,}"),
    "at_most": (optional(whole(1, MOST_RUNS)), f"1 to {MOST_RUNS:,}"),
    "time_limit_s": (optional(whole(1, MOST_SECONDS)), f"1 to {MOST_SECONDS:,} seconds"),
    "memory_bytes": (optional(whole(MIB, 1024**5)), "1 MiB to 1 PiB"),
    "gpus": (whole(0, 64), "0 to 64"),
    "retries": (whole(0, 100), "0 to 100"),
}


@dataclass(frozen=True, kw_only=True)
class RunsOrder:
    """What is to be run; it has either a command or a function.

    Attributes:
        command: Its words; with a count, `{n}` in them is the number of the run, from 0.
        function: `MODULE:FUNCTION` of the project.
        arguments: Of the function, by name; `{n}` as in a command, and a number where it is all of a value.
        project: The folder whose files are frozen; None for a command that needs none.
        name: As the user called it.
        count: How many runs; None for one without a number.
        at_most: How many at once.
        time_limit_s: After which a try is ended.
        memory_bytes: Asked of Slurm for a run.
        gpus: For a run.
        retries: How many more tries a run that fails gets.
    """

    command: tuple[str, ...] = ()
    function: str | None = None
    arguments: Mapping[str, object] = field(default_factory=dict)
    project: str | None = None
    name: str | None = None
    count: int | None = None
    at_most: int | None = None
    time_limit_s: int | None = None
    memory_bytes: int | None = None
    gpus: int = 1
    retries: int = 0

    @property
    def runs(self) -> int:
        """How many runs it has."""
        return self.count or 1

    @property
    def title(self) -> str:
        """What its jobs are called."""
        return self.name or re.sub(r"[^A-Za-z0-9._:-]", "_", self.function or posixpath.basename(self.command[0]))[:64]

    def command_of(self, number: int) -> list[str]:
        """The words of a run."""
        return [self._numbered(word, number) for word in self.command]

    def arguments_of(self, number: int) -> dict[str, object]:
        """The function's arguments in a run."""
        return {
            name: (number if value == NUMBER and self.count else self._numbered(value, number))
            if isinstance(value, str)
            else value
            for name, value in self.arguments.items()
        }

    def _numbered(self, text: str, number: int) -> str:
        return text.replace(NUMBER, str(number)) if self.count else text


def order_document(order: RunsOrder) -> dict[str, Any]:
    """The order as JSON; every key is there."""
    return {"schema": SCHEMA, "version": 1, **asdict(order), "command": list(order.command)}


def parse_order(content: bytes) -> tuple[RunsOrder | None, list[Fault]]:
    """An order and everything that is wrong with it; what is wrong has its default, so that more can be looked at."""
    if len(content) > MOST_BYTES:
        return None, [_fault("", f"has more than {MOST_BYTES:,} bytes")]
    try:
        told = parse_strict_json(content)
    except ValueError as error:
        return None, [_fault("", f"is not valid JSON: {error}")]
    if not isinstance(told, dict):
        return None, [_fault("", "is not a JSON object")]
    known = {*_RULES, "command", "arguments"}
    faults = [_fault(_shown(name), "is not known", ", ".join(sorted(known))) for name in told if name not in known]
    faults += [_fault(name, "is missing") for name in ("schema", "version") if name not in told]
    good: dict[str, Any] = {}
    for name, value in told.items():
        if name not in _RULES:
            continue
        is_right, allowed = _RULES[name]
        if is_right(value):
            good[name] = value
        else:
            faults.append(_fault(name, f"is {_shown(value)}", allowed))
    command = told.get("command") or []
    found = [*_command_faults(command), *_argument_faults(told.get("arguments", {}))]
    if not any(fault.where == "command" for fault in found):
        good["command"] = tuple(command)
    if not any(fault.where.startswith("arguments") for fault in found):
        good["arguments"] = told.get("arguments", {})
    order = RunsOrder(**{name: value for name, value in good.items() if name not in ("schema", "version")})
    return order, [*faults, *found, *_together(told, order)]


def _together(told: dict[str, object], order: RunsOrder) -> Iterator[Fault]:
    """What is wrong although each part is right."""
    if told.get("command") and told.get("function"):
        yield _fault("command", "is given beside a function", "one of them")
    if not told.get("command") and not told.get("function"):
        yield _fault("command", "is missing, and so is function", "one of them")
    if order.function and not told.get("project"):
        yield _fault("project", "is missing", "the folder that has the function")
    if order.arguments and not told.get("function"):
        yield _fault("arguments", "is given without a function")
    if order.at_most and not told.get("count"):
        yield _fault("at_most", "is given without a count")


def _command_faults(command: object) -> Iterator[Fault]:
    if not isinstance(command, list) or not all(map(is_text, command)):
        yield _fault("command", "is not a list of words", '["python3", "train.py"]')
        return
    if command and not command[0]:
        yield _fault("command", "begins with an empty word")
    if len(command) > MOST_WORDS:
        yield _fault("command", f"has {len(command):,} words", f"at most {MOST_WORDS:,}")
    if any("\0" in word for word in command):
        yield _fault("command", "has a NUL character")
    if any(len(word.encode()) > _MOST_WORD_BYTES for word in command):
        yield _fault("command", "has a word that is longer than the kernel allows", f"{_MOST_WORD_BYTES:,} bytes")


def _argument_faults(arguments: object) -> Iterator[Fault]:
    if not isinstance(arguments, dict):
        yield _fault("arguments", f"is {_shown(arguments)}", '{"units": 128}')
        return
    if len(arguments) > MOST_WORDS:
        yield _fault("arguments", f"has {len(arguments):,} names", f"at most {MOST_WORDS:,}")
    for name, value in arguments.items():
        if not matching(_IDENTIFIER)(name):
            yield _fault(f"arguments.{_shown(name)}", "is not a name of Python's")
        elif not _is_plain(value):
            yield _fault(f"arguments.{name}", f"is nested more than {_DEEPEST} deep, or no finite number or UTF-8 text")


def _is_plain(value: object, depth: int = 0) -> bool:
    if isinstance(value, list) and depth < _DEEPEST:
        return all(_is_plain(item, depth + 1) for item in value)
    if isinstance(value, dict) and depth < _DEEPEST:
        return all(is_text(key) and _is_plain(item, depth + 1) for key, item in value.items())
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, (bool, int)) or is_text(value)


def _fault(where: str, message: str, allowed: str = "") -> Fault:
    return Fault(file=FILE, where=where, message=message, allowed=allowed)


def _shown(value: object) -> str:
    """A value in a message: printable, and not long."""
    text = ascii(value)
    return text if len(text) <= 60 else f"{text[:57]}..."  # noqa: PLR2004
