"""What the gpuprov of another host answers, read back strictly: a document of the right version may still be wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from gpuprov.core.errors import HostNotReady
from gpuprov.core.excerpt import excerpt
from gpuprov.shapes.base import Shape, read

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuprov.shapes.base import Told

Answer = TypeVar("Answer")
Wanted = TypeVar("Wanted", bound=Shape)


def read_answer(kind: type[Wanted], told: Told, host: str) -> Wanted:
    """A shape in the answer of a host.

    Raises:
        HostNotReady: It is none.
    """
    return strictly(lambda: read(kind, told), host)


def strictly(act: Callable[[], Answer], host: str) -> Answer:
    """What is read of an answer.

    Raises:
        HostNotReady: It is none.
    """
    try:
        return act()
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise HostNotReady(
            f"{host} gave an unexpected answer",
            evidence=excerpt(str(error)),
            fix=f"bring gpuprov there up to date: gpuprov host add {host}",
        ) from error
