"""A YAML or JSON text as plain values that remember the line they stand on."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from gpuprov.core.errors import Problem

if TYPE_CHECKING:
    from yaml.nodes import MappingNode, Node

_PLAIN = tuple(f"tag:yaml.org,2002:{kind}" for kind in ("null", "bool", "int", "float"))
# A date is text here, and the merge key `<<` is refused as any unknown key is.
_TAGS = (*_PLAIN, *(f"tag:yaml.org,2002:{kind}" for kind in ("str", "seq", "map", "timestamp", "merge", "value")))
WHOLE = "spec"  # the path of a problem with the document as a whole


@dataclass(frozen=True, kw_only=True)
class Value:
    """One value of a document.

    Attributes:
        content: A scalar, a list of Values, or a dict of Values by key.
        line: Line in the file, counted from 1; None where there is no file.
    """

    content: bool | int | float | str | list[Value] | dict[str, Value] | None
    line: int | None = None


def problem(path: str, value: Value | int | None, message: str, *, allowed: str = "") -> Problem:
    """A Problem that begins with the line, where one is known."""
    line = value.line if isinstance(value, Value) else value
    return Problem(path=path, message=f"line {line}: {message}" if line is not None else message, allowed=allowed)


def parse_json(text: str) -> Value:
    """Read a JSON text; raises ValueError where it is none."""
    return from_plain(json.loads(text))


def from_plain(plain: object) -> Value:
    """What `json.loads` gives, as Values."""
    if isinstance(plain, dict):
        return Value(content={str(key): from_plain(item) for key, item in plain.items()})
    if isinstance(plain, list):
        return Value(content=[from_plain(item) for item in plain])
    return Value(content=cast("bool | int | float | str | None", plain))


def parse_yaml(text: str) -> tuple[Value | None, list[Problem]]:
    """Read a YAML text strictly: a key given twice, or an alias inside itself, is a problem.

    Returns:
        The document, None where there is none (an empty file, or bad syntax), and every problem found.
    """
    import yaml

    try:
        root: Node | None = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        message = " ".join(part for part in (error.context, error.problem) if part)
        return None, [problem(WHOLE, mark.line + 1 if mark else None, f"not YAML: {message}")]
    except (yaml.YAMLError, RecursionError) as error:
        return None, [Problem(path=WHOLE, message=f"not YAML: {str(error).splitlines()[0]}")]
    if root is None:
        return None, []
    reader = _Reader()
    return reader.read(root, ""), reader.problems


class _Reader:
    """Turns YAML nodes into Values; an anchor is read once, however often it is used."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self._done: dict[int, Value] = {}
        self._open: set[int] = set()

    def read(self, node: Node, path: str) -> Value:
        """Turn one node, and all below it, into a Value."""
        line = node.start_mark.line + 1
        known = self._done.get(id(node))
        if known is not None:
            return known
        if id(node) in self._open:
            self.problems.append(problem(path or WHOLE, line, "an alias refers to a value that contains it"))
            return Value(content=None, line=line)
        if node.tag not in _TAGS:
            self.problems.append(problem(path or WHOLE, line, f"the tag {node.tag[:60]} is not allowed"))
        self._open.add(id(node))
        value = Value(content=self._content(node, path), line=line)
        self._open.discard(id(node))
        self._done[id(node)] = value
        return value

    def _content(self, node: Node, path: str) -> bool | int | float | str | list[Value] | dict[str, Value] | None:
        from yaml.nodes import MappingNode, SequenceNode

        if isinstance(node, MappingNode):
            return self._mapping(node, path)
        if isinstance(node, SequenceNode):
            return [self.read(item, f"{path}[{index}]") for index, item in enumerate(node.value)]
        return self._scalar(node, path)

    def _mapping(self, node: MappingNode, path: str) -> dict[str, Value]:
        content: dict[str, Value] = {}
        first_line: dict[str, int] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node.value, str):
                self.problems.append(problem(path or WHOLE, line, "a key is not plain text"))
                continue
            key = key_node.value
            at = f"{path}.{key}" if path else key
            value = self.read(value_node, at)
            if key in content:
                self.problems.append(problem(at, line, f"duplicate key, first used on line {first_line[key]}"))
                continue
            first_line[key] = line
            # A section begins below its key: point at the key, where the reader looks for it.
            content[key] = Value(content=value.content, line=line)
        return content

    def _scalar(self, node: Node, path: str) -> bool | int | float | str | None:
        from yaml.constructor import SafeConstructor

        if node.tag not in _PLAIN:
            return str(node.value)
        try:
            plain = cast("Any", SafeConstructor()).construct_object(node)
        except (ValueError, KeyError):
            self.problems.append(problem(path, node.start_mark.line + 1, f"not a number: {node.value[:40]}"))
            return None
        return cast("bool | int | float | None", plain)
