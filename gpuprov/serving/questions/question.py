"""A question to hosts: what it is called, what it is about, and how this machine answers it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from gpuprov.core.silence_limit import QUESTION_S
from gpuprov.shapes.base import Shape

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuprov.core.reporter import Reporter
    from gpuprov.host.base import Host

Order = TypeVar("Order")
Answer = TypeVar("Answer", bound=Shape)


@dataclass(frozen=True, kw_only=True)
class Question(Generic[Order, Answer]):
    """What a host can be asked; it changes nothing.

    Attributes:
        verb: Its name in requests to other hosts.
        order: What it is about.
        answer: What the answer is.
        here: How a host answers it.
        needs_engine: Whether a host without an engine has nothing to say to it.
        total_s: How long another host may take.
    """

    verb: str
    order: type[Order]
    answer: type[Answer]
    here: Callable[[Order, Host, Reporter], Answer]
    needs_engine: bool = True
    total_s: float = QUESTION_S
