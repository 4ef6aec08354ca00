"""A model's functions, ready for kernels. This executes what the user wrote: only where chains run, never before."""

from __future__ import annotations
import __future__

import ast
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from gpuwork.anneal.backend import cuda, device_function, numba
from gpuwork.anneal.contract import FUNCTIONS
from gpuwork.errors import Refused

if TYPE_CHECKING:
    from gpuwork.anneal.backend import DeviceArray, Kernel
    from gpuwork.anneal.model_file import ModelFile

MOST_LENGTH: Final = 65_536
_HOST: Final = "empty_state"
_UNREAD: Final = __future__.annotations.compiler_flag  # a model may have types, whose names are not known here


@dataclass(frozen=True, kw_only=True)
class Functions:
    """The functions of a model as kernels call them, and the length of a state."""

    initialize: Kernel
    generate_next: Kernel
    cool: Kernel
    evaluate: Kernel
    acceptance_func: Kernel
    length: int


def _clamp(least: float, value: float, most: float) -> float:
    return min(max(value, least), most)


def _copy_state(origin: DeviceArray, to: DeviceArray) -> None:
    for place in range(len(origin)):
        to[place] = origin[place]


def make_functions(model: ModelFile, *, path: str) -> Functions:
    """Execute the block of globals and the functions of a model, and nothing else of it.

    Args:
        model: Without faults.
        path: Its file, for tracebacks.

    Raises:
        Refused: A state has no length that a chain can have.
        Exception: Whatever the block or `empty_state` raises.
    """
    space: dict[str, Any] = {
        "__name__": "model",
        "math": math,
        "numba": numba,
        "cuda": cuda,
        "np": np,
        "numpy": np,
        "clamp": device_function(_clamp),
        "copy_state": device_function(_copy_state),
    }
    chosen = [node for node in model.tree.body if node in model.block or model.functions.get(_name(node)) is node]
    for node in chosen:
        if isinstance(node, ast.FunctionDef) and node.name in FUNCTIONS:
            node.decorator_list = []
    exec(compile(ast.Module(body=chosen, type_ignores=[]), path, "exec", _UNREAD, dont_inherit=True), space)  # noqa: S102
    length = _measure(space[_HOST]())
    for name in FUNCTIONS:
        if name != _HOST:
            uses_cuda = any(
                isinstance(node, ast.Name) and node.id == "cuda" for node in ast.walk(model.functions[name])
            )
            space[name] = device_function(space[name], uses_cuda=uses_cuda)
    return Functions(**{name: space[name] for name in FUNCTIONS if name != _HOST}, length=length)


def _name(node: ast.stmt) -> str:
    return node.name if isinstance(node, ast.FunctionDef) else ""


def _measure(state: object) -> int:
    """The length of what `empty_state` returned."""
    try:
        shape = np.shape(np.asarray(state, dtype=np.float64))
    except (TypeError, ValueError) as error:
        raise _refuse_state(f"it returned {type(state).__name__}: {error}") from error
    if len(shape) != 1 or not 1 <= shape[0] <= MOST_LENGTH:
        raise _refuse_state(f"it returned numbers in the shape {shape}")
    return int(shape[0])


def _refuse_state(evidence: str) -> Refused:
    return Refused(
        "empty_state does not return a valid state",
        evidence=evidence[:300],
        fix=f"return a list or an array of 1 to {MOST_LENGTH:,} numbers, without lists in it",
    )
