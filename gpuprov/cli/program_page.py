"""`gpuprov program page`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import click

from gpuprov.cli.engine import cluster_option, engine_option
from gpuprov.cli.open_fleet import open_desk
from gpuprov.cli.options import page_port_option

if TYPE_CHECKING:
    from gpuprov.cli.session import Session
    from gpuprov.roles.work.queue_page import NodePage

PORT: Final = 8787


@click.command()
@page_port_option(PORT)
@cluster_option
@engine_option
@click.pass_obj
def command(session: Session, port: int, cluster: str, engine: str | None) -> None:
    """Let a browser on this host open Dask's page of the run that is under way, until Ctrl-C. Prints the address."""
    from gpuprov.core.relay import HERE
    from gpuprov.shapes.program_runs import ProgramPage
    from gpuprov.stories.programs import get_run_page
    from gpuprov.stories.queue_page import serve_page

    def ready(page: NodePage) -> None:
        address = f"http://{HERE}:{port}/status"
        document = ProgramPage(host=session.host.name, cluster=cluster, node=page.node, address=address)
        session.show(document, f"address: {address}")
        sys.stdout.flush()
        session.reporter.note("until Ctrl-C")

    driver = open_desk(session, engine, cluster)
    serve_page(
        *(driver, get_run_page(driver, cluster), cluster, port, session.host),
        verb="gpuprov program page", ready=ready, reporter=session.reporter,
    )  # fmt: skip
