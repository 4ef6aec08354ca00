"""`params.py`, read without running it where its dictionaries are written out; run where they are computed."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from gpuprov.shapes.faults import Fault
from gpuwork.grid.draft import GridDraft, Headings, WrittenValue
from gpuwork.grid.imports import LackedModule

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

REQUESTS: Final = "param2requests"
DEFAULTS: Final = "param2default"
DEBUG: Final = "param2debug"
NAMES: Final = (REQUESTS, DEFAULTS, DEBUG)

Evaluated = dict[str, dict[object, object]]


class NotEvaluated(Exception):
    """The file could not be run to its end."""

    def __init__(self, message: str, *, line: int | None, lacks: str | None = None) -> None:
        """Keep the line of the file that failed, where one is known, and the module that this machine lacks."""
        super().__init__(message)
        self.line = line
        self.lacks = lacks


@dataclass(kw_only=True)
class _Written:
    """What the text says of one of the dictionaries.

    Attributes:
        line: Where it is assigned.
        entries: What is written out.
        lines: Where names stand, also those whose values are computed.
        computed: Whether only running the file tells what is in it.
    """

    line: int
    entries: dict[str, WrittenValue] = field(default_factory=dict)
    lines: dict[object, int] = field(default_factory=dict)
    computed: bool = False


def read_params(text: str, *, file: str, evaluate: Callable[[], Evaluated]) -> tuple[GridDraft | None, list[Fault]]:
    """What a `params.py` asks for, and what is wrong with how it is written.

    Args:
        text: Of the file.
        file: What faults call it.
        evaluate: Runs the file and returns its dictionaries; called only where the text does not tell them.
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = error.lineno if isinstance(error, SyntaxError) else None
        reason = error.msg if isinstance(error, SyntaxError) else str(error)
        return None, [Fault(file=file, line=line, message=f"is not Python: {reason}")]
    faults: list[Fault] = []
    written = _find(tree, file, faults)
    mentioned = {name for name in NAMES if _mentions(tree, name)}
    missing = [name for name in (REQUESTS, DEFAULTS) if name not in mentioned]
    faults += [Fault(file=file, where=name, message="is missing", allowed="a dictionary") for name in missing]
    if missing:
        return None, faults
    parts = {name: about.entries for name, about in written.items()}
    if mentioned - written.keys() or any(about.computed for about in written.values()):
        try:
            parts = _computed(evaluate(), written, file, faults)
        except NotEvaluated as error:
            message = f"cannot be run: {error}"
            if error.lacks:
                lacked = LackedModule(file=file, line=error.line, message=message, module=error.lacks)
                return None, [*faults, lacked]
            return None, [*faults, Fault(file=file, line=error.line, message=message)]
    headings = Headings(requests=REQUESTS, defaults=DEFAULTS, debug=DEBUG)
    requests, defaults = parts.get(REQUESTS, {}), parts.get(DEFAULTS, {})
    return GridDraft(
        file=file, headings=headings, requests=requests, defaults=defaults, debug=parts.get(DEBUG, {})
    ), faults


def _find(tree: ast.Module, file: str, faults: list[Fault]) -> dict[str, _Written]:
    """The dictionaries that the module assigns, at its top level."""
    found: dict[str, _Written] = {}
    for node in tree.body:
        if not isinstance(node, (ast.Assign, ast.AnnAssign)):
            continue
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            if isinstance(target, ast.Name) and target.id in NAMES and node.value is not None:
                if target.id in found:
                    message = f"is assigned twice, first on line {found[target.id].line}"
                    faults.append(Fault(file=file, line=node.lineno, where=target.id, message=message))
                found[target.id] = _read_dictionary(target.id, node, file, faults)
    for name, about in found.items():
        about.computed |= _mentions(tree, name) > 1
    return found


def _mentions(tree: ast.Module, name: str) -> int:
    """How often a name is assigned, changed, read or imported."""
    count = 0
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            count += node.id == name
        elif isinstance(node, ast.ImportFrom):
            count += any((alias.asname or alias.name) in (name, "*") for alias in node.names)
    return count


def _read_dictionary(name: str, node: ast.Assign | ast.AnnAssign, file: str, faults: list[Fault]) -> _Written:
    about = _Written(line=node.lineno)
    if not isinstance(node.value, ast.Dict):
        about.computed = True
        if isinstance(node.value, ast.Call):
            about.lines.update({word.arg: word.value.lineno for word in node.value.keywords if word.arg})
        return about
    for key, value in zip(node.value.keys, node.value.values, strict=True):
        if not isinstance(key, ast.Constant):
            about.computed = True
            continue
        where = f"{name}.{key.value!s}"
        if key.value in about.lines:
            message = f"is written twice, first on line {about.lines[key.value]}"
            faults.append(Fault(file=file, line=key.lineno, where=where, message=message))
        about.lines[key.value] = key.lineno
        if not isinstance(key.value, str):
            message = f"is of type {type(key.value).__name__}"
            faults.append(Fault(file=file, line=key.lineno, where=where, message=message, allowed="a string"))
            continue
        try:
            about.entries[key.value] = WrittenValue(value=ast.literal_eval(value), line=key.lineno)
        except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
            about.computed = True
    return about


def _computed(
    dictionaries: Evaluated, written: Mapping[str, _Written], file: str, faults: list[Fault]
) -> dict[str, dict[str, WrittenValue]]:
    """What running the file gave, with the lines that the text tells."""
    parts: dict[str, dict[str, WrittenValue]] = {}
    for name in NAMES:
        if name not in dictionaries:
            if name != DEBUG:
                faults.append(Fault(file=file, where=name, message="is not a dictionary", allowed="a dictionary"))
            continue
        about = written.get(name)
        parts[name] = {}
        for key, value in dictionaries[name].items():
            line = about.lines.get(key, about.line) if about else None
            if isinstance(key, str):
                parts[name][key] = WrittenValue(value=value, line=line)
            elif about is None or key not in about.lines:
                message = f"is of type {type(key).__name__}"
                faults.append(Fault(file=file, line=line, where=f"{name}.{key}", message=message, allowed="a string"))
    return parts
