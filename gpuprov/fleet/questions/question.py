"""A question to hosts: what it is called, what it is about, and how this machine answers it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from gpuprov.core.silence_limit import QUESTION_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuprov.core.reporter import Reporter
    from gpuprov.machine.base import Host
    from gpuprov.shapes.base import Shape
    from gpuprov.shapes.orders import Order

Asked = TypeVar("Asked", bound="Order")
Answer = TypeVar("Answer", bound="Shape")


@dataclass(frozen=True, kw_only=True)
class Question(Generic[Asked, Answer]):
    """What a host can be asked; it changes nothing.

    Attributes:
        order: What it is about.
        answer: What the answer is.
        here: How a host answers it.
        needs_engine: Whether a host without an engine has nothing to say to it.
        total_s: How long another host may take.
    """

    order: type[Asked]
    answer: type[Answer]
    here: Callable[[Asked, Host, Reporter], Answer]
    needs_engine: bool = True
    total_s: float = QUESTION_S
