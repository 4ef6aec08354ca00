"""`gpuprov queue page`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from gpuprov.cli.command import command
from gpuprov.cli.engine import cluster_option, engine_option
from gpuprov.cli.options import page_port_option

if TYPE_CHECKING:
    from gpuprov.cli.session import Session
    from gpuprov.roles.work.queue_page import QueuePage

PORT: Final = 5555


@command(page_port_option(PORT), cluster_option, engine_option)
def page(session: Session, port: int) -> None:
    """Let a browser on this host open the page of a cluster's queue (Flower), until Ctrl-C.

    Prints the address, and the user and password that the page asks for.
    """
    from gpuprov.core.relay import HERE
    from gpuprov.shapes.queue_page import QueuePage as Shown
    from gpuprov.stories.queue_page import relay_queue_page

    def ready(found: QueuePage) -> None:
        told = Shown(
            host=session.host.name,
            cluster=session.cluster,
            node=found.node,
            address=f"http://{HERE}:{port}/",
            user=found.user,
            password=found.password,
        )
        session.show(told, f"address: {told.address}\nuser: {told.user}\npassword: {told.password}")
        sys.stdout.flush()
        session.reporter.note("until Ctrl-C")

    relay_queue_page(session.controller, session.cluster, port, session.host, ready=ready, reporter=session.reporter)
