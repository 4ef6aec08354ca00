"""`gpuprov run`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, cast

import click

from gpuprov.cli.engine import gpu_mode_option, open_engine
from gpuprov.cli.gpu_options import gpu_options, mount_option, patience, typed_gpus
from gpuprov.cli.options import given_command
from gpuprov.cli.stdout import lost_output
from gpuprov.shapes.choices import ENGINES

if TYPE_CHECKING:
    from gpuprov.cli.session import Session
    from gpuprov.drivers.base import Stream
    from gpuprov.shapes.choices import GpuMode

_DESCRIPTORS: Final[dict[Stream, int]] = {"stdout": 1, "stderr": 2}
_BROKEN_PIPE = 128 + 13  # what a shell says of a command that nobody reads any more


@click.command(context_settings={"allow_interspersed_args": False})
@gpu_options
@click.option("--image", metavar="NAME", help="A gpuprov image or an image of the engine.  [default: gpuprov's own]")
@mount_option
@gpu_mode_option
@click.option(
    "--engine",
    type=click.Choice(ENGINES),
    default="docker",
    show_default=True,
    help="Engine that runs the job.",
)
@click.argument("argv", metavar="COMMAND...", nargs=-1, required=True, type=click.UNPROCESSED)
@click.pass_obj
def command(session: Session, /, argv: tuple[str, ...], engine: str, gpu_mode: str | None, **wanted: object) -> int:
    """Run a command in a container, with GPUs of its own; exits with the command's status."""
    from gpuprov.spec.mounts import parse_mount
    from gpuprov.stories.run_job import JobOrder, run_job

    given = given_command(argv)
    if not given:
        raise click.UsageError("no command given after --")
    order = JobOrder(
        argv=given,
        gpus=typed_gpus(wanted),
        image=cast("str | None", wanted["image"]),
        environment=cast("tuple[str, ...]", wanted["variables"]),
        mounts=tuple(parse_mount(text) for text in cast("tuple[str, ...]", wanted["mounts"])),
        gpu_mode=cast("GpuMode", gpu_mode or "auto"),
    )
    waiting = patience(cast("float | None", wanted["wait"]))
    driver = open_engine(session.host, engine)
    try:
        return run_job(driver, order, session.host, patience=waiting, write=_write, reporter=session.reporter)
    except BrokenPipeError:
        return _BROKEN_PIPE


def _write(stream: Stream, content: bytes) -> None:
    left = memoryview(content)
    try:
        while left:
            left = left[os.write(_DESCRIPTORS[stream], left) :]
    except BrokenPipeError:
        raise
    except OSError as error:
        raise lost_output(_DESCRIPTORS[stream], error) from error
