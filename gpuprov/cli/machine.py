"""Verbs of this machine: explain, record, bundle, completion."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, cast

import click

from gpuprov.cli.command import Result, command
from gpuprov.cli.engine import engine_option

if TYPE_CHECKING:
    from gpuprov.cli.session import Session
    from gpuprov.core.catalogue import Entry
    from gpuprov.shapes.choices import Engine
    from gpuprov.shapes.explain import Explained, Shell


def complete_ids(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Ids that begin so."""
    from gpuprov.core.catalogue import load_catalogue

    return [name for name in load_catalogue() if name.startswith(incomplete)]


@command(
    click.argument(
        "text", metavar="TEXT|CHECK-ID", nargs=-1, required=True, type=click.UNPROCESSED, shell_complete=complete_ids
    ),
    context_settings={"ignore_unknown_options": True},
)
def explain(session: Session, text: tuple[str, ...]) -> Result:  # noqa: ARG001 - what every verb gets
    """Explain a log line or a check: its cause, how to confirm it, and the fix.

    TEXT is any log line (of the driver, NVML, CUDA, Slurm, munge, LXD, Docker or gpuprov), preferably in quotes.
    CHECK-ID is an id that `verify` or `doctor` prints. Needs neither an engine nor a network.
    """
    from gpuprov.shapes.explain import Explain
    from gpuprov.stories import explain as workflow

    entries = workflow.explain(" ".join(text))
    return Result(document=Explain(entries=tuple(map(_tell, entries))), text="\n\n".join(map(_render, entries)))


@command()
def record(session: Session) -> Result:
    """Print this host's GPU facts as one JSON document, for replay in a test or for a bug report.

    It contains devices, driver files in /proc and /sys, names of the driver's libraries, kernel, cgroup version, and
    NVML's answers. It contains UUIDs and PCI addresses of GPUs, but no host names, serial numbers or network addresses.
    """
    from gpuprov.machine.record import take_record

    taken = take_record(session.host.root)
    return Result(document=taken, text=json.dumps(taken, indent=2, ensure_ascii=False))


@command(click.argument("file", required=False), engine_option)
def bundle(session: Session, file: str | None) -> Result:
    """Collect logs, facts, findings, plans, versions and the state of each engine in one tar.gz, without secrets.

    FILE is created and never overwritten. Without it, the archive is gpuprov-bundle-TIME.tar.gz in the current folder.
    The archive lists what could not be collected, such as the nodes' logs if their engine is not running.
    """
    from datetime import datetime, timezone

    from gpuprov.cli.runlog import log_folder
    from gpuprov.core.report_file import ReportFile
    from gpuprov.drivers.registry import is_installed
    from gpuprov.shapes.bundle import Bundle
    from gpuprov.shapes.choices import DEFAULT_ENGINE, ENGINES
    from gpuprov.stories.bundle import Sources, make_bundle

    path = file or f"gpuprov-bundle-{datetime.now(timezone.utc):%Y%m%dT%H%M%S}.tar.gz"
    installed = tuple(filter(is_installed, ENGINES))
    sources = Sources(
        engines=(cast("Engine", session.engine),) if session.engine else installed or (DEFAULT_ENGINE,),
        host=session.host,
        root=session.host.root,
        run_logs=log_folder(os.environ, uid=os.getuid()),
        environment=os.environ,
    )
    collected = make_bundle(
        ReportFile(path, option="FILE", kind="bundle", new=True), sources, reporter=session.reporter
    )
    missing = [f"missing: {name}: {reason}" for name, reason in sorted(collected.missing.items())]
    document = Bundle(
        host=session.host.name,
        bundle=path,
        parts=tuple(sorted(collected.parts)),
        missing=collected.missing,
    )
    return Result(document=document, text="\n".join([path, *missing]))


@command(click.argument("shell", type=click.Choice(["bash", "zsh", "fish"])))
def completion(session: Session, shell: Shell) -> Result:  # noqa: ARG001 - as above
    """Print the shell completion script for commands, options, node names and ids of jobs.

    For bash, for all sessions: gpuprov completion bash > /etc/bash_completion.d/gpuprov
    """
    from click.shell_completion import get_completion_class

    from gpuprov.cli.main import root
    from gpuprov.shapes.explain import Completion

    kind = get_completion_class(shell)
    if kind is None:  # click.Choice lets only shells through that click knows
        raise click.UsageError(f"no completion for {shell}")
    script = kind(root(), {}, "gpuprov", "_GPUPROV_COMPLETE").source()
    return Result(document=Completion(shell=shell, script=script), text=script)


def _tell(entry: Entry) -> Explained:
    from gpuprov.shapes.explain import Explained

    fixes = {situation: entry.advise(situation) for situation in entry.fixes}
    return Explained(**{**vars(entry), "fix": entry.advise(), "fixes": fixes})


def _render(entry: Entry) -> str:
    lines = [
        f"{entry.id}: {entry.title}",
        f"  cause: {entry.cause}",
        f"  see:   {entry.see}",
        f"  fix:   {entry.advise()}",
    ]
    lines += [f"         {situation}: {entry.advise(situation)}" for situation in entry.fixes if situation != "given"]
    return "\n".join([*lines, f"  also:  {', '.join(entry.also)}"] if entry.also else lines)
