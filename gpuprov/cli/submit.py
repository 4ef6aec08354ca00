"""`gpuprov submit`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from gpuprov.cli.command import Result, command
from gpuprov.cli.engine import cluster_option, engine_option
from gpuprov.cli.options import (
    as_option,
    check_submission,
    complete_jobs,
    gpus_option,
    memory_option,
    parse_gpus,
    parse_time_limit,
    retries_option,
    time_option,
)
from gpuprov.core.errors import UsageError
from gpuprov.core.excerpt import excerpt
from gpuprov.core.own_folders import home_folder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuprov.cli.session import Session
    from gpuprov.shapes.job_order import JobOrder
    from gpuprov.stories.jobs import ProjectChoice

_COMMAND: Final = "gpuprov.command"  # what stands behind `--`
_MEANT: Final = "gpuprov.meant"  # the line that was meant, if its first word begins a command


class _BeforeCommand(click.Command):
    """Parses what stands before `--`; what stands behind it is a command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Split at the first `--`."""
        at = args.index("--") if "--" in args else len(args)
        ctx.meta[_COMMAND] = tuple(args[at + 1 :])
        ctx.meta[_MEANT] = meant = None if "--" in args else self._with_dashes(ctx, args)
        try:
            return super().parse_args(ctx, args[:at])
        except click.NoSuchOption as error:
            if meant is None:
                raise
            raise UsageError(
                f"submit has no option {error.option_name}; a command comes after --",
                evidence="only options of gpuprov and the name of a function come before --",
                fix=meant,
            ) from error

    def _with_dashes(self, ctx: click.Context, args: Sequence[str]) -> str | None:
        """The same line with `--` before its first word; None where no command can be told from options."""
        options = {name: one for one in self.get_params(ctx) if isinstance(one, click.Option) for name in one.opts}
        left = [*args]
        while left and left[0].startswith("-"):
            name, equals, _ = left.pop(0).partition("=")
            if name not in options:
                return None
            if not equals and not options[name].is_flag:
                del left[:1]
        if not left or ":" in left[0]:
            return None
        program = ["python3"] if left[0].endswith(".py") else []
        return shlex.join(["gpuprov", "submit", *args[: len(args) - len(left)], "--", *program, *left])

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """With both forms."""
        return [*super().collect_usage_pieces(ctx), "| -- COMMAND..."]


@command(
    click.argument("words", metavar="[FUNCTION]", nargs=-1),
    click.option(
        "-a",
        "--argument",
        "arguments",
        multiple=True,
        metavar="NAME=VALUE",
        help="Argument of the function; repeatable.",
    ),
    click.option("--project", metavar="DIR", help="Folder whose files the jobs get.  [default: the current folder]"),
    click.option("--no-project", is_flag=True, help="Submit a bare command, without files."),
    click.option("--name", metavar="NAME", help="Name of the jobs.  [default: the script, command or function]"),
    click.option("--count", type=int, metavar="N", help="Number of runs; {n} becomes the number of each, from 0."),
    click.option("--at-most", type=int, metavar="N", help="Number of runs at the same time; requires --count."),
    time_option,
    retries_option,
    memory_option,
    click.option(
        "--after",
        multiple=True,
        metavar="ID",
        callback=lambda _context, _parameter, ids: tuple(dict.fromkeys(map(check_submission, ids))),
        shell_complete=complete_jobs,
        help="Begin once all runs of job ID are done, and never if one of them fails; repeatable.",
    ),
    click.option(
        "--notify",
        metavar="URL|COMMAND",
        help="Post to this URL, or run this command in a node, once all runs have ended.",
    ),
    click.option(
        "--partition",
        metavar="NAME",
        help="Partition of Slurm that the jobs go to.  [default: that of the cluster's spec]",
    ),
    click.option("--qos", metavar="NAME", help="QOS of Slurm: limits that the jobs choose by name."),
    gpus_option,
    click.option("--shards", type=int, metavar="N", help="Shards of a GPU for each run, instead of GPUs."),
    click.option("--wait", is_flag=True, help="Wait until the jobs have ended; exit with 1 if not all are done."),
    click.option(
        "--on-interrupt",
        type=click.Choice(["leave", "cancel"]),
        help="With --wait: what happens to the jobs on Ctrl-C.  [default: leave]",
    ),
    as_option,
    cluster_option,
    engine_option,
    kind=_BeforeCommand,
)
def submit(session: Session, /, **given: Any) -> Result:  # noqa: ANN401 - what click hands over, by name
    """Submit a command, or a function of the project, to the cluster's batch system, and print the id of the job.

    Jobs run on a frozen copy of the project: the files of the current folder that git knows or would add, or else all
    but caches and environments. The VALUE of an argument is a number, true, false, null or text, as in YAML.

    A command: gpuprov submit --time 12h -- python3 train.py --lr 0.1

    Many: gpuprov submit --count 100 --at-most 8 -- python3 seed.py {n}

    A function: gpuprov submit app.tasks:train -a units=128
    """
    from gpuprov.stories.jobs import submit_jobs

    meta = click.get_current_context().meta
    order, project = _order(meta[_COMMAND], given, meant=meta[_MEANT])
    submitted = submit_jobs(
        lambda: session.controller,
        session.cluster,
        order,
        project,
        host=session.host,
        home=home_folder(),
        reporter=session.reporter,
        person=given["person"],
    )
    if given["wait"]:
        return _wait(session, submitted.id, given["person"], cancel=given["on_interrupt"] == "cancel")
    return Result(document=submitted, text=submitted.id)


def _wait(session: Session, job: str, person: str, *, cancel: bool) -> Result:
    from gpuprov.cli.jobs import ended, leaving
    from gpuprov.stories.jobs import cancel_jobs

    session.reporter.note(f"submitted {job}")
    if not cancel:
        with leaving(session, [job], person):
            return ended(session, [job], person)
    try:
        return ended(session, [job], person)
    except KeyboardInterrupt:
        cancel_jobs(session.controller, session.cluster, [job], person=person)
        session.reporter.warn(f"cancelled {job}")
        raise


def _order(behind: Sequence[str], given: dict[str, Any], *, meant: str | None = None) -> tuple[JobOrder, ProjectChoice]:
    """What is to be run, with whose files.

    Args:
        behind: The command after `--`.
        given: The options and the words before it.
        meant: The line that was meant, if the words are a command.

    Raises:
        UsageError: Something typed is wrong: all of it is told.
    """
    from msgspec import UNSET

    from gpuprov.core.all_faults import AllFaults
    from gpuprov.project.order_check import NOTHING, judge_order
    from gpuprov.shapes.job_order import JobOrder
    from gpuprov.spec.gpu_order import parse_memory
    from gpuprov.stories.jobs import ProjectChoice

    faults = AllFaults()
    function = faults.found(lambda: _function(given["words"], behind, meant))
    memory, shards = given["memory"], given["shards"]
    gpu_type, gpus = faults.found(lambda: parse_gpus(given["gpus"])) or (UNSET, None)
    order = JobOrder(
        command=tuple(behind),
        function=function,
        arguments=faults.found(lambda: _arguments(given["arguments"], given["words"])) or {},
        name=given["name"],
        count=given["count"],
        at_most=given["at_most"],
        time_limit_s=faults.found(lambda: parse_time_limit(given["time_limit"])),
        memory_bytes=None if memory is None else faults.found(lambda: parse_memory(memory, "--memory")),
        gpus=int(shards is None) if gpus is None else gpus,
        gpu_type=gpu_type,
        retries=given["retries"],
        after=given["after"] or UNSET,
        notify=UNSET if given["notify"] is None else given["notify"],
        shards=UNSET if shards is None else shards,
        partition=UNSET if given["partition"] is None else given["partition"],
        qos=UNSET if given["qos"] is None else given["qos"],
    )
    project = faults.found(lambda: _project(given)) or ProjectChoice(folder=None)
    faults.found(lambda: _check_interrupt(given))
    if faults and (function or behind):
        faults.found(lambda: judge_order(order, project.folder))
    faults.tell(NOTHING)
    return order, project


def _check_interrupt(given: dict[str, Any]) -> None:
    if given["on_interrupt"] and not given["wait"]:
        raise UsageError(
            "--on-interrupt requires --wait",
            evidence=f"--on-interrupt {given['on_interrupt']}",
            fix="add --wait, or omit --on-interrupt",
        )


def _function(words: Sequence[str], behind: Sequence[str], meant: str | None) -> str | None:
    """What stands before `--`; None for a command.

    Raises:
        UsageError: There is neither, or both, or what is no function.
    """
    example = "a command: gpuprov submit -- python3 train.py; or a function: gpuprov submit app.tasks:train"
    if not words and not behind:
        raise UsageError(
            "there is nothing to submit", evidence="neither a command after -- nor a function", fix=example
        )
    if words and behind:
        shown = excerpt(" ".join(words))
        raise UsageError("a job is a command or a function, not both", evidence=f"{shown} before --", fix=example)
    if not words:
        return None
    if len(words) > 1 or ":" not in words[0]:
        raise UsageError(
            f"{excerpt(' '.join(words))!r} is not MODULE:FUNCTION, and a command comes after --",
            evidence="only the name of a function comes before --, such as app.tasks:train",
            fix=meant or example,
        )
    return words[0]


def _arguments(texts: Sequence[str], words: Sequence[str]) -> dict[str, object]:
    from gpuprov.spec.scalar import parse_scalar

    if texts and not words:
        raise UsageError(
            "-a is for functions, not for commands",
            evidence=f"-a {excerpt(texts[0])}",
            fix="write the command's arguments after it: gpuprov submit -- python3 train.py --lr 0.1",
        )

    arguments: dict[str, object] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name or name in arguments:
            raise UsageError(
                f"-a {excerpt(text)!r} {'is given twice' if name in arguments else 'is not NAME=VALUE'}",
                evidence="allowed: each argument of the function once",
                fix="gpuprov submit app.tasks:train -a units=128 -a rate=1e-3",
            )
        arguments[name] = parse_scalar(value)
    return arguments


def _project(given: dict[str, Any]) -> ProjectChoice:
    from gpuprov.stories.jobs import ProjectChoice

    named: str | None = given["project"]
    if given["no_project"]:
        if named is not None:
            raise UsageError(
                "--project and --no-project exclude each other", evidence=f"--project {named}", fix="omit one of them"
            )
        return ProjectChoice(folder=None, chosen=True)
    return ProjectChoice(folder=Path(named or "").absolute(), chosen=named is not None)
