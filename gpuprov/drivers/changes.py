"""One change of a node at a time, also by commands that do not hold the host's lock."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec, Protocol, TypeVar

from gpuprov.core.change_lock import change_lock
from gpuprov.core.group_files import Gates
from gpuprov.drivers.sockets import engine_groups

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager


class _Named(Protocol):
    @property
    def name(self) -> str: ...


_P = ParamSpec("_P")
_R = TypeVar("_R")
_D = TypeVar("_D", bound=_Named)


def one_change(engine: str, thing: str) -> AbstractContextManager[None]:
    """Hold the lock of a node, or of a port, of an engine for the block; it is not taken twice."""
    return change_lock(Gates(groups=engine_groups()), f"{engine} {thing}")


def one_at_a_time(change: Callable[Concatenate[_D, str, _P], _R]) -> Callable[Concatenate[_D, str, _P], _R]:
    """A driver's method that holds the lock of the node it is called with."""

    @wraps(change)
    def held(driver: _D, node: str, /, *args: _P.args, **options: _P.kwargs) -> _R:
        with one_change(driver.name, node):
            return change(driver, node, *args, **options)

    return held
