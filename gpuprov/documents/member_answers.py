"""What the gpuprov of another host answers, read back strictly: a document of the right version may still be wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from gpuprov.core.errors import HostNotReady
from gpuprov.core.excerpt import excerpt
from gpuprov.shapes.base import Shape, read
from gpuprov.shapes.nodes import NodeRow, Nodes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Answer = TypeVar("Answer")
Told = TypeVar("Told", bound=Shape)


def read_rows(told: Mapping[str, Any], host: str) -> tuple[NodeRow, ...]:
    """The nodes in the answer to `list`.

    Raises:
        HostNotReady: It is none.
    """
    return read_answer(Nodes, told, host).nodes


def read_answer(kind: type[Told], told: Mapping[str, Any], host: str) -> Told:
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
