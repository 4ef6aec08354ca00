"""`gpuprov queue page`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import click

from gpuprov.cli.engine import cluster_option, engine_option
from gpuprov.cli.open_fleet import open_desk
from gpuprov.cli.options import page_port_option

if TYPE_CHECKING:
    from gpuprov.cli.session import Session
    from gpuprov.roles.work.queue_page import QueuePage

PORT: Final = 5555


@click.command()
@page_port_option(PORT)
@cluster_option
@engine_option
@click.pass_obj
def command(session: Session, port: int, cluster: str, engine: str | None) -> None:
    """Let a browser on this host open the page of a cluster's queue (Flower), until Ctrl-C.

    Prints the address, and the user and password that the page asks for.
    """
    from gpuprov.core.relay import HERE
    from gpuprov.shapes.queue_page import QueuePage as Shown
    from gpuprov.stories.queue_page import relay_queue_page

    def ready(page: QueuePage) -> None:
        told = Shown(
            host=session.host.name,
            cluster=cluster,
            node=page.node,
            address=f"http://{HERE}:{port}/",
            user=page.user,
            password=page.password,
        )
        session.show(told, f"address: {told.address}\nuser: {told.user}\npassword: {told.password}")
        sys.stdout.flush()
        session.reporter.note("until Ctrl-C")

    driver = open_desk(session, engine, cluster)
    relay_queue_page(driver, cluster, port, session.host, ready=ready, reporter=session.reporter)
