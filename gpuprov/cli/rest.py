"""`gpuprov rest` and `gpuprov token`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import click

from gpuprov.cli.command import Result, command
from gpuprov.cli.engine import cluster_option, engine_option
from gpuprov.cli.options import duration, page_port_option

if TYPE_CHECKING:
    from gpuprov.cli.session import Session
    from gpuprov.roles.work.rest import RestService

_PORT: Final = 6820
_LONGEST_S: Final = 30 * 24 * 3600


@command(
    click.option(
        "--lifespan", default="30m", show_default=True, metavar="TIME", help="How long the token is valid, up to 720h."
    ),
    cluster_option,
    engine_option,
)
def token(session: Session, lifespan: str) -> Result:
    """Print a token with which a program may use Slurm's REST API as the account of the cluster's jobs.

    Whoever has the token can submit and end jobs of that account until it expires. It cannot be revoked.
    """
    from gpuprov.stories.rest import make_token

    lifespan_s = int(duration("--lifespan", lifespan, fix="--lifespan 8h", most_s=_LONGEST_S))
    made = make_token(session.controller, session.cluster, lifespan_s, session.host)
    return Result(document=made, text=made.token)


@command(page_port_option(_PORT), cluster_option, engine_option)
def rest(session: Session, port: int) -> None:
    """Let programs on this host use Slurm's REST API, until Ctrl-C.

    Prints the address. Each request needs a token: gpuprov token.
    """
    from gpuprov.core.relay import HERE
    from gpuprov.shapes.rest import RestShown
    from gpuprov.stories.rest import relay_rest

    def ready(found: RestService) -> None:
        shown = RestShown(
            host=session.host.name,
            cluster=session.cluster,
            node=found.node,
            address=f"http://{HERE}:{port}/",
            account=found.account,
        )
        session.show(shown, f"address: {shown.address}\naccount: {shown.account}")
        sys.stdout.flush()
        session.reporter.note("until Ctrl-C")

    relay_rest(session.controller, session.cluster, port, session.host, ready=ready, reporter=session.reporter)
