"""In a process of its own: the code of a program, Python and C. What it says goes to stderr, and a crash ends it alone.

Started by `gpuwork.programs.process`, with which it exchanges messages.
"""

from __future__ import annotations

import ctypes
import json
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gpuprov.shapes.base import as_values, write
from gpuprov.shapes.limits import MIB
from gpuprov.shapes.program_answers import Described, MadeDataset, Opened, Updated
from gpuprov.shapes.program_runs import MOST_POINTS, Chart, ChartGroup
from gpuwork.leash import die_with
from gpuwork.own_modules import import_own
from gpuwork.programs.codec import (
    address_of,
    array_bytes,
    decode,
    dynamic_fields,
    encode,
    encoded_size,
    field_types,
    pieces,
)
from gpuwork.programs.contract import DATASET, DEFAULTS, PARAMS, RESULT, ROWS, RUNNER_FUNCTIONS, STATE
from gpuwork.programs.library import Library, ProgramFault
from gpuwork.programs.table import MappedFile, Table
from gpuwork.programs.wire import receive, send

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from gpuprov.shapes.base import Shape

_MOST_LINES: Final = 12
_MOST_GROUPS: Final = 50
_MOST_SAID: Final = MIB

_CHART: Final = (
    f"allowed: a title and {_MOST_GROUPS} groups of {MOST_POINTS} points in all, each group with label, points, marked"
)

Answered = tuple["Shape | None", list[Any]]


def main(code: str, python: str, runner: str, handles: str, parent: str) -> None:
    """Answer messages until there are none.

    Args:
        code: The folder of the program.
        python: Its module.
        runner: Its runner module; "" for none.
        handles: To read from and to write to, with a comma between.
        parent: The id of the process that started this one: when it dies, so does this one.
    """
    die_with(int(parent))
    incoming, outgoing = map(int, handles.split(","))
    folders = (code, *(str(Path(code, path).parent) for path in (python, runner) if "/" in path))
    try:
        module = import_own(Path(python).stem, *folders)
        program = Program(module, import_own(Path(runner).stem, *folders) if runner else None)
    except BaseException:  # noqa: BLE001  (whatever a module does when it is imported)
        send(outgoing, {"failed": _told()})
        return
    send(outgoing, {})
    while (message := receive(incoming)) is not None:
        head, given = message
        verb: Callable[..., Answered] = getattr(program, f"do_{head.pop('verb')}")
        try:
            said, answer = verb(*given, **head)
        except ProgramFault as error:
            send(outgoing, {"failed": str(error)})
        except BaseException:  # noqa: BLE001  (the program's own code, and `sys.exit` is no answer)
            send(outgoing, {"failed": _told()})
        else:
            send(outgoing, as_values(said) if said else {}, answer)


def _told() -> str:
    """The last error as Python shows it, from the program's code on."""
    kind, error, trace = sys.exc_info()
    here = str(Path(__file__).parent)
    while trace is not None and trace.tb_next is not None and trace.tb_frame.f_code.co_filename.startswith(here):
        trace = trace.tb_next
    shown = "".join(traceback.format_exception(kind, error, trace, chain=False)).strip().splitlines()
    return "\n".join(shown[-_MOST_LINES:])


class Program:
    """A program's modules and library, and the data that it works on."""

    def __init__(self, module: ModuleType, runner: ModuleType | None) -> None:
        self._module = module
        self._runner = runner
        self._library: Library | None = None
        self._kept: list[object] = []
        self._params: ctypes.Structure | None = None
        self._dataset: ctypes.Structure | None = None
        self._slices: dict[int, ctypes.Structure] = {}

    def do_examine(self) -> Answered:
        """What the modules have, for `gpuwork.programs.check`."""
        from gpuwork.programs.examine import examine

        return examine(self._module, self._runner), []

    def do_load(self, *, library: str, block_size: int) -> Answered:
        """Load the library."""
        self._library = Library(Path(library), self._kind, block_size)
        return None, []

    def do_make_params(self, *, settings: dict[str, Any]) -> Answered:
        """The global parameters: from the runner, or by the names of their fields."""
        make = self._of_runner("make_params")
        params = make(settings) if make else _by_names(self._kind(PARAMS), settings)
        return None, [encode(self._checked(params, PARAMS))]

    def do_make_dataset(self, *, settings: dict[str, Any], table: str, target: str) -> Answered:
        """Have the runner turn a table into a dataset, and write that to a file; nothing where it does not."""
        make = self._of_runner("make_dataset")
        if make is None:
            return MadeDataset(written=False), []
        mapped = MappedFile(Path(table)) if table else None
        dataset = self._checked(make(settings, mapped.decoded(Table) if mapped else None), DATASET)
        with Path(target).open("wb") as file:
            for start, piece in pieces(dataset):
                file.seek(start)
                file.write(piece)
            file.truncate(encoded_size(dataset))
        return MadeDataset(written=True), []

    def do_open(self, params: bytearray, *, dataset: str, is_table: bool) -> Answered:
        """Map the dataset of a run."""
        self._params = self._decoded(params, PARAMS)
        mapped = MappedFile(Path(dataset))
        self._kept.append(mapped)
        if is_table:
            table = mapped.decoded(Table)
            values = ctypes.cast(table.values, field_types(self._kind(DATASET))["values"])
            self._dataset = self._kind(DATASET)(rows=table.rows, columns=table.columns, values=values)
        else:
            self._dataset = mapped.decoded(self._kind(DATASET))
        return Opened(rows=int(getattr(self._dataset, ROWS))), []

    def do_init_state(self) -> Answered:
        """The first global state."""
        state = self._checked(self._module.init_global_state(self._params, self._dataset), STATE)
        return None, [encode(state)]

    def do_take_slice(self, *, number: int, start: int, stop: int) -> Answered:
        """Have the library hold some rows."""
        if number not in self._slices:
            part = self._checked(self._module.get_dataset_slice(self._dataset, start, stop), DATASET)
            rows = int(getattr(part, ROWS))
            if rows != stop - start:
                raise ProgramFault(f"get_dataset_slice({start}, {stop}) has {rows} rows instead of {stop - start}")
            self._slices[number] = self._loaded.allocate(part)
        return None, []

    def do_release(self, *, before: int) -> Answered:
        """Let the library free the slices with lower numbers than this."""
        for number in [number for number in self._slices if number < before]:
            self._loaded.free(self._slices.pop(number))
        return None, []

    def do_iterate(self, state: bytearray, *, number: int) -> Answered:
        """One iteration over a slice: its result."""
        given = self._decoded(state, STATE)
        empty = self._checked(self._module.init_aggregation_result(self._params, given), RESULT)
        return None, [self._loaded.iterate(self._params, self._slices[number], given, empty)]

    def do_merge(self, *given: bytearray) -> Answered:
        """Results as one, in their order."""
        merged, *others = (self._decoded(one, RESULT) for one in given)
        for other in others:
            merged = self._checked(self._module.aggregate(merged, other), RESULT)
        return None, [encode(merged)]

    def do_update(self, state: bytearray, result: bytearray) -> Answered:
        """The state after an iteration, and whether it was the last one."""
        before = self._decoded(state, STATE)
        changed = self._module.update_global_state(self._params, before, self._decoded(result, RESULT))
        after = self._checked(before if changed is None else changed, STATE)
        return Updated(done=bool(after.done)), [encode(after)]

    def do_describe(self, state: bytearray, result: bytearray) -> Answered:
        """The result for people, and a chart of it if the runner makes one."""
        given = (self._params, self._decoded(state, STATE), self._decoded(result, RESULT))
        describe, chart = self._of_runner("describe_result"), self._of_runner("chart_result")
        told = describe(*given) if describe else {"state": _as_json(given[1]), "result": _as_json(given[2])}
        drawn = chart(*given, self._dataset) if chart else None
        shown = None if drawn is None else write(_checked_chart(drawn))
        said = json.dumps({"result": told, "chart": shown}, allow_nan=False)
        if len(said) > _MOST_SAID:
            raise ProgramFault(f"the result has {len(said)} characters as JSON, more than {_MOST_SAID}")
        return Described(**json.loads(said)), []

    def do_close(self) -> Answered:
        """Let the library free what it holds."""
        while self._slices:
            self._loaded.free(self._slices.popitem()[1])
        return None, []

    @property
    def _loaded(self) -> Library:
        assert self._library is not None  # noqa: S101  (do_load comes first)
        return self._library

    def _kind(self, name: str) -> type[ctypes.Structure]:
        kind: type[ctypes.Structure] = getattr(self._module, name)
        return kind

    def _of_runner(self, name: str) -> Callable[..., Any] | None:
        assert name in RUNNER_FUNCTIONS  # noqa: S101
        return getattr(self._runner, name, None)

    def _decoded(self, encoded: bytearray, name: str) -> ctypes.Structure:
        value = decode(self._kind(name), encoded, address_of(encoded))
        value._bytes = encoded  # noqa: SLF001  (lives as long as what points into it)
        return value

    def _checked(self, value: object, name: str) -> ctypes.Structure:
        kind = self._kind(name)
        if not isinstance(value, kind):
            raise ProgramFault(f"the program returned a {type(value).__name__} in place of a {name}")
        try:
            for field in dynamic_fields(kind):
                if array_bytes(value, field) and not getattr(value, field):
                    raise ProgramFault(f"{name}.{field} has no array")
        except ValueError as error:
            raise ProgramFault(str(error)) from error
        return value


def _by_names(kind: type[ctypes.Structure], settings: dict[str, Any]) -> ctypes.Structure:
    """Parameters whose fields have the values of the settings, or their defaults."""
    fields = [*field_types(kind)]
    unknown = [name for name in settings if name not in fields]
    if unknown:
        raise ProgramFault(f"there is no setting {', '.join(unknown)}; allowed: {', '.join(fields)}")
    values = {**getattr(kind, DEFAULTS, {}), **settings}
    missing = [name for name in fields if name not in values]
    if missing:
        raise ProgramFault(f"there is no value for {', '.join(missing)}; set each: --set {missing[0]}=VALUE")
    try:
        made = kind(**values)
        for name, value in values.items():
            held = getattr(made, name)
            if isinstance(value, int) and isinstance(held, int) and held != value:
                raise TypeError(f"{name} would be {held}")  # noqa: TRY301  (ctypes cuts off what is too large)
    except TypeError as error:
        shown = ", ".join(f"{name}={value!r}" for name, value in settings.items())
        raise ProgramFault(f"the settings {shown} do not fit into {kind.__name__}: {error}") from error
    return made


def _checked_chart(chart: Any) -> Chart:  # noqa: ANN401  (whatever the runner gives)
    """A chart in the one form that it may have.

    Raises:
        ProgramFault: It has another one.
    """
    try:
        groups = tuple(
            ChartGroup(
                label=str(group["label"])[:100],
                points=tuple((float(x), float(y)) for x, y in group["points"]),
                marked=bool(group.get("marked", False)),
            )
            for group in chart["groups"]
        )
        title = str(chart["title"])[:200]
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise ProgramFault(f"chart_result returns no chart: {error!r}; {_CHART}") from error
    count = sum(len(group.points) for group in groups)
    if count > MOST_POINTS or len(groups) > _MOST_GROUPS:
        raise ProgramFault(f"the chart has {count} points in {len(groups)} groups; {_CHART}")
    return Chart(title=title, groups=groups)


def _as_json(value: ctypes.Structure) -> dict[str, Any]:
    """All fields; of an array the first elements."""
    told: dict[str, Any] = {}
    for name in field_types(type(value)):
        if name in dynamic_fields(type(value)):
            count = array_bytes(value, name) // ctypes.sizeof(getattr(value, name)._type_)
            told[name] = _plain(getattr(value, name)[: min(count, MOST_POINTS)])
        else:
            found = getattr(value, name)
            told[name] = _plain(list(found)) if isinstance(found, ctypes.Array) else _plain(found)
    return told


def _plain(value: object) -> object:
    """What JSON can hold."""
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, bool | int | str) or value is None:
        return value
    return value if isinstance(value, float) and value - value == 0 else str(value)
