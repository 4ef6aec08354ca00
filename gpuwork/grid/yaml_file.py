"""`grid.yaml`: the same as a `params.py`, without Python, and with values drawn at random."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast, get_args

import yaml

from gpuprov.shapes.faults import Fault
from gpuwork.grid.draft import Draw, DrawKind, GridDraft, Headings, Sampling, WrittenValue
from gpuwork.grid.values import ALLOWED, Foreign, as_value, name_fault, value_fault
from gpuwork.yaml_scalar import is_null, read_scalar

if TYPE_CHECKING:
    from yaml.nodes import Node

SECTIONS: Final = ("fixed", "grid", "random", "debug")
KINDS: Final = get_args(DrawKind)
_MOST_SAMPLES: Final = 10_000
_DEEPEST: Final = 12
_HEADINGS: Final = Headings(requests="grid", defaults="fixed", debug="debug")
_TAGS: Final = frozenset({"null", "bool", "int", "float", "str", "timestamp", "merge", "value"})


def read_yaml(text: str, *, file: str) -> tuple[GridDraft | None, list[Fault]]:
    """What a `grid.yaml` asks for, and what is wrong with how it is written."""
    try:
        aliases = [event for event in yaml.parse(text, Loader=yaml.SafeLoader) if isinstance(event, yaml.AliasEvent)]
        if aliases:
            mark = aliases[0].start_mark
            line = mark.line + 1 if mark else None
            return None, [Fault(file=file, line=line, message="has an alias (*name)", allowed="the value itself")]
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        message = " ".join(part for part in (error.context, error.problem) if part)
        return None, [Fault(file=file, line=mark.line + 1 if mark else None, message=f"is not YAML: {message}")]
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        return None, [Fault(file=file, message=f"is not YAML: {str(error).splitlines()[0]}")]
    reader = _Reader(file)
    sections: dict[str, tuple[Node, int]] = reader.mapping(root, "") if root is not None else {}
    for name in sections.keys() - set(SECTIONS):
        reader.fault(sections[name][1], name, "is not a section", ", ".join(SECTIONS))
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
    """Turns YAML nodes into values, and notes what is wrong with its line."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.faults: list[Fault] = []

    def fault(self, line: int | None, where: str, message: str, allowed: str = "") -> None:
        """Note a fault."""
        self.faults.append(Fault(file=self.file, line=line, where=where, message=message, allowed=allowed))

    def mapping(self, node: Node, where: str) -> dict[str, tuple[Node, int]]:
        """The keys of a mapping, each with its value and its line."""
        if not isinstance(node, yaml.MappingNode):
            if not (isinstance(node, yaml.ScalarNode) and is_null(node.value)):
                self.fault(node.start_mark.line + 1, where, "is not a mapping", "name: value")
            return {}
        found: dict[str, tuple[Node, int]] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            name = str(key.value) if isinstance(key, yaml.ScalarNode) else "?"
            if name in found:
                at = f"{where}.{name}" if where else name
                self.fault(line, at, f"is written twice, first on line {found[name][1]}")
            found[name] = (value, line)
        return found

    def entries(self, sections: dict[str, tuple[Node, int]], section: str) -> dict[str, WrittenValue]:
        """The names of a section with their values."""
        if section not in sections:
            return {}
        pairs = self.mapping(sections[section][0], section)
        return {name: WrittenValue(value=_plain(node), line=line) for name, (node, line) in pairs.items()}

    def sampling(self, sections: dict[str, tuple[Node, int]]) -> tuple[Sampling | None, dict[str, int]]:
        """The section `random`, and the line of each name in it."""
        if "random" not in sections:
            return None, {}
        node, line = sections["random"]
        parts = self.mapping(node, "random")
        numbers = {}
        for name, most in (("samples", _MOST_SAMPLES), ("seed", 2**63)):
            value = _plain(parts[name][0]) if name in parts else None
            if type(value) is not int or not (name == "seed" or value > 0) or abs(value) > most:
                allowed = f"a whole number, 1 to {most}" if name == "samples" else "a whole number"
                message = "is missing" if name not in parts else f"is {value!r}"
                self.fault(parts[name][1] if name in parts else line, f"random.{name}", message, allowed)
                value = 0
            numbers[name] = value
        names = {name: part for name, part in parts.items() if name not in ("samples", "seed")}
        if not names:
            self.fault(line, "random", "draws nothing", "name: {type: uniform, min: 0, max: 1}")
        draws = {name: self._draw(name, *part) for name, part in names.items()}
        kept = {name: draw for name, draw in draws.items() if draw is not None}
        return Sampling(samples=numbers["samples"], seed=numbers["seed"], draws=kept), {
            name: at for name, (_, at) in names.items()
        }

    def _draw(self, name: str, node: Node, line: int) -> Draw | None:
        where = f"random.{name}"
        count = len(self.faults)
        message = name_fault(name)
        if message:
            self.fault(line, where, message)
        parts = {key: _plain(value) for key, (value, _) in self.mapping(node, where).items()}
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

    def _choice(self, where: str, line: int, options: object) -> Draw | None:
        values = [_tuples(option) for option in options] if isinstance(options, list) else []
        message = next(filter(None, map(value_fault, values)), "") if values else "is not a list of values"
        if message:
            self.fault(line, f"{where}.options", message, f"a list; each {ALLOWED}")
            return None
        return Draw(kind="choice", options=tuple(map(as_value, values)))


def _plain(node: Node, depth: int = 0) -> object:
    """A node as a scalar or a list; whatever else it is, as something that no parameter may be."""
    if isinstance(node, yaml.SequenceNode):
        if depth == _DEEPEST:
            return Foreign("a list that is nested too deeply")
        return [_plain(item, depth + 1) for item in node.value]
    if not isinstance(node, yaml.ScalarNode):
        return {}
    text = str(node.value)
    if node.tag.removeprefix("tag:yaml.org,2002:") not in _TAGS:
        return Foreign(f"an object tagged {node.tag[:60]}")
    return text if node.style is not None else read_scalar(text)  # in quotes, or a block: a string
