"""YAML that a person wrote, read strictly, as values that know their line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from gpuprov.shapes.faults import Fault
from gpuprov.shapes.scalar import read_scalar
from gpuprov.shapes.values import Scalar, Value

if TYPE_CHECKING:
    from yaml.nodes import MappingNode, Node, ScalarNode

_PREFIX: Final = "tag:yaml.org,2002:"
_PLAIN: Final = tuple(f"{_PREFIX}{kind}" for kind in ("null", "bool", "int", "float"))
# A date is text here, and the merge key `<<` a key as any other
_TAGS: Final = (*_PLAIN, *(f"{_PREFIX}{kind}" for kind in ("str", "seq", "map", "timestamp", "merge", "value")))


def word_as_yaml_1_1(node: ScalarNode) -> Scalar:
    """A scalar by the rules of YAML 1.1: `yes` is true, and `0x10` is 16. Raises ValueError for a broken number."""
    from yaml.constructor import SafeConstructor

    if node.tag not in _PLAIN:
        return str(node.value)
    try:
        return cast("Scalar", cast("Any", SafeConstructor()).construct_object(node))
    except KeyError as error:
        raise ValueError(str(error)) from error


def word_as_yaml_1_2(node: ScalarNode) -> Scalar:
    """A scalar by those of YAML 1.2; in quotes, or as a block, it is text."""
    return str(node.value) if node.style is not None else read_scalar(str(node.value))


@dataclass(frozen=True, kw_only=True)
class Manner:
    """How files of a kind are read, and what is said of what is wrong in them.

    Attributes:
        word: Gives the value of a scalar; raises ValueError.
        syntax: Before what the parser says.
        twice: Of a key; `{first}` is the line where it is first.
        key: Of a key that is no text.
        allowed: What would be right in its place.
        tag: Of a value with a tag of its own; empty where the value's reader says that.
        aliases: Whether there may be any.
    """

    word: Callable[[ScalarNode], Scalar] = word_as_yaml_1_2
    syntax: str = "is not YAML"
    twice: str = "is written twice, first on line {first}"
    key: str = "a key is not text"
    allowed: str = ""
    tag: str = ""
    aliases: bool = True


def read_yaml(text: str | bytes, *, file: str, manner: Manner) -> tuple[Value | None, list[Fault]]:
    """The document, None where there is none (an empty file, or bad syntax), and everything that is wrong.

    Args:
        text: What is written.
        manner: How it is read.
    """
    import yaml

    def broken(line: int | None, words: str) -> tuple[None, list[Fault]]:
        return None, [Fault(file=file, line=line, message=f"{manner.syntax}: {words}")]

    try:
        if not manner.aliases:
            for event in yaml.parse(text, Loader=yaml.SafeLoader):
                if isinstance(event, yaml.AliasEvent):
                    line = event.start_mark.line + 1 if event.start_mark else None
                    found = Fault(file=file, line=line, message="has an alias (*name)", allowed="the value itself")
                    return None, [found]
        root: Node | None = yaml.compose(text, Loader=yaml.SafeLoader)
        if root is None:
            return None, []
        reader = _Reader(file, manner)
        return reader.read(root, ""), reader.faults
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        return broken(
            mark.line + 1 if mark else None, " ".join(part for part in (error.context, error.problem) if part)
        )
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        return broken(None, str(error).splitlines()[0][:200])


class _Reader:
    """Turns YAML nodes into Values; an anchor is read once, however often it is used."""

    def __init__(self, file: str, manner: Manner) -> None:
        self.faults: list[Fault] = []
        self._file = file
        self._manner = manner
        self._done: dict[int, Value] = {}
        self._open: set[int] = set()

    def read(self, node: Node, path: str) -> Value:
        """Turn one node, and all below it, into a Value."""
        line = node.start_mark.line + 1
        known = self._done.get(id(node))
        if known is not None:
            return known
        if id(node) in self._open:
            self._fault(path, line, "an alias refers to a value that contains it")
            return Value(content=None, line=line)
        tag = None if node.tag in _TAGS else node.tag[:60]
        if tag is not None and self._manner.tag:
            self._fault(path, line, self._manner.tag.format(tag=tag))
        self._open.add(id(node))
        value = Value(content=self._content(node, path), line=line, begins=line, tag=tag)
        self._open.discard(id(node))
        self._done[id(node)] = value
        return value

    def _content(self, node: Node, path: str) -> Scalar | list[Value] | dict[str, Value]:
        from yaml.nodes import MappingNode, SequenceNode

        if isinstance(node, MappingNode):
            return self._mapping(node, path)
        if isinstance(node, SequenceNode):
            return [self.read(item, f"{path}[{index}]") for index, item in enumerate(node.value)]
        try:
            return self._manner.word(cast("ScalarNode", node))
        except ValueError:
            self._fault(path, node.start_mark.line + 1, f"not a number: {node.value[:40]}")
            return None

    def _mapping(self, node: MappingNode, path: str) -> dict[str, Value]:
        content: dict[str, Value] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node.value, str):
                self._fault(path, line, self._manner.key, self._manner.allowed)
                continue
            key = key_node.value
            at = f"{path}.{key}" if path else key
            value = self.read(value_node, at)
            if key in content:
                self._fault(at, line, self._manner.twice.format(first=content[key].line, key=key))
                continue
            # A section begins below its key: point at the key, where the reader looks for it.
            content[key] = Value(content=value.content, line=line, begins=value.begins, tag=value.tag)
        return content

    def _fault(self, where: str, line: int, message: str, allowed: str = "") -> None:
        self.faults.append(Fault(file=self._file, line=line, where=where, message=message, allowed=allowed))
