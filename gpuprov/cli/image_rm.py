"""`gpuprov image rm`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpuprov.cli.engine import engine_option, open_engine_of_image, show_outcome

if TYPE_CHECKING:
    from gpuprov.cli.session import Session
    from gpuprov.core.outcome import Outcome
    from gpuprov.drivers.base import Driver
    from gpuprov.machine.base import Host


@click.command()
@click.argument("name")
@engine_option
@click.pass_obj
def command(session: Session, name: str, engine: str | None) -> None:
    """Remove a node image, by name or by the first digits of its fingerprint. Nodes created from it are kept."""
    from gpuprov.cluster.retry_after_wait import act_on_engine
    from gpuprov.lifecycle.standalone_image import remove_image

    def remove(driver: Driver, host: Host) -> Outcome:
        return remove_image(driver, name, host, reporter=session.reporter)

    show_outcome(session, act_on_engine(session.host, lambda: open_engine_of_image(session, engine, name), remove))
