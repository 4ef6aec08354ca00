"""What is handed in: a command or a function, and how often and with what it is to run."""

from __future__ import annotations

import math
import posixpath
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Final

from msgspec import UNSET, Meta, UnsetType, field

from gpuprov.shapes.base import Record
from gpuprov.shapes.limits import (
    DEEPEST,
    FREE_NAME,
    LEAST_BYTES,
    LONGEST_S,
    MOST_BYTES,
    MOST_RUNS,
    MOST_SHARDS,
    MOST_WORDS,
)
from gpuprov.shapes.words import PYTHON_NAME, PartitionName, Path

_VARIABLE: Final = re.compile(r"[A-Za-z_]\w*=")
_INTERPRETER: Final = re.compile(r"python[0-9.]*|pypy[0-9.]*|(?:ba|da|z|k)?sh")
_CODE: Final = re.compile(r"-[A-Za-z]*c|-")
_WITH_VALUE: Final = ("-W", "-X")
NUMBER = "{n}"  # is the number of the run, where there is a count
Runs = Annotated[int, Meta(ge=1, le=MOST_RUNS)]
TimeLimit = Annotated[int, Meta(ge=1, le=LONGEST_S, extra={"allowed": f"1 to {LONGEST_S:,} seconds"})]
Memory = Annotated[int, Meta(ge=LEAST_BYTES, le=MOST_BYTES, extra={"allowed": "1 MiB to 1 PiB"})]
Project = Annotated[Path, Meta(extra={"allowed": "the absolute path of a folder"})]
Name = Annotated[
    str,
    Meta(
        pattern=rf"^{FREE_NAME}\Z",
        extra={"allowed": "letters, digits, . _ and -, 64 at most"},
    ),
]
Function = Annotated[
    str,
    Meta(
        pattern=rf"^{PYTHON_NAME}(\.{PYTHON_NAME}){{0,15}}:{PYTHON_NAME}\Z",
        max_length=1000,
        extra={"allowed": "MODULE:FUNCTION, such as app.tasks:train"},
    ),
]
Command = Annotated[
    tuple[str, ...],
    Meta(max_length=MOST_WORDS, extra={"allowed": 'a list of words, such as ["python3", "train.py"]'}),
]
After = Annotated[
    tuple[Annotated[str, Meta(pattern=r"^[1-9][0-9]{0,8}\Z")], ...],
    Meta(min_length=1, max_length=100, extra={"allowed": "ids of submissions, such as 7, 100 at most"}),
]
Notify = Annotated[
    str,
    Meta(
        pattern=r"^[^\x00-\x1f\x7f-\x9f]{1,1000}\Z",
        extra={"allowed": "a URL that begins with http:// or https://, or a command; 1,000 characters at most"},
    ),
]
GpuType = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z",
        extra={"allowed": "1 to 64 of A-Z, a-z, 0-9, ., _ and -, such as h100"},
    ),
]
Arguments = Annotated[
    Mapping[str, Any], Meta(max_length=MOST_WORDS, extra={"allowed": 'an object, such as {"units": 128}'})
]


class JobOrder(Record, frozen=True, kw_only=True, tag="gpuprov.job-order/v1"):
    """What is to be run: a command or a function of a project; stdin of `python3 -m gpuwork.jobs submit`.

    Attributes:
        command: Its words; with a count, `{n}` in them is the number of the run, from 0. Empty for a function.
        function: `MODULE:FUNCTION` of the project.
        arguments: Of the function, by name; `{n}` as in a command, and a number where it is all of a value.
        project: Absolute path of the folder whose files are frozen; null for a command that needs none.
        name: As the user calls it.
        count: How many runs; null for one without a number.
        at_most: How many of them at once.
        time_limit_s: After which a try is ended.
        memory_bytes: Asked of Slurm for a run.
        gpus: For a run.
        retries: How many more tries a run that fails gets.
        after: Ids of submissions of which all runs have to be done before these begin.
        notify: The URL of a webhook or a command, called once when all runs have ended.
        partition: Slurm's, of which the run gets a node.
        qos: Slurm's, whose limits hold for the run.
        shards: Shares of one GPU that Slurm counts for a run, instead of GPUs.
        gpu_type: Slurm's name of the model that the GPUs have.
    """

    may_omit: ClassVar[bool] = True
    command: Command = ()
    function: Function | None = None
    arguments: Arguments = field(default_factory=dict)
    project: Project | None = None
    name: Name | None = None
    count: Runs | None = None
    at_most: Runs | None = None
    time_limit_s: TimeLimit | None = None
    memory_bytes: Memory | None = None
    gpus: Annotated[int, Meta(ge=0, le=64)] = 1
    retries: Annotated[int, Meta(ge=0, le=100)] = 0
    after: After | UnsetType = UNSET
    notify: Notify | UnsetType = UNSET
    partition: PartitionName | UnsetType = UNSET
    qos: PartitionName | UnsetType = UNSET
    shards: Annotated[int, Meta(ge=1, le=MOST_SHARDS)] | UnsetType = UNSET
    gpu_type: GpuType | UnsetType = UNSET

    def __post_init__(self) -> None:
        """Refuse arguments that could not be written again."""
        if not all(map(is_plain, self.arguments.values())):
            raise ValueError(f"arguments are nested more than {DEEPEST} deep")

    @property
    def runs(self) -> int:
        """How many runs it has."""
        return self.count or 1

    @property
    def title(self) -> str:
        """What its jobs are called: the function, the script, the module or the command."""
        return self.name or re.sub(r"[^A-Za-z0-9._:-]", "_", self.function or name_of_command(self.command))[:64]

    @property
    def has_gpu(self) -> bool:
        """Whether a run has a GPU, or a share of one."""
        return bool(self.gpus) or self.shards is not UNSET

    @property
    def numbered(self) -> bool:
        """Whether the number of the run is asked for anywhere."""
        return any(NUMBER in text for text in (*self.command, *self.arguments.values()) if isinstance(text, str))

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


def name_of_command(command: Sequence[str]) -> str:
    """What people call a command: what an interpreter runs, or else the program."""
    words = list(command)
    while words[1:] and (posixpath.basename(words[0]) == "env" or _VARIABLE.match(words[0])):
        words.pop(0)
    program = posixpath.basename(words[0])
    if not _INTERPRETER.fullmatch(program):
        return program
    rest = iter(words[1:])
    for word in rest:
        if word == "-m":
            return next(rest, program)
        if word in _WITH_VALUE:
            next(rest, None)
        elif _CODE.fullmatch(word):
            break
        elif not word.startswith("-"):
            return posixpath.basename(word) or program
    return program


def is_plain(value: object, depth: int = 0) -> bool:
    """Whether JSON can have a value, which is not nested more than `DEEPEST` deep."""
    if isinstance(value, (list, dict)):
        inner = value.values() if isinstance(value, dict) else value
        return depth < DEEPEST and all(is_plain(item, depth + 1) for item in inner)
    return math.isfinite(value) if isinstance(value, float) else isinstance(value, (str, int, type(None)))
