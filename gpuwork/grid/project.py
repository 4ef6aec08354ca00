"""A project: a folder with `job.py` and, beside it, `params.py` or `grid.yaml`."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from gpuprov.shapes.faults import Fault
from gpuprov.shapes.limits import MIB
from gpuwork.grid.check import as_grid, find_faults
from gpuwork.grid.imports import LackedModule, find_lacked
from gpuwork.grid.params_file import read_params
from gpuwork.grid.run_params import run_params
from gpuwork.grid.yaml_file import read_yaml

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuwork.grid.draft import Grid

PARAMS: Final = "params.py"
YAML: Final = "grid.yaml"
JOB: Final = "job.py"
_LIMIT_BYTES: Final = 4 * MIB


@dataclass(frozen=True, kw_only=True)
class Source:
    """What of a project is run.

    Attributes:
        module: The module with `main`, such as `src.job`.
        grid: What is asked for.
    """

    module: str
    grid: Grid


def read_project(folder: Path, files: Sequence[str], *, here: bool = False) -> tuple[Source | None, list[Fault]]:
    """What a project asks for, or everything that is wrong with it.

    Args:
        folder: Of the project.
        files: What belongs to it, relative to the folder: a file that is not copied cannot be run.
        here: Whether it is to run on this machine, which must have the modules that it imports.
    """
    sources = [path for path in map(PurePosixPath, files) if path.name in (PARAMS, YAML) and len(path.parts) <= 2]  # noqa: PLR2004
    if len(sources) != 1:
        message = f"has {' and '.join(map(str, sources))}" if sources else f"has neither {PARAMS} nor {YAML}"
        message += "; git ignores the existing one" if not sources and _is_left_out(folder) else ""
        allowed = "one of them, in the project's folder or one below it"
        return None, [Fault(file=folder.name, message=message, allowed=allowed)]
    source = sources[0].parent
    text, faults = _read(folder, str(sources[0]))
    draft = None
    if text is not None and sources[0].name == YAML:
        draft, found = read_yaml(text, file=str(sources[0]))
        faults += found
    elif text is not None:
        evaluate = partial(run_params, folder / sources[0], project=folder)
        draft, found = read_params(text, file=str(sources[0]), evaluate=evaluate)
        faults += found
    if draft is not None:
        faults += find_faults(draft)
    job = str(source / JOB)
    if job in files:
        text, found = _read(folder, job)
        faults += found + ([] if text is None else _job_faults(text, job))
    else:
        faults.append(Fault(file=job, message="is missing", allowed="a file with a function main(param2val)"))
    if not all(part.isidentifier() for part in source.parts):
        faults.append(Fault(file=str(source), message="cannot be imported by this name", allowed="letters, digits, _"))
    if here:
        faults += _find_lacked(folder, files, job, faults)
    if faults or draft is None:
        return None, sorted(faults, key=lambda fault: (fault.file == job, fault.line or 0))
    return Source(module=".".join((*source.parts, Path(JOB).stem)), grid=as_grid(draft)), []


def _find_lacked(folder: Path, files: Sequence[str], job: str, known: Sequence[Fault]) -> list[LackedModule]:
    """The modules that this machine lacks, beside those that are known."""
    names = {fault.module for fault in known if isinstance(fault, LackedModule)}
    lacked = find_lacked(folder, files, str(PurePosixPath(job).with_name(PARAMS))) if names else []
    lacked += find_lacked(folder, files, job)
    new: dict[str, LackedModule] = {}
    for fault in lacked:
        if fault.module not in names:
            new.setdefault(fault.module, fault)
    return [*new.values()]


def _is_left_out(folder: Path) -> bool:
    return any(any(folder.glob(pattern)) for name in (PARAMS, YAML) for pattern in (name, f"*/{name}"))


def _read(folder: Path, name: str) -> tuple[str | None, list[Fault]]:
    path = folder / name
    try:
        if path.stat().st_size > _LIMIT_BYTES:
            return None, [Fault(file=name, message=f"has more than {_LIMIT_BYTES} bytes")]
        return path.read_text(encoding="utf-8"), []
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        return None, [Fault(file=name, message=f"cannot be read: {reason}")]


def _job_faults(text: str, file: str) -> list[Fault]:
    """What its text tells of a `job.py`: a `main` that comes from elsewhere is believed to be right."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = error.lineno if isinstance(error, SyntaxError) else None
        return [Fault(file=file, line=line, message=f"is not Python: {getattr(error, 'msg', error)}")]
    mains = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "main"]
    if not mains:
        names = [getattr(node, "id", None) or getattr(node, "name", None) for node in ast.walk(tree)]
        aliases = [alias.asname or alias.name for node in ast.walk(tree) for alias in getattr(node, "names", [])
                   if isinstance(alias, ast.alias)]  # fmt: skip
        known = "main" in names or {"main", "*"} & set(aliases)
        return [] if known else [Fault(file=file, message="has no function main", allowed="def main(param2val):")]
    arguments = mains[-1].args
    positional = [*arguments.posonlyargs, *arguments.args]
    required = len(positional) - len(arguments.defaults)
    keywords = [
        one for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if default is None
    ]
    if (positional or arguments.vararg) and required <= 1 and not keywords:
        return []
    message = f"takes ({ast.unparse(arguments)})"
    return [Fault(file=file, line=mains[-1].lineno, where="main", message=message, allowed="main(param2val)")]
