"""`gpuprov bundle`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, cast

import click

from gpuprov.cli.engine import engine_option

if TYPE_CHECKING:
    from gpuprov.cli.session import Session
    from gpuprov.shapes.choices import Engine


@click.command()
@click.argument("file", required=False)
@engine_option
@click.pass_obj
def command(session: Session, file: str | None, engine: str | None) -> None:
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
    sources = Sources(
        engines=(cast("Engine", engine),) if engine else tuple(filter(is_installed, ENGINES)) or (DEFAULT_ENGINE,),
        host=session.host,
        root=session.host.root,
        run_logs=log_folder(os.environ, uid=os.getuid()),
        environment=os.environ,
    )
    collected = make_bundle(
        ReportFile(path, option="FILE", kind="bundle", new=True), sources, reporter=session.reporter
    )
    missing = [f"missing: {name}: {reason}" for name, reason in sorted(collected.missing.items())]
    session.show(
        Bundle(
            host=session.host.name,
            bundle=path,
            parts=tuple(sorted(collected.parts)),
            missing=collected.missing,
        ),
        "\n".join([path, *missing]),
    )
