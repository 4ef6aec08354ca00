"""A model as its file has it, by its text alone: nothing of it is executed."""

from __future__ import annotations

import ast
import warnings
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from gpuprov.shapes.faults import Fault
from gpuprov.shapes.limits import MIB
from gpuwork.anneal.contract import FUNCTIONS, MARK
from gpuwork.untrusted_files import read_limited

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

MOST_BYTES: Final = MIB
# Beside its functions, a model may say these numbers itself
NUMBERS: Final = ("dimensions", "distribution", "precision")


@dataclass(frozen=True, kw_only=True)
class ModelFile:
    """The parts of a model.

    Attributes:
        file: Its name, for people.
        text: All of it.
        tree: The same, parsed.
        functions: Those of the contract that it defines, by name.
        block: The statements between the lines `# -- Globals`.
        numbers: What it assigns to `dimensions` and so on, each with its line.
    """

    file: str
    text: str
    tree: ast.Module
    functions: Mapping[str, ast.FunctionDef]
    block: tuple[ast.stmt, ...] = ()
    numbers: Mapping[str, tuple[object, int]] = field(default_factory=dict)


def read_model(path: Path, *, file: str | None = None) -> tuple[ModelFile | None, list[Fault]]:
    """A model and what is wrong with how it is written; None for what is no Python."""
    name = file or path.name
    content = read_limited(path, limit=MOST_BYTES)
    if content is None:
        why = f"is not a file of at most {MOST_BYTES:,} bytes" if path.exists() else "does not exist"
        return None, [Fault(file=name, message=why)]
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return None, [Fault(file=name, message="is not UTF-8 text")]
    return parse_model(text, file=name)


def parse_model(text: str, *, file: str) -> tuple[ModelFile | None, list[Fault]]:
    """The same of a text."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            tree = ast.parse(text, filename=file)
            compile(text, file, "exec", dont_inherit=True)  # finds what a parser lets pass, such as a lone `return`
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = error.lineno if isinstance(error, SyntaxError) else None
        return None, [Fault(file=file, line=line, message=f"is not Python: {getattr(error, 'msg', error)}")]
    (first, last), faults = _find_block(text, file)
    functions: dict[str, ast.FunctionDef] = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name in FUNCTIONS:
            if node.name in functions:
                message = f"is defined twice, first on line {functions[node.name].lineno}"
                faults.append(Fault(file=file, line=node.lineno, where=node.name, message=message))
            functions[node.name] = node
    block = tuple(
        node for node in tree.body if first < node.lineno < last and getattr(node, "name", None) not in FUNCTIONS
    )
    return ModelFile(
        file=file, text=text, tree=tree, functions=functions, block=block, numbers=_find_numbers(tree)
    ), faults


def _find_block(text: str, file: str) -> tuple[tuple[int, int], list[Fault]]:
    """The lines between which the globals are; none without such lines."""
    lines = [number for number, line in enumerate(text.splitlines(), 1) if line.strip() == MARK]
    if not lines:
        return (0, 0), []
    if len(lines) != 2:  # noqa: PLR2004  (where it begins, and where it ends)
        return (0, 0), [
            Fault(file=file, line=lines[-1], message=f"has {len(lines)} lines `{MARK}`", allowed="two, or none")
        ]
    return (lines[0], lines[1]), []


def _find_numbers(tree: ast.Module) -> dict[str, tuple[object, int]]:
    """Assignments of literals to the names of settings, on the module's top level."""
    found: dict[str, tuple[object, int]] = {}
    for node in tree.body:
        if not isinstance(node, (ast.Assign, ast.AnnAssign)):
            continue
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            if isinstance(target, ast.Name) and target.id in NUMBERS:
                found[target.id] = (_plain(node.value), node.lineno)
    return found


def _plain(value: ast.expr | None) -> object:
    """A literal; whatever else it is, as it is written, which is no setting."""
    if value is None:
        return None
    with suppress(ValueError, TypeError, RecursionError, MemoryError):
        return ast.literal_eval(value)
    with suppress(RecursionError):
        return ast.unparse(value)
    return "an expression"
