"""`gpuprov run` and the verbs below it: containers with GPUs of their own."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from gpuprov.cli.command import Result, command
from gpuprov.cli.engine import gpu_mode_option, open_engine
from gpuprov.cli.gpu_options import container_gpu_options, mount_option, patience, typed_gpus
from gpuprov.cli.options import complete_hosts, complete_runs, given_command
from gpuprov.cli.stdout import lost_output
from gpuprov.cli.tables import PIPE, render_table
from gpuprov.core.errors import UsageError
from gpuprov.shapes.choices import ENGINES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gpuprov.cli.session import Session
    from gpuprov.cli.tables import Screen
    from gpuprov.drivers.base import Stream
    from gpuprov.fleet.done import Done
    from gpuprov.link.address import RemoteMachine
    from gpuprov.shapes.node import Exposure
    from gpuprov.shapes.run_order import RunOrder
    from gpuprov.shapes.runs import RunRow, Runs

_DESCRIPTORS: Final[dict[Stream, int]] = {"stdout": 1, "stderr": 2}
_MOST_BYTES: Final = 1_000_000  # of a file of variables
_BROKEN_PIPE = 128 + 13  # what a shell says of a command that nobody reads any more


def _container_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """All of them, in the order of `--help`."""
    options = (
        click.option("--name", metavar="NAME", help="Name of the container.  [default: job- and 8 digits]"),
        click.option("-d", "--detach", is_flag=True, help="Print the name and leave the container running."),
        click.option("-i", "--interactive", "reads", is_flag=True, help="Give the command this standard input."),
        click.option("-t", "--tty", "terminal", is_flag=True, help="Give the command this terminal, mostly as -it."),
        container_gpu_options,
        click.option("--env-file", "env_files", multiple=True, metavar="FILE", help="Set the variables in a file."),
        click.option(
            "--image", metavar="NAME", help="A gpuprov image or an image of the engine.  [default: gpuprov's own]"
        ),
        mount_option,
        click.option(
            "-p",
            "--publish",
            "published",
            multiple=True,
            metavar="[IP:]HOST:CONTAINER",
            help="Forward a port of the host into the container; without IP, for this host only; repeatable.",
        ),
        click.option("-u", "--user", metavar="USER[:GROUP]", help="User of the command.  [default: the image's user]"),
        click.option(
            "--restart",
            metavar="POLICY",
            default="no",
            show_default=True,
            help="no, on-failure[:N], unless-stopped or always; requires --detach.",
        ),
        click.option("--host", metavar="HOST", shell_complete=complete_hosts, help="Host that `host add` has added."),
        click.option(
            "--engine",
            "on_engine",
            type=click.Choice(ENGINES),
            default="docker",
            show_default=True,
            help="Engine that runs the container.",
        ),
    )
    for option in reversed(options):
        function = option(function)
    return function


@command(
    _container_options,
    gpu_mode_option,
    click.argument("argv", metavar="COMMAND...", nargs=-1, type=click.UNPROCESSED),
    context_settings={"allow_interspersed_args": False},
)
def run(session: Session, /, argv: tuple[str, ...], **typed: Any) -> Result | int:  # noqa: ANN401 - click's own
    """Run a command in a container, with GPUs of its own; exits with the command's status.

    With --detach, the container goes on by itself, and keeps its GPUs until `gpuprov run rm NAME`.

    Memory of GPUs is not overwritten before: it may hold what the last program left, and keep what this one leaves.

    A command that is called ps, logs, stop or rm follows --: gpuprov run -- ps aux
    """
    order = _make_order(argv, typed)
    if order.detach:
        from gpuprov.stories.runs import begin_run

        return _begun(session, begin_run(session.fleet, order, typed["host"]))
    return _in_foreground(session, order) if typed["host"] is None else _on_host(session, order, typed["host"])


def _on_host(session: Session, order: RunOrder, host: str) -> int:
    from gpuprov.cli.enter import run_on_host
    from gpuprov.stories.runs import run_there

    def follow(machine: RemoteMachine, name: str) -> int:
        return run_on_host(session, machine, ["run", "logs", "--follow", name])

    return run_there(session.fleet, order, host, follow)


def _in_foreground(session: Session, order: RunOrder) -> int:
    from gpuprov.lifecycle.run_job import run_job

    driver = open_engine(session.host, order.engine)
    if order.reads or order.terminal:
        from gpuprov.core.execution import run_attached
        from gpuprov.lifecycle.run_job import run_attached_job

        return run_attached_job(
            driver,
            order,
            session.host,
            patience=patience(order.wait_s),
            attach=run_attached,
            reporter=session.reporter,
        )
    try:
        return run_job(
            driver, order, session.host, patience=patience(order.wait_s), write=write_raw, reporter=session.reporter
        )
    except BrokenPipeError:
        return _BROKEN_PIPE


def _begun(session: Session, runs: Runs) -> Result:
    """The name alone for a pipe; at a terminal also what can be done next."""
    (name,) = (row.name for row in runs.runs)
    if session.screen.columns is None:
        return Result(document=runs, text=name)
    steps = ("gpuprov run ps", f"gpuprov run logs -f {name}", f"gpuprov run stop {name}", f"gpuprov run rm {name}")
    return Result(document=runs, text="\n".join([name, "next:", *(f"  {step}" for step in steps)]))


@command()
def ps(session: Session) -> Result:
    """List the containers of `gpuprov run`, running or ended, on this machine and on hosts that were added."""
    from gpuprov.fleet.questions.runs import RUNS
    from gpuprov.shapes.run_order import RunsOrder
    from gpuprov.shapes.runs import Runs

    fleet = session.fleet
    told = fleet.ask(RUNS, RunsOrder())
    told.require_answer()
    rows = tuple(row for runs in told.answers.values() for row in runs.runs)
    text = render_runs(rows, screen=session.screen, with_host=bool(fleet.known))
    nothing = "no containers of `gpuprov run`" + (" where there is an answer" if session.reporter.warned else "")
    return Result(document=Runs(host=session.host.name, runs=rows), text=text if rows else nothing, error=told.error)


def _names_argument() -> Callable[[Any], Any]:
    return click.argument("names", metavar="NAMES...", nargs=-1, required=True, shell_complete=complete_runs)


@command(
    click.argument("name", metavar="NAME", shell_complete=complete_runs),
    click.option("-f", "--follow", is_flag=True, help="Show what the command prints until it ends, or until Ctrl-C."),
    click.option("--tail", type=click.IntRange(0), metavar="N", help="Begin with the last N lines."),
)
def logs(session: Session, name: str, tail: int | None, *, follow: bool) -> int:
    """Show what the command of a container printed, its stderr on stderr. With --json, only errors are documents."""
    from gpuprov.cli.enter import run_on_host
    from gpuprov.lifecycle.runs import show_run_log
    from gpuprov.stories.runs import find_host_of_run

    machine = find_host_of_run(session.fleet, name)
    if machine is not None:
        tailed = [] if tail is None else ["--tail", str(tail)]
        words = ["run", "logs", *(["--follow"] if follow else []), *tailed, name]
        return run_on_host(session, machine, words)
    try:
        show_run_log(
            session.host, name, follow=follow, tail=tail, write=_log_writer(session), reporter=session.reporter
        )
    except BrokenPipeError:
        return _BROKEN_PIPE
    return 0


@command(_names_argument())
def stop(session: Session, names: tuple[str, ...]) -> Done:
    """Stop containers: SIGTERM, and SIGKILL 10 s later. Their logs and their GPUs stay until `gpuprov run rm NAME`."""
    from gpuprov.shapes.run_order import EndRunsOrder
    from gpuprov.stories.runs import end_runs_anywhere

    return end_runs_anywhere(session.fleet, EndRunsOrder(act="stop", names=names))


@command(_names_argument(), click.option("--force", is_flag=True, help="Also containers whose command still runs."))
def rm(session: Session, names: tuple[str, ...], *, force: bool) -> Done:
    """Remove containers that have ended, with their logs and files; their GPUs are free then."""
    from gpuprov.shapes.run_order import EndRunsOrder
    from gpuprov.stories.runs import end_runs_anywhere

    return end_runs_anywhere(session.fleet, EndRunsOrder(act="rm", names=names, force=force))


def _log_writer(session: Session) -> Callable[[Stream, bytes], object]:
    """Unchanged, but what goes to a terminal must not move its cursor, and may have colours."""
    if session.screen.columns is None:
        return write_raw
    from codecs import getincrementaldecoder

    from gpuprov.core.overwritten import Overwritten
    from gpuprov.core.printable import printable

    decoders = {stream: getincrementaldecoder("utf-8")("replace") for stream in _DESCRIPTORS}
    lines = {stream: Overwritten() for stream in _DESCRIPTORS}

    def write(stream: Stream, content: bytes) -> None:
        text = lines[stream].take(decoders[stream].decode(content))
        write_raw(stream, printable(text, styles=True).encode())

    return write


def write_raw(stream: Stream, content: bytes) -> None:
    """Write what a command wrote, unchanged."""
    left = memoryview(content)
    try:
        while left:
            left = left[os.write(_DESCRIPTORS[stream], left) :]
    except BrokenPipeError:
        raise
    except OSError as error:
        raise lost_output(_DESCRIPTORS[stream], error) from error


def _make_order(argv: tuple[str, ...], typed: Mapping[str, Any]) -> RunOrder:
    """The order of what was typed.

    Raises:
        UsageError: Something of it is wrong: all of it is told.
    """
    from gpuprov.core.all_faults import AllFaults
    from gpuprov.core.names import check_run_name
    from gpuprov.shapes.run_order import RunOrder
    from gpuprov.spec.mounts import parse_mount
    from gpuprov.spec.run_options import parse_publish, parse_restart, parse_user, refuse_same_port

    command = given_command(argv)
    faults = AllFaults()
    name, user = typed["name"], typed["user"]
    faults.found(lambda: _require_command(command))
    if name is not None:
        faults.found(lambda: check_run_name(name))
    mounts = [faults.found(lambda text=text: parse_mount(text)) for text in typed["mounts"]]  # type: ignore[misc]
    published = [faults.found(partial(parse_publish, text)) for text in typed["published"]]
    exposures = tuple(exposure for exposure in published if exposure is not None)
    faults.found(lambda: refuse_same_port(exposures))
    variables, unset = faults.found(lambda: _variables(typed)) or ((), ())
    if user is not None:
        faults.found(lambda: parse_user(user))
    restart, tries = faults.found(lambda: parse_restart(typed["restart"])) or ("no", 0)
    faults.found(lambda: _refuse_contradictions(restart, typed))
    faults.found(lambda: _refuse_streams(typed))
    faults.found(lambda: _refuse_profile(typed["host"]))
    faults.tell("nothing was started")
    return RunOrder(
        argv=command,
        engine=typed["on_engine"],
        name=name or "",
        gpus=typed_gpus(typed),
        image=typed["image"],
        environment=variables,
        unset=unset,
        mounts=tuple(mount for mount in mounts if mount is not None),
        gpu_mode=typed["gpu_mode"] or "auto",
        user=user or "",
        published=exposures,
        detach=typed["detach"],
        restart=restart,
        tries=tries,
        reads=typed["reads"],
        terminal=typed["terminal"],
        wait_s=typed["wait"],
    )


def _require_command(command: tuple[str, ...]) -> None:
    if not command:
        raise UsageError(
            "no command given after --",
            evidence="gpuprov run takes the command that the container is to run",
            fix="gpuprov run --gpus 1 -- nvidia-smi",
        )


def _refuse_contradictions(restart: str, typed: Mapping[str, Any]) -> None:
    if restart != "no" and not typed["detach"]:
        raise UsageError(
            f"--restart {restart} requires --detach",
            evidence="without --detach, the container is removed when its command ends",
            fix="add --detach, or omit --restart",
        )


def _refuse_streams(typed: Mapping[str, Any]) -> None:
    """Refuse a standard input or a terminal that the command cannot have."""
    streams = " and ".join(name for name, key in (("-i", "reads"), ("-t", "terminal")) if typed[key])
    if streams and typed["detach"]:
        raise UsageError(
            f"{streams} and --detach exclude each other",
            evidence="a container that goes on by itself has nobody's terminal",
            fix="omit one of them",
        )
    if streams and typed["host"] is not None:
        raise UsageError(
            f"{streams} and --host exclude each other",
            evidence="the streams of a container of another host are not passed on",
            fix="log in there, and run the command without --host",
        )
    if typed["terminal"] and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            "-t requires a terminal",
            evidence="standard input or standard output is none",
            fix="omit -t; -i alone passes standard input on",
        )


def _refuse_profile(host: str | None) -> None:
    profile = click.get_current_context().obj.gpu_profile
    if host is not None and profile:
        raise UsageError(
            "--gpu-profile is about this machine alone",
            evidence=f"--gpu-profile {profile} with --host {host}",
            fix="omit one of them; --gpu-mode simulated goes with --host",
        )


def _variables(typed: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    from gpuprov.spec.run_options import resolve_variables

    files = {path: _read(path) for path in typed["env_files"]}
    return resolve_variables(typed["variables"], files, os.environ)


def _read(path: str) -> str:
    try:
        with Path(path).open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise ValueError(f"it has more than {_MOST_BYTES} bytes")  # noqa: TRY301
        return content.decode()
    except (OSError, ValueError) as error:
        raise UsageError(
            f"--env-file {path} cannot be read", evidence=str(error), fix="a file with KEY=VALUE in each line"
        ) from error


def render_runs(rows: Sequence[RunRow], *, screen: Screen = PIPE, with_host: bool = False) -> str:
    """One line for each container; a simulated GPU says so in its own cell."""
    headers = ("NAME", *(("HOST",) if with_host else ()), "STATUS", "GPU", "SHARING", "PORTS", "IMAGE", "COMMAND")
    cells = [
        (
            *(row.name, *((row.host,) if with_host else ()), row.status, _gpus(row), row.sharing),
            *(", ".join(map(_port, row.ports)), row.image, row.command),
        )
        for row in rows
    ]
    return render_table(headers, cells, screen=screen, spare=("SHARING", "IMAGE", "COMMAND", "PORTS"))


def _gpus(row: RunRow) -> str:
    names = ",".join(path.removeprefix("/dev/") for path in row.devices)
    return f"{names} SIMULATED" if names and row.simulated else names


def _port(port: Exposure) -> str:
    return f"{port.listen}:{port.host_port} to {port.node_port}"
