"""What `gpuprov run` is asked for, here or on another host."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from msgspec import Meta, field

from gpuprov.shapes.choices import GpuMode, Restart
from gpuprov.shapes.cluster_spec import MountSpec
from gpuprov.shapes.gpu_order import GpuOrder
from gpuprov.shapes.node import Exposure
from gpuprov.shapes.orders import Names, Order, Texts
from gpuprov.shapes.words import Seconds, Word


class RunOrder(Order, frozen=True, kw_only=True):
    """One command in a container of its own.

    Attributes:
        argv: The command; it is not looked up in a shell.
        name: Of the container; empty for one that is made up.
        image: Name of an image of gpuprov's or of the engine's; null for gpuprov's own, built if need be.
        environment: Variables, each as KEY=VALUE; some ask for GPUs.
        unset: Variables of the image that the command does not get.
        user: As whom it runs; empty for the image's user.
        published: Ports of the host that lead into it.
        detach: Whether it goes on without this gpuprov, and stays until it is removed.
        restart: When the engine starts it again, `tries` times at most where that is not 0.
        reads: Whether it gets this gpuprov's standard input, and `terminal` whether its terminal.
        wait_s: How long to wait for GPUs; null not at all.
    """

    verb: ClassVar[str] = "run"
    argv: Texts
    engine: Word = "docker"
    name: Word = ""
    gpus: GpuOrder = field(default_factory=GpuOrder)
    image: str | None = None
    environment: Texts = ()
    unset: Texts = ()
    mounts: tuple[MountSpec, ...] = ()
    gpu_mode: GpuMode = "auto"
    user: Word = ""
    published: tuple[Exposure, ...] = ()
    detach: bool = False
    restart: Restart = "no"
    tries: Annotated[int, Meta(ge=0, le=1_000_000)] = 0
    reads: bool = False
    terminal: bool = False
    wait_s: Seconds | None = None


class RunsOrder(Order, frozen=True, kw_only=True):
    """The containers of `gpuprov run`."""

    verb: ClassVar[str] = "runs"


class EndRunsOrder(Order, frozen=True, kw_only=True):
    """Stop or remove some of them.

    Attributes:
        force: Whether one that runs is removed.
    """

    verb: ClassVar[str] = "end-runs"
    act: Literal["stop", "rm"]
    names: Names
    force: bool = False
