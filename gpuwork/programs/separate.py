"""Separates CUDA source into what is for the device and what is for the host; lines stay where they are in both.

For GPUs that nvcc does not know any more: NVRTC compiles the one, and g++ the other (docs/programs-internals.md).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_HIDDEN: Final = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'', re.DOTALL)
_DIRECTIVE: Final = re.compile(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", re.MULTILINE)
_TRANSPARENT: Final = re.compile(r'\s*(?:extern\s*"C"|(?:inline\s+)?namespace\b[^;{}()]*)\s*')
_TYPE: Final = re.compile(r"\s*(?:typedef\s+)?(?:struct|class|union|enum)\b[^()]*")
_NAME: Final = re.compile(r"([A-Za-z_]\w*)\s*\($")
_LAUNCH: Final = re.compile(r"\b([A-Za-z_]\w*)\s*<<<")
_KERNEL: Final = "__global__"
_DEVICE: Final = re.compile(r"\b__(?:global|device|constant|shared|managed)__\b")
_BOUNDS: Final = re.compile(r"__launch_bounds__\s*\([^()]*\)|\b__global__\b|\bstatic\b|\binline\b")


@dataclass(frozen=True, kw_only=True)
class Separated:
    """The two parts of a source, and the kernels that it defines."""

    device: str
    host: str
    kernels: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class _Item:
    """A piece of source at the top level; of a function with a body, the head ends before it."""

    start: int
    end: int
    head: str
    has_body: bool


def separate(source: str) -> Separated:
    """The parts of a source; raises ValueError where its braces do not match."""
    masked = _mask(source)
    device, host = list(source), list(source)
    kernels = []
    for item in _items(source, masked):
        is_device = _DEVICE.search(item.head) is not None
        if _KERNEL in item.head:
            name = _name_of(item.head)
            if item.has_body:
                kernels.append(name)
                _blank(device, item.start, item.end, "static")
            _declare(host, item, source)
        elif is_device and "__host__" not in item.head:
            _erase(host, item.start, item.end)
        elif item.has_body and not is_device:
            _erase(device, item.start, item.end)
    return Separated(device="".join(device), host=_rewrite_launches("".join(host)), kernels=tuple(kernels))


def _mask(source: str) -> str:
    """The source with spaces for comments, texts and directives, so that what is left has its structure."""

    def hide(match: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", match[0])

    return _DIRECTIVE.sub(hide, _HIDDEN.sub(hide, source))


def _items(source: str, masked: str) -> Iterator[_Item]:
    start = at = 0
    depth = 0
    while at < len(masked):
        letter = masked[at]
        if letter in "([":
            at = _matching(masked, at)
        elif letter == "{":
            head = masked[start:at]
            if _TRANSPARENT.fullmatch(_with_language(source, start, at)):
                depth, start = depth + 1, at + 1
            else:
                is_function = "(" in head and "=" not in head.partition("(")[0] and not _TYPE.fullmatch(head)
                at = _matching(masked, at)
                if is_function:
                    yield _Item(start=start, end=at + 1, head=head, has_body=True)
                    start = at + 1
        elif letter == "}":
            if not depth:
                raise ValueError(f"line {masked.count(chr(10), 0, at) + 1}: a brace closes nothing")
            depth, start = depth - 1, at + 1
        elif letter == ";":
            yield _Item(start=start, end=at + 1, head=masked[start:at], has_body=False)
            start = at + 1
        at += 1


def _with_language(source: str, start: int, end: int) -> str:
    """The head of a block, without comments and directives, but with the text of `extern "C"`."""
    head = _DIRECTIVE.sub("", source[start:end])
    return re.sub(r"//[^\n]*|/\*.*?\*/", " ", head, flags=re.DOTALL)


def _matching(masked: str, at: int) -> int:
    """Where the bracket at a place is closed."""
    pairs = {"(": ")", "[": "]", "{": "}"}
    opening, closing = masked[at], pairs[masked[at]]
    depth = 0
    for place in range(at, len(masked)):
        depth += (masked[place] == opening) - (masked[place] == closing)
        if not depth:
            return place
    raise ValueError(f"line {masked.count(chr(10), 0, at) + 1}: a bracket {opening} is not closed")


def _name_of(head: str) -> str:
    plain = _BOUNDS.sub(" ", head)
    found = _NAME.search(plain[: plain.index("(") + 1])
    if found is None:
        raise ValueError(f"a kernel has no name: {' '.join(head.split())[:100]}")
    return found[1]


def _declare(host: list[str], item: _Item, source: str) -> None:
    """Leave a declaration of a kernel, by which a launch knows the types of its parameters."""
    head = item.head
    kept = _BOUNDS.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), head)
    for offset, letter in enumerate(kept):
        if source[item.start + offset] != "\n" and head[offset].strip():
            host[item.start + offset] = letter
    body = item.start + len(head)
    _erase(host, body, item.end)
    host[body] = ";"


def _blank(text: list[str], start: int, end: int, word: str) -> None:
    """Take a word out of the beginning of an item."""
    joined = "".join(text[start:end])
    match = re.search(rf"\b{word}\b", joined[: joined.find("(")])
    if match:
        _erase(text, start + match.start(), start + match.end())


def _erase(text: list[str], start: int, end: int) -> None:
    """Put spaces in place of an item, but for its lines and its directives."""
    joined = "".join(text[start:end])
    kept = {place for match in _DIRECTIVE.finditer(joined) for place in range(match.start(), match.end())}
    for offset in range(end - start):
        if offset not in kept and text[start + offset] != "\n":
            text[start + offset] = " "


def _rewrite_launches(host: str) -> str:
    """Each `name<<<shape>>>` as an object that is called with the arguments."""
    masked = _mask(host)
    pieces, begin = [], 0
    for match in _LAUNCH.finditer(masked):
        end = masked.find(">>>", match.end())
        if end < 0:
            raise ValueError(f"line {masked.count(chr(10), 0, match.start()) + 1}: <<< is not closed")
        name, shape = match[1], host[match.end() : end]
        pieces += [host[begin : match.start()], f'GpuworkKernel<decltype({name})>("{name}", {shape})']
        begin = end + 3
    return "".join([*pieces, host[begin:]])
