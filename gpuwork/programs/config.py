"""`config.yaml` of a program, and the files that belong to it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final, cast

from gpuprov.shapes.faults import Fault, find_faults
from gpuprov.shapes.limits import MIB
from gpuprov.shapes.program_config import ProgramFile
from gpuprov.shapes.written import Manner, read_yaml, word_as_yaml_1_1
from gpuwork.errors import shown
from gpuwork.project_files import ProjectLimits, list_files
from gpuwork.untrusted_files import read_limited

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpuprov.shapes.values import Value

CONFIG: Final = "config.yaml"
ENDINGS: Final = (".cu", ".cuh", ".h", ".hpp", ".py")
_MOST_BYTES: Final = 64 * 1024
_KINDS: Final = {"python": ".py", "header": ".h or .hpp", "cuda": ".cu", "runner": ".py"}
_LIMITS: Final = ProjectLimits(file_bytes=4 * MIB, all_bytes=16 * MIB)
_MANNER: Final = Manner(
    word=word_as_yaml_1_1, twice="is not YAML: {key} is written twice", key="is not YAML: a key is not text",
    tag="is not YAML: the tag {tag} is not allowed",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ProgramConfig:
    """What `config.yaml` says.

    Attributes:
        name: Of the program.
        version: Of the program.
        python: The module with the structures and functions, relative to the program's folder, as the following.
        header: The same structures in C.
        cuda: What is compiled.
        runner: The module that turns settings into parameters and results into what is shown; None for none.
    """

    name: str
    version: str
    python: str
    header: str
    cuda: str
    runner: str | None = None

    @property
    def sources(self) -> dict[str, str]:
        """The sources by what they are."""
        named = {"python": self.python, "header": self.header, "cuda": self.cuda, "runner": self.runner}
        return {kind: path for kind, path in named.items() if path is not None}


def read_config(folder: Path) -> tuple[ProgramConfig | None, list[str], list[Fault]]:
    """What a program's folder says of itself, the files that belong to it, and everything that is wrong with these.

    Raises:
        Refused: The folder cannot be read.
    """
    listed, faults = list_files(folder, limits=_LIMITS)
    files = [name for name in listed if name == CONFIG or name.endswith(ENDINGS)]
    faults = [fault for fault in faults if fault.file in files]
    if CONFIG not in files:
        message = "is missing" if not (folder / CONFIG).exists() else "is ignored by git"
        return None, files, [*faults, Fault(file=CONFIG, message=message, allowed="info and sources of the program")]
    content = read_limited(folder / CONFIG, limit=_MOST_BYTES)
    root, found = _parse(content)
    if found or root is None:
        return None, files, [*faults, *found]
    faults += find_faults(ProgramFile, root, file=CONFIG)[1]
    told = cast("dict[str, Any]", root.plain)
    info, sources = (told[key] if isinstance(told.get(key), dict) else {} for key in ("info", "sources"))
    faults += _rules(root, info, sources, files)
    if faults:
        return None, files, faults
    return ProgramConfig(name=info["name"], version=info["version"], **sources), files, []


def _parse(content: bytes | None) -> tuple[Value | None, list[Fault]]:
    if content is None:
        return None, [Fault(file=CONFIG, message="cannot be read", allowed=f"a file of {_MOST_BYTES} bytes at most")]
    told, faults = read_yaml(content, file=CONFIG, manner=_MANNER)
    if faults:
        return None, [Fault(file=CONFIG, line=faults[0].line, message=faults[0].message)]
    if told is None or not isinstance(told.content, dict):
        return None, [Fault(file=CONFIG, message="is not a mapping", allowed="info, sources")]
    return told, []


def _rules(root: Value, info: Mapping[str, Any], sources: Mapping[str, Any], files: Sequence[str]) -> Iterator[Fault]:
    """What no type can say."""

    def fault(where: str, message: str, allowed: str) -> Fault:
        return Fault(file=CONFIG, line=root.line_of(where), where=where, message=message, allowed=allowed)

    if info.get("py_c_extention") is True:
        yield fault("info.py_c_extention", "is true: only ctypes structures are supported", "false")
    for kind, ending in _KINDS.items():
        path, where = sources.get(kind), f"sources.{kind}"
        if not isinstance(path, str):
            continue
        if not path.endswith(tuple(ending.split(" or "))):
            yield fault(where, f"is {shown(path, 100)}", f"a file that ends with {ending}")
        elif path not in files:
            yield fault(where, f"is {path[:80]!r}, which does not exist", "a path within the program's folder")
        elif kind in ("python", "runner") and not PurePosixPath(path).stem.isidentifier():
            yield fault(where, f"is {path[:80]!r}, which cannot be imported", "letters, digits and _")
