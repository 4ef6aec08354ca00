"""Whether a project has the function that an order names, as far as its text tells; nothing of it is run."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from gpuprov.shapes.faults import Fault
from gpuwork.untrusted_files import read_limited

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path

    Definition = ast.FunctionDef | ast.AsyncFunctionDef

_WHERE: Final = "function"
_FEW: Final = 5


def find_function_faults(
    project: Path, names: Collection[str], function: str, arguments: Mapping[str, object]
) -> Iterator[Fault]:
    """What is wrong with `MODULE:FUNCTION` and its arguments; a function that comes from elsewhere is believed.

    Args:
        names: Its files: one that is not copied cannot be run.
        function: As the order names it.
        arguments: Of the function.
    """
    module, _, name = function.partition(":")
    path = module.replace(".", "/")
    found = [file for file in (f"{path}.py", f"{path}/__init__.py") if file in names]
    if not found:
        yield Fault(file=f"{path}.py", where=_WHERE, message="is not among the project's files")
        return
    content = read_limited(project / found[0])
    try:
        tree = ast.parse(content if content is not None else b"")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = error.lineno if isinstance(error, SyntaxError) else None
        yield Fault(file=found[0], line=line, message=f"is not Python: {getattr(error, 'msg', error)}")
        return
    defined = [
        node for node in tree.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == name
    ]
    if defined:
        yield from _call_faults(found[0], defined[-1], arguments)
    elif not _comes_from_elsewhere(tree, name):
        yield Fault(file=found[0], where=_WHERE, message=f"has no function {name}", allowed=f"def {name}(...):")


def _comes_from_elsewhere(tree: ast.Module, name: str) -> bool:
    """Whether a module has a name by an import, or by an assignment."""
    nodes = list(ast.walk(tree))
    aliases = {alias.asname or alias.name for node in nodes for alias in getattr(node, "names", [])
               if isinstance(alias, ast.alias)}  # fmt: skip
    assigned = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return bool({name, "*"} & aliases) or name in assigned


def _call_faults(file: str, function: Definition, arguments: Mapping[str, object]) -> Iterator[Fault]:
    """What Python would say of the call."""
    if isinstance(function, ast.AsyncFunctionDef):
        yield Fault(file=file, line=function.lineno, where=function.name, message="is async", allowed="def")
    if function.decorator_list:  # it may take other arguments than it says
        return
    told = function.args
    takes = {one.arg for one in (*told.args, *told.kwonlyargs)}
    positional = [*told.posonlyargs, *told.args]
    needed = [one.arg for one in positional[: len(positional) - len(told.defaults)]]
    needed += [one.arg for one, default in zip(told.kwonlyargs, told.kw_defaults, strict=True) if default is None]
    lacking = [name for name in needed if name not in arguments]
    unknown = [] if told.kwarg else [name for name in arguments if name not in takes]
    for names, message in ((lacking, "not given"), (unknown, "given, but not accepted")):
        if names:
            more = f" and {len(names) - _FEW} more" if len(names) > _FEW else ""
            listed = f"{', '.join(names[:_FEW])}{more}"
            yield Fault(
                file=file, line=function.lineno, where=function.name, message=f"{listed} {message}"[:300],
                allowed=f"({ast.unparse(told)[:200]})",
            )  # fmt: skip
