"""`grid.yaml`: the same as a `params.py`, without Python, and with values drawn at random."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast, get_args

from gpuprov.shapes.faults import Fault
from gpuprov.shapes.written import Manner
from gpuprov.shapes.written import read_yaml as read_values

if TYPE_CHECKING:
    from gpuprov.shapes.values import Value
from gpuwork.grid.draft import Draw, DrawKind, GridDraft, Headings, Sampling, WrittenValue
from gpuwork.grid.values import ALLOWED, Foreign, as_value, name_fault, value_fault

SECTIONS: Final = ("fixed", "grid", "random", "debug")
KINDS: Final = get_args(DrawKind)
_MOST_SAMPLES: Final = 10_000
_DEEPEST: Final = 12
_HEADINGS: Final = Headings(requests="grid", defaults="fixed", debug="debug")
_MANNER: Final = Manner(aliases=False)


def read_yaml(text: str, *, file: str) -> tuple[GridDraft | None, list[Fault]]:
    """What a `grid.yaml` asks for, and what is wrong with how it is written."""
    root, faults = read_values(text, file=file, manner=_MANNER)
    if root is None and faults:
        return None, faults
    reader = _Reader(file, faults)
    sections = reader.mapping(root, "") if root is not None else {}
    for name in sections.keys() - set(SECTIONS):
        reader.fault(sections[name].line, name, "is not a section", ", ".join(SECTIONS))
    if not sections.keys() & {"grid", "random"}:
        reader.faults.append(Fault(file=file, message="has neither grid nor random", allowed=", ".join(SECTIONS)))
    fixed, debug = (reader.entries(sections, name) for name in ("fixed", "debug"))
    grid = {
        name: WrittenValue(value=[_tuples(item) for item in entry.value], line=entry.line)
        if isinstance(entry.value, list)
        else entry
        for name, entry in reader.entries(sections, "grid").items()
    }
    sampling, lines = reader.sampling(sections)
    homes: dict[str, str] = {}
    for section, names in (("fixed", fixed), ("grid", grid), ("random", lines)):
        for name in names:
            if name in homes:
                line = lines[name] if section == "random" else cast("dict[str, WrittenValue]", names)[name].line
                reader.fault(line, f"{section}.{name}", f"is also in {homes[name]}", "one section for each name")
            homes[name] = section
    draft = GridDraft(
        file=file,
        headings=_HEADINGS,
        requests=grid,
        defaults=fixed,
        debug=debug,
        random=sampling,
        defaults_required=False,
    )
    return draft, reader.faults


def _tuples(value: object) -> object:
    """A list within a list of values stands for a tuple."""
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value


class _Reader:
    """Turns what is written into values, and notes what is wrong with its line."""

    def __init__(self, file: str, faults: list[Fault]) -> None:
        self.file = file
        self.faults = faults

    def fault(self, line: int | None, where: str, message: str, allowed: str = "") -> None:
        """Note a fault."""
        self.faults.append(Fault(file=self.file, line=line, where=where, message=message, allowed=allowed))

    def mapping(self, value: Value, where: str) -> dict[str, Value]:
        """The keys of a mapping, each with its value."""
        if isinstance(value.content, dict):
            return value.content
        if value.content is not None:
            self.fault(value.begins, where, "is not a mapping", "name: value")
        return {}

    def entries(self, sections: dict[str, Value], section: str) -> dict[str, WrittenValue]:
        """The names of a section with their values."""
        if section not in sections:
            return {}
        pairs = self.mapping(sections[section], section)
        return {name: WrittenValue(value=_plain(value), line=value.line) for name, value in pairs.items()}

    def sampling(self, sections: dict[str, Value]) -> tuple[Sampling | None, dict[str, int | None]]:
        """The section `random`, and the line of each name in it."""
        if "random" not in sections:
            return None, {}
        line = sections["random"].line
        parts = self.mapping(sections["random"], "random")
        numbers = {}
        for name, most in (("samples", _MOST_SAMPLES), ("seed", 2**63)):
            value = _plain(parts[name]) if name in parts else None
            if type(value) is not int or not (name == "seed" or value > 0) or abs(value) > most:
                allowed = f"a whole number, 1 to {most}" if name == "samples" else "a whole number"
                message = "is missing" if name not in parts else f"is {value!r}"
                self.fault(parts[name].line if name in parts else line, f"random.{name}", message, allowed)
                value = 0
            numbers[name] = value
        names = {name: part for name, part in parts.items() if name not in ("samples", "seed")}
        if not names:
            self.fault(line, "random", "draws nothing", "name: {type: uniform, min: 0, max: 1}")
        draws = {name: self._draw(name, part) for name, part in names.items()}
        kept = {name: draw for name, draw in draws.items() if draw is not None}
        return Sampling(samples=numbers["samples"], seed=numbers["seed"], draws=kept), {
            name: part.line for name, part in names.items()
        }

    def _draw(self, name: str, value: Value) -> Draw | None:
        where, line = f"random.{name}", value.line
        count = len(self.faults)
        message = name_fault(name)
        if message:
            self.fault(line, where, message)
        parts = {key: _plain(part) for key, part in self.mapping(value, where).items()}
        kind = parts.get("type")
        wanted = {"type", "options"} if kind == "choice" else {"type", "min", "max"}
        if kind not in KINDS:
            self.fault(line, f"{where}.type", f"is {kind!r}", ", ".join(KINDS))
        elif parts.keys() != wanted:
            self.fault(line, where, f"has {', '.join(parts)}", ", ".join(sorted(wanted)))
        elif kind == "choice":
            return self._choice(where, line, parts["options"])
        if len(self.faults) > count:
            return None
        low, high = cast("Any", parts["min"]), cast("Any", parts["max"])
        types = (int,) if kind == "randint" else (int, float)
        if type(low) not in types or type(high) not in types or not low <= high or abs(low) + abs(high) > 2**52:
            self.fault(
                line,
                where,
                f"has min {low!r} and max {high!r}",
                f"{'whole ' if kind == 'randint' else ''}numbers, min <= max",
            )
        elif kind == "loguniform" and low <= 0:
            self.fault(line, f"{where}.min", f"is {low!r}", "above 0")
        return Draw(kind=cast("DrawKind", kind), low=low, high=high) if len(self.faults) == count else None

    def _choice(self, where: str, line: int | None, options: object) -> Draw | None:
        values = [_tuples(option) for option in options] if isinstance(options, list) else []
        message = next(filter(None, map(value_fault, values)), "") if values else "is not a list of values"
        if message:
            self.fault(line, f"{where}.options", message, f"a list; each {ALLOWED}")
            return None
        return Draw(kind="choice", options=tuple(map(as_value, values)))


def _plain(value: Value, depth: int = 0) -> object:
    """A scalar or a list; whatever else it is, as something that no parameter may be."""
    if isinstance(value.content, list):
        if depth == _DEEPEST:
            return Foreign("a list that is nested too deeply")
        return [_plain(item, depth + 1) for item in value.content]
    if isinstance(value.content, dict):
        return {}
    return Foreign(f"an object tagged {value.tag}") if value.tag else value.content
