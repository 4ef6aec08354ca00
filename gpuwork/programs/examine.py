"""What a program's modules have: the layout of their structures as ctypes makes it, and what is wrong with them."""

from __future__ import annotations

import ctypes
import inspect
from typing import TYPE_CHECKING, Any, Final

from gpuprov.shapes.faults import Fault
from gpuprov.shapes.program_answers import Examined, Structure
from gpuprov.shapes.programs import Measured
from gpuwork.programs.codec import field_types
from gpuwork.programs.contract import (
    DATASET,
    DEFAULTS,
    DYNAMIC,
    INTEGERS,
    PARAMS,
    PYTHON_FUNCTIONS,
    RUNNER_FUNCTIONS,
    STRUCTURES,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import ModuleType

_SIGNED: Final = frozenset("bhilq")
_UNSIGNED: Final = frozenset("BHILQ")
_FLOATS: Final = frozenset("fdg")


def examine(module: ModuleType, runner: ModuleType | None) -> Examined:
    """The structures that are there, with their fields, and every fault of the modules."""
    faults: list[Fault] = []
    structures = {}
    for name in STRUCTURES:
        kind = getattr(module, name, None)
        if not (isinstance(kind, type) and issubclass(kind, ctypes.Structure)):
            faults.append(_found("python", name, "is missing" if kind is None else "is not a ctypes.Structure"))
            continue
        fields = tuple(_describe(kind, field) for field in field_types(kind).items())
        structures[name] = Structure(size=ctypes.sizeof(kind), fields=fields)
        faults += _structure_faults(name, kind)
    makes_dataset = hasattr(runner, "make_dataset")
    if not makes_dataset and DATASET in structures:
        faults += _table_faults(getattr(module, DATASET))
    faults += _function_faults("python", module, PYTHON_FUNCTIONS, required=True)
    if runner is not None:
        faults += _function_faults("runner", runner, RUNNER_FUNCTIONS, required=False)
    return Examined(structures=structures, faults=tuple(faults), makes_dataset=makes_dataset)


def _describe(kind: type[ctypes.Structure], field: tuple[str, Any]) -> Measured:
    name, of = field
    place = getattr(kind, name)
    return Measured(name=name, offset=place.offset, size=ctypes.sizeof(of), kind=_kind(of))


def _kind(of: Any) -> str:  # noqa: ANN401  (ctypes has no type for its types)
    """What a type is, in the words of the probe."""
    if issubclass(of, ctypes._Pointer):  # noqa: SLF001
        return f"pointer to {_kind(of._type_)} of {ctypes.sizeof(of._type_)}"
    if issubclass(of, ctypes.Array):
        return f"array of {_kind(of._type_)} of {ctypes.sizeof(of._type_)}"
    code = getattr(of, "_type_", "")
    if code in _SIGNED:
        return "signed integer"
    if code in _UNSIGNED:
        return "unsigned integer"
    if code in _FLOATS:
        return "floating-point number"
    return {"?": "bool", "c": "character"}.get(code, "other")


def _structure_faults(name: str, kind: type[ctypes.Structure]) -> Iterator[Fault]:
    fields = field_types(kind)
    integers = {field for field, of in fields.items() if _kind(of) in ("signed integer", "unsigned integer")}
    dynamic = getattr(kind, DYNAMIC, {})
    if not isinstance(dynamic, dict):
        yield _found("python", f"{name}.{DYNAMIC}", "is not a dict", "{'values': ('rows', 'columns')}")
        dynamic = {}
    yield from _pointer_faults(name, fields, dynamic)
    for field, lengths in dynamic.items():
        where = f"{name}.{DYNAMIC}[{field!r}]"
        if field not in fields or not _kind(fields[field]).startswith("pointer"):
            yield _found("python", where, f"{name} has no pointer {field}")
        named = lengths if isinstance(lengths, tuple | list) else ()
        if not named or not all(isinstance(one, str) and one in integers for one in named):
            allowed = f"a tuple of integer fields: {', '.join(sorted(integers)) or 'there are none'}"
            yield _found("python", where, f"is {lengths!r}"[:200], allowed)
    needed = INTEGERS.get(name)
    if needed is not None and needed not in integers:
        yield _found(
            "python", f"{name}.{needed}", "is missing" if needed not in fields else "is not an integer", "c_long"
        )
    yield from _defaults_faults(name, kind) if name == PARAMS else ()
    for field in getattr(kind, "_fields_", ()):
        if len(field) > 2:  # noqa: PLR2004  (a name and a type)
            yield _found("python", f"{name}.{field[0]}", "is a bit field", "a whole field")


def _defaults_faults(name: str, kind: type[ctypes.Structure]) -> Iterator[Fault]:
    defaults, fields = getattr(kind, DEFAULTS, {}), field_types(kind)
    if not isinstance(defaults, dict):
        yield _found("python", f"{name}.{DEFAULTS}", "is not a dict", "{'max_iterations': 10}")
        return
    for field in defaults:
        if field not in fields:
            yield _found("python", f"{name}.{DEFAULTS}", f"there is no field {field}", ", ".join(fields))


def _pointer_faults(name: str, fields: Mapping[str, Any], dynamic: Mapping[str, Any]) -> Iterator[Fault]:
    """Pointers of which nobody says how long their arrays are."""
    for field, of in fields.items():
        if not _kind(of).startswith("pointer"):
            continue
        if name == PARAMS:
            yield _found("python", f"{name}.{field}", "is a pointer", "parameters have no dynamic fields")
        elif field not in dynamic:
            message = f"is a pointer, but {DYNAMIC} does not give the length of its array"
            yield _found("python", f"{name}.{field}", message, f"{DYNAMIC} = {{{field!r}: ('rows', 'columns')}}")


def _table_faults(kind: type[ctypes.Structure]) -> Iterator[Fault]:
    """Why a table cannot become such a dataset by the names of its fields."""
    fields = field_types(kind)
    wanted = {"rows": "c_long", "columns": "c_long", "values": "POINTER(c_double)"}
    fits = {
        "rows": ("signed integer",),
        "columns": ("signed integer",),
        "values": ("pointer to floating-point number of 8",),
    }
    why = "no runner makes the dataset, so it must be a table: rows, columns, values"
    for name, kinds in fits.items():
        if name not in fields or _kind(fields[name]) not in kinds:
            yield _found("python", f"{DATASET}.{name}", why, wanted[name])
    for name in fields:
        if name not in fits:
            yield _found("python", f"{DATASET}.{name}", why, "no other field")


def _function_faults(
    source: str, module: ModuleType, functions: Mapping[str, tuple[str, ...]], *, required: bool
) -> Iterator[Fault]:
    for name, parameters in functions.items():
        call = f"{name}({', '.join(parameters)})"
        function = getattr(module, name, None)
        if function is None:
            if required:
                yield _found(source, name, "is missing", f"def {call}:")
            continue
        try:
            inspect.signature(function).bind(*parameters)
        except TypeError as error:
            yield _found(source, name, f"cannot be called with these: {error}", call)
        except ValueError:  # something whose parameters Python does not know
            continue


def _found(source: str, where: str, message: str, allowed: str = "") -> Fault:
    return Fault(file=source, where=where, message=message, allowed=allowed)
