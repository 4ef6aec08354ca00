"""A configuration as its file has it: YAML, or HOCON as it was written for the predecessor."""

from __future__ import annotations

import importlib
import re
from typing import TYPE_CHECKING, Final

from gpuprov.shapes.base import changed
from gpuprov.shapes.faults import Fault
from gpuprov.shapes.scalar import read_scalar
from gpuprov.shapes.written import Manner, read_yaml
from gpuwork.untrusted_files import read_limited

if TYPE_CHECKING:
    from pathlib import Path

    from gpuprov.shapes.values import Value

    Read = tuple[dict[str, tuple[object, int | None]], list[Fault]]

MOST_BYTES: Final = 256 * 1024
YAML: Final = (".yaml", ".yml")
HOCON: Final = (".conf", ".hocon")
_MANNER: Final = Manner(twice="is written twice", allowed="name: value")
_INCLUDE: Final = re.compile(r"^\s*include\b", re.MULTILINE)


def read_configuration(path: Path, *, file: str | None = None) -> Read:
    """The values of a configuration, each with its line, and what is wrong with how it is written."""
    name = file or path.name
    if path.suffix not in (*YAML, *HOCON):
        return {}, [Fault(file=name, message="is neither YAML nor HOCON by its name", allowed=", ".join(YAML + HOCON))]
    content = read_limited(path, limit=MOST_BYTES)
    if content is None:
        why = f"is not a file of at most {MOST_BYTES:,} bytes" if path.exists() else "does not exist"
        return {}, [Fault(file=name, message=why)]
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return {}, [Fault(file=name, message="is not UTF-8 text")]
    return (parse_yaml_settings if path.suffix in YAML else parse_hocon_settings)(text, file=name)


def parse_yaml_settings(text: str, *, file: str) -> Read:
    """The same of YAML: one value for each name."""
    root, faults = read_yaml(text, file=file, manner=_MANNER)
    if root is None:
        return {}, faults
    if not isinstance(root.content, dict):
        return {}, [Fault(file=file, line=root.line, message="is not a mapping", allowed="name: value")]
    return {name: (_plain(value), value.line) for name, value in root.content.items()}, [
        changed(fault, where=fault.where[:100]) for fault in faults
    ]


def _plain(value: Value) -> object:
    """A scalar; whatever else it is, as its kind."""
    if isinstance(value.content, list):
        return []
    return {} if value.tag or isinstance(value.content, dict) else value.content


def parse_hocon_settings(text: str, *, file: str) -> Read:
    """The same of HOCON. Nothing is included: that would read other files, or the network."""
    included = _INCLUDE.search(text)
    if included:
        line = text[: included.end()].count("\n") + 1
        return {}, [Fault(file=file, line=line, message="includes another file", allowed="the values themselves")]
    try:
        pyhocon = importlib.import_module("pyhocon")
    except ImportError:
        fault = Fault(file=file, message="is HOCON, which needs pyhocon", allowed="pip install pyhocon, or YAML")
        return {}, [fault]
    try:
        tree = pyhocon.ConfigFactory.parse_string(text).as_plain_ordered_dict()
    except Exception as error:  # noqa: BLE001  (its own, pyparsing's and Python's)
        words = str(error).splitlines() or [type(error).__name__]
        return {}, [Fault(file=file, line=getattr(error, "lineno", None), message=f"is not HOCON: {words[0][:200]}")]
    return {str(name): (_as_yaml_has_it(value), _line_of(str(name), text)) for name, value in tree.items()}, []


def _as_yaml_has_it(value: object) -> object:
    """HOCON takes a number with an exponent for text, in some places."""
    return read_scalar(value) if isinstance(value, str) else value


def _line_of(name: str, text: str) -> int | None:
    found = re.search(rf'^[\s{{,]*"?{re.escape(name)}"?\s*[:=]', text, re.MULTILINE)
    return text[: found.end()].count("\n") + 1 if found else None
