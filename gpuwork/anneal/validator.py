"""Everything that is wrong with a model, each with its line; nothing of it is executed."""

from __future__ import annotations

import ast
import builtins
import copy
import symtable
from typing import TYPE_CHECKING, Final

from gpuprov.shapes.faults import Fault
from gpuwork.anneal.contract import FUNCTIONS, MARK, PROVIDED, RETURNING, signature

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpuwork.anneal.model_file import ModelFile

_BUILTINS: Final = frozenset(dir(builtins))
_REFUSED: Final[dict[type[ast.AST], str]] = {
    ast.Import: "import",
    ast.ImportFrom: "import",
    ast.ExceptHandler: "except",
    ast.Yield: "yield",
    ast.YieldFrom: "yield",
}


def find_model_faults(model: ModelFile) -> list[Fault]:
    """All faults, in the order of the lines; those without a line come first."""
    faults = [*_missing(model)]
    try:
        for function in model.functions.values():
            faults += [*_shape(model, function), *_refused(model, function)]
        faults += _unknown_names(model)
    except RecursionError:
        message = "is nested too deeply to be checked"
        faults.append(Fault(file=model.file, message=message, allowed="shorter expressions"))
    return sorted(faults, key=lambda fault: fault.line or 0)


def _missing(model: ModelFile) -> Iterator[Fault]:
    other = {node.name: node for node in model.tree.body if isinstance(node, (ast.AsyncFunctionDef, ast.ClassDef))}
    for name in FUNCTIONS:
        if name in model.functions:
            continue
        if name in other:
            line = other[name].lineno
            yield Fault(file=model.file, line=line, where=name, message="is not a plain function", allowed="def")
        else:
            yield Fault(file=model.file, where=name, message="is missing", allowed=f"def {signature(name)}")


def _shape(model: ModelFile, function: ast.FunctionDef) -> Iterator[Fault]:
    name, line, told = function.name, function.lineno, function.args
    takes = [one.arg for one in (*told.posonlyargs, *told.args)]
    if len(takes) != len(FUNCTIONS[name]) or told.vararg or told.kwarg or told.kwonlyargs or told.defaults:
        message = f"takes ({ast.unparse(told)[:100]})"
        yield Fault(file=model.file, line=line, where=name, message=message, allowed=signature(name))
    if any(not _is_jit(decorator) for decorator in function.decorator_list):
        yield Fault(file=model.file, line=line, where=name, message="has a decorator", allowed="none is needed")
    if all(_says_nothing(node) for node in function.body):
        yield Fault(file=model.file, line=line, where=name, message="is empty")
    elif name in RETURNING and not any(isinstance(node, ast.Return) and node.value for node in own_nodes(function)):
        yield Fault(file=model.file, line=line, where=name, message="has no return", allowed="return VALUE")


def _is_jit(decorator: ast.expr) -> bool:
    """What kernels do with a function anyway."""
    return ast.unparse(decorator).partition("(")[0] in ("cuda.jit", "numba.cuda.jit")


def _says_nothing(node: ast.stmt) -> bool:
    return isinstance(node, ast.Pass) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))


def own_nodes(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """The nodes of a function without those of functions within it."""
    left: list[ast.AST] = [*function.body]
    while left:
        node = left.pop()
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            left.extend(ast.iter_child_nodes(node))


def _refused(model: ModelFile, function: ast.FunctionDef) -> Iterator[Fault]:
    """What no kernel can do."""
    for node in ast.walk(function):
        words = [_REFUSED[type(node)]] if type(node) in _REFUSED else []
        line = getattr(node, "lineno", function.lineno)
        if getattr(node, "finalbody", None):
            words, line = ["finally"], node.finalbody[0].lineno  # type: ignore[attr-defined]
        for word in words:
            yield Fault(file=model.file, line=line, where=function.name, message=f"uses {word}")


def _unknown_names(model: ModelFile) -> Iterator[Fault]:
    """Names that a kernel would not find: what stands outside of the block is not copied into it."""
    known = {*PROVIDED, *_BUILTINS, *FUNCTIONS, *_bound(model.block)}
    outside = _bound(node for node in model.tree.body if node not in model.block)
    for node in (*model.functions.values(), *(one for one in model.block if isinstance(one, ast.FunctionDef))):
        for name in sorted(_globals_of(node) - known):
            line = next((one.lineno for one in ast.walk(node) if isinstance(one, ast.Name) and one.id == name), None)
            there = f"is outside the two lines `{MARK}`" if name in outside else "is defined nowhere"
            yield Fault(
                file=model.file, line=line or node.lineno, where=node.name, message=f"uses {name}, which {there}",
                allowed=f"define it between two lines `{MARK}`",
            )  # fmt: skip


def _table(nodes: list[ast.stmt]) -> symtable.SymbolTable:
    return symtable.symtable(ast.unparse(ast.Module(body=nodes, type_ignores=[])), "model", "exec")


def _bound(nodes: Iterator[ast.stmt] | tuple[ast.stmt, ...]) -> set[str]:
    """The names that statements bind."""
    symbols = _table([*nodes]).get_symbols()
    return {one.get_name() for one in symbols if one.is_assigned() or one.is_imported() or one.is_namespace()}


def _globals_of(function: ast.FunctionDef) -> set[str]:
    """The names that a function looks up outside of itself; not those of its decorators and annotations."""
    bare = copy.deepcopy(function)
    bare.decorator_list, bare.returns = [], None
    for argument in (*bare.args.posonlyargs, *bare.args.args, *bare.args.kwonlyargs):
        argument.annotation = None
    found: set[str] = set()
    left = list(_table([bare]).get_children())
    while left:
        table = left.pop()
        found |= {one.get_name() for one in table.get_symbols() if one.is_global() and one.is_referenced()}
        left.extend(table.get_children())
    return found
