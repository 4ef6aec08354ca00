"""What LXC and an instance itself wrote: why it did not start, or does not run any more."""

from __future__ import annotations

import re
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

from gpuprov.core.errors import EngineError, GpuprovError
from gpuprov.core.excerpt import excerpt, last_words
from gpuprov.drivers.base import MOST_FILE_BYTES
from gpuprov.drivers.calls import Tail
from gpuprov.drivers.lxd.again import HALF_SENT, act_again
from gpuprov.drivers.lxd.used_up import explain_used_up

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpuprov.drivers.lxd.api import LxdApi

_LOG_BYTES = 65_536
_READ_S = 5.0
_CONSOLE_S = 20.0
_PASSING = {HALF_SENT: 10}
NOT_RUNNING = "Instance is not running"
_BY_LXC = "forkstart"
_ERRORS_MOST = 6
# `lxc c000 20260101120000.123 ERROR    start - ../src/lxc/start.c:start:2197 - No such file ... - Failed to exec ...`
_ERROR = re.compile(r"^lxc \S+ \S+ ERROR\s+\S+ - \S+ - (.+)$", re.MULTILINE)
# What follows from an error before it, and would push that out
_CONSEQUENCE = re.compile(
    r"An error occurred in another process|Received container state|Failed to spawn container|"
    r"The container failed to start|To get more details|Additional information can be obtained"
)


def explain_start(api: LxdApi, name: str, error: EngineError) -> EngineError:
    """The error of a start, with the errors in the instance's lxc.log, which LXD itself does not pass on.

    Where LXD failed before it called LXC, it has said why, and the log may be that of an earlier start.
    """
    said = parse_lxc_errors(_read_log(api, name)) if _BY_LXC in error.evidence else []
    if not said:
        return error
    return type(error)(
        error.what,
        evidence="\n".join([error.evidence, *(f"lxc.log: {line}" for line in said)]),
        fix=f"read the whole log: {api.command} info {name} --show-log",
    )


@contextmanager
def last_words_of(api: LxdApi, name: str) -> Iterator[None]:
    """Where the block fails because the instance does not run, show its last words: it may have died just now."""
    try:
        yield
    except EngineError as error:
        if NOT_RUNNING not in error.evidence:
            told = explain_used_up(api, name, error)
            if told is error:
                raise
            raise told from error
        said = [f"lxc.log: {line}" for line in parse_lxc_errors(_read_log(api, name))]
        with suppress(GpuprovError):
            said += [f"console: {line}" for line in last_words(read_console(api, name)).splitlines()]
        raise type(error)(
            error.what, evidence="\n".join([error.evidence, *said]), fix=f"gpuprov start {name}"
        ) from error


def read_console(api: LxdApi, name: str) -> str:
    """The end of an instance's console log; empty where LXD keeps none yet."""
    tail = Tail(MOST_FILE_BYTES)
    try:
        act_again(partial(api.read, "instances", name, "console", take=tail.take, timeout_s=_CONSOLE_S), _PASSING)
    except EngineError as exc:
        if "no such file" not in exc.evidence:
            raise
    return tail.text()


def parse_lxc_errors(log: str) -> list[str]:
    """The errors that LXC logged, without what follows from them; partly a node's words, so they are cut short."""
    found = list(dict.fromkeys(_ERROR.findall(log)))
    causes = [line for line in found if not _CONSEQUENCE.search(line)]
    return [excerpt(line) for line in (causes or found)[-_ERRORS_MOST:]]


def _read_log(api: LxdApi, name: str) -> str:
    tail = Tail(_LOG_BYTES)
    with suppress(GpuprovError):  # there is none, or it cannot be read: then the engine's answer is all there is
        api.read("instances", name, "logs", "lxc.log", take=tail.take, timeout_s=_READ_S)
    return tail.text()
