"""What was found before the host lock was waited for is looked for again after it: it may be elsewhere by then."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuprov.drivers.base import Driver
    from gpuprov.host.base import Host

Found = TypeVar("Found")
Result = TypeVar("Result")


class _Moved(Exception):
    """Something else is found now."""


def act_on(
    host: Host, find: Callable[[], Found], act: Callable[[Found, Host], Result], *, key: Callable[[Found], object]
) -> Result:
    """Find something and act on it; where another run was waited for and something else is found then, start over.

    Args:
        host: The machine.
        find: Finds it; takes no lock and changes nothing.
        act: Acts on it, with the host whose lock it is to take before it changes anything.
        key: Tells whether what is found is the same.
    """
    while True:
        found = find()
        known = key(found)

        def check(known: object = known) -> None:
            if key(find()) != known:
                raise _Moved

        try:
            return act(found, host.checked(check))
        except _Moved:
            continue


def act_on_engine(host: Host, find: Callable[[], Driver], act: Callable[[Driver, Host], Result]) -> Result:
    """The same with an engine."""
    return act_on(host, find, act, key=lambda driver: driver.name)
