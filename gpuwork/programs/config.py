"""`config.yaml` of a program, and the files that belong to it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final, cast

from gpuprov.shapes.faults import Fault
from gpuprov.shapes.limits import MIB
from gpuprov.shapes.written import Manner, read_yaml, word_as_yaml_1_1
from gpuwork.errors import shown
from gpuwork.project_files import ProjectLimits, list_files
from gpuwork.untrusted_files import read_limited

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

CONFIG: Final = "config.yaml"
ENDINGS: Final = (".cu", ".cuh", ".h", ".hpp", ".py")
_MOST_BYTES: Final = 64 * 1024
_INFO: Final = ("name", "version", "py_c_extention")
_KINDS: Final = {"python": ".py", "header": ".h or .hpp", "cuda": ".cu", "runner": ".py"}
_OPTIONAL: Final = "runner"
_LIMITS: Final = ProjectLimits(file_bytes=4 * MIB, all_bytes=16 * MIB)
_MANNER: Final = Manner(
    word=word_as_yaml_1_1, twice="is not YAML: {key} is written twice", key="is not YAML: a key is not text",
    tag="is not YAML: the tag {tag} is not allowed",
)  # fmt: skip
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


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
    told, found = _parse(content)
    if found or told is None:
        return None, files, [*faults, *found]
    faults += _faults(told, files)
    if faults:
        return None, files, faults
    info, sources = told["info"], told["sources"]
    return ProgramConfig(name=info["name"], version=info["version"], **sources), files, []


def _parse(content: bytes | None) -> tuple[dict[str, Any] | None, list[Fault]]:
    if content is None:
        return None, [Fault(file=CONFIG, message="cannot be read", allowed=f"a file of {_MOST_BYTES} bytes at most")]
    told, faults = read_yaml(content, file=CONFIG, manner=_MANNER)
    if faults:
        return None, [Fault(file=CONFIG, line=faults[0].line, message=faults[0].message)]
    if told is None or not isinstance(told.content, dict):
        return None, [Fault(file=CONFIG, message="is not a mapping", allowed="info, sources")]
    return cast("dict[str, Any]", told.plain), []


def _faults(told: Mapping[str, Any], files: Sequence[str]) -> list[Fault]:
    faults = [*_keys(told, "", ("info", "sources"))]
    info, sources = told.get("info"), told.get("sources")
    if isinstance(info, dict):
        faults += _keys(info, "info.", _INFO)
        faults += _info(info)
    elif "info" in told:
        faults.append(_fault("info", "is not a mapping", ", ".join(_INFO)))
    if isinstance(sources, dict):
        faults += _keys(sources, "sources.", tuple(_KINDS), optional=_OPTIONAL)
        for kind in _KINDS:
            if kind in sources:
                faults += _source(kind, sources[kind], files)
    elif "sources" in told:
        faults.append(_fault("sources", "is not a mapping", ", ".join(_KINDS)))
    return faults


def _keys(found: Mapping[Any, Any], at: str, known: Sequence[str], optional: str = "") -> Iterator[Fault]:
    for name in known:
        if name not in found and name != optional:
            yield _fault(f"{at}{name}", "is missing")
    for name in found:
        if name not in known:
            yield _fault(f"{at}{str(name)[:60]}", "is not known", ", ".join(known))


def _info(info: Mapping[str, Any]) -> Iterator[Fault]:
    for name in ("name", "version"):
        if name in info and not (isinstance(info[name], str) and _NAME.fullmatch(info[name])):
            hint = "; put it into quotes" if isinstance(info[name], int | float) else ""
            message = f"is {shown(info[name], 80)}{hint}"
            yield _fault(f"info.{name}", message, "a text of letters, digits, . _ and -, 64 at most")
    if info.get("py_c_extention", False) is not False:
        message = f"is {shown(info['py_c_extention'], 100)}: only ctypes structures are supported"
        yield _fault("info.py_c_extention", message, "false")


def _source(kind: str, path: object, files: Sequence[str]) -> Iterator[Fault]:
    endings = tuple(_KINDS[kind].split(" or "))
    if not isinstance(path, str) or not path.endswith(endings):
        yield _fault(f"sources.{kind}", f"is {shown(path, 100)}", f"a file that ends with {_KINDS[kind]}")
    elif path not in files:
        yield _fault(f"sources.{kind}", f"is {path[:80]!r}, which does not exist", "a path within the program's folder")
    elif kind in ("python", "runner") and not PurePosixPath(path).stem.isidentifier():
        yield _fault(f"sources.{kind}", f"is {path[:80]!r}, which cannot be imported", "letters, digits and _")


def _fault(where: str, message: str, allowed: str = "") -> Fault:
    return Fault(file=CONFIG, where=where, message=message, allowed=allowed)
