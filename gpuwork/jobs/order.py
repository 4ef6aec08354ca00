"""What is handed in, and everything that is wrong with it."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from msgspec import UNSET

from gpuprov.shapes.base import parse_json
from gpuprov.shapes.faults import Fault, find_faults, shown
from gpuprov.shapes.job_order import JobOrder, is_plain
from gpuprov.shapes.limits import DEEPEST, MIB

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from msgspec import UnsetType

FILE: Final = "order"
WEBHOOKS: Final = ("http://", "https://")
MOST_BYTES: Final = MIB
_MOST_WORD_BYTES: Final = 128 * 1024 - 1  # the kernel's limit for one argument


def parse_order(content: bytes) -> tuple[JobOrder | None, list[Fault]]:
    """An order and everything that is wrong with it; what is wrong has its default, so that more can be looked at."""
    if len(content) > MOST_BYTES:
        return None, [_fault("", f"has more than {MOST_BYTES:,} bytes")]
    try:
        told = parse_json(content)
    except UnicodeEncodeError:
        return None, [_fault("", "has text that is not UTF-8")]
    except ValueError as error:
        return None, [_fault("", f"is not valid JSON: {error}")]
    if not isinstance(told, dict):
        return None, [_fault("", "is not a JSON object")]
    good, faults = find_faults(JobOrder, told, file=FILE)
    faults += _command_faults(good.get("command", ()))
    faults += _notify_faults(good.get("notify", UNSET))
    found = [*_argument_faults(good.get("arguments", {}))]
    order = JobOrder(**{**good, **({"arguments": {}} if found else {})})
    return order, [*faults, *found, *_together(told, order)]


def _together(told: Mapping[str, Any], order: JobOrder) -> Iterator[Fault]:
    """What is wrong although each part is right."""
    if told.get("command") and told.get("function"):
        yield _fault("command", "is given beside a function", "one of them")
    if not told.get("command") and not told.get("function"):
        yield _fault("command", "is missing, and so is function", "one of them")
    if order.function and not told.get("project"):
        yield _fault("project", "is missing", "the folder that has the function")
    if order.arguments and not told.get("function"):
        yield _fault("arguments", "is given without a function")
    if order.shards is not UNSET and told.get("gpus"):
        yield _fault("shards", "is given beside GPUs", "one of them")
    if order.gpu_type is not UNSET and not order.gpus:
        yield _fault("gpus", f"is 0, and of the type {order.gpu_type}", "1 or more")
    if order.at_most and not told.get("count"):
        yield _fault("at_most", "is given without a count")


def _command_faults(command: tuple[str, ...]) -> Iterator[Fault]:
    if command and not command[0]:
        yield _fault("command", "begins with an empty word")
    if any("\0" in word for word in command):
        yield _fault("command", "has a NUL character")
    if any(len(word.encode()) > _MOST_WORD_BYTES for word in command):
        yield _fault("command", "has a word that is longer than the kernel allows", f"{_MOST_WORD_BYTES:,} bytes")


def _notify_faults(value: str | UnsetType) -> Iterator[Fault]:
    if value is UNSET:
        return
    allowed = "a URL, or a command"
    try:
        if not value.startswith(WEBHOOKS):
            if not any(shlex.split(value)[:1]):
                yield _fault("notify", "begins with an empty word", allowed)
        elif not (value.isascii() and " " not in value and urlsplit(value).hostname and urlsplit(value).port != 0):
            yield _fault("notify", "is a URL without a host, or has a character that a URL cannot have", allowed)
        elif urlsplit(value).username is not None:
            yield _fault("notify", "is a URL with a user name", allowed)
    except ValueError as error:  # of shlex, and of a port or an address
        yield _fault("notify", f"cannot be read: {error}", allowed)


def _argument_faults(arguments: Mapping[str, Any]) -> Iterator[Fault]:
    for name, value in arguments.items():
        if not name.isidentifier():
            yield _fault(f"arguments.{shown(name)}", "is not a name of Python's")
        elif not is_plain(value):
            yield _fault(f"arguments.{name}", f"is nested more than {DEEPEST} deep")


def _fault(where: str, message: str, allowed: str = "") -> Fault:
    return Fault(file=FILE, where=where, message=message, allowed=allowed)
