"""One line of a host's record of `gpuprov run`: when a container with GPUs ran its command."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from gpuprov.shapes.base import Shape
from gpuprov.shapes.words import GpuUuid, Word

Second = Annotated[float, Meta(ge=0, le=10**11)]  # since 1970


class RunSpan(Shape, frozen=True, kw_only=True):
    """From the start of a container's command to its end; a container that is started again has another one.

    Attributes:
        id: The engine's own for this very container: several may have had its name.
        name: By which the verbs of `gpuprov run` know it.
        person: Who started it: an account of the host.
        gpus: UUIDs of the GPUs or MIG instances that it held.
        simulated: Whether these are simulated.
        began: When, in seconds since 1970, as the engine says.
        ended: When, likewise; null as long as nobody knows an end.
        seen: When it was last known to run, for what has no end.
    """

    id: Word
    name: Word
    person: Word
    image: Word
    gpus: tuple[GpuUuid, ...]
    simulated: bool
    began: Second
    ended: Second | None
    seen: Second
