"""Verbs that end what runs in nodes: `rm` and `stop` take the same words and differ in their story alone."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Protocol, cast

import click

from gpuprov.cli.engine import change_nodes, engine_option
from gpuprov.cli.job_options import job_options
from gpuprov.cli.nodes_there import change_there
from gpuprov.cli.parameters import nodes_argument

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpuprov.cli.session import Session
    from gpuprov.core.outcome import Outcome
    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver
    from gpuprov.host.base import Host
    from gpuprov.planes.across.leaving import JobsPolicy
    from gpuprov.shapes.orders import Act

    class Story(Protocol):
        """What ends nodes."""

        def __call__(
            self, driver: Driver, names: Sequence[str], host: Host, *, reporter: Reporter, policy: JobsPolicy
        ) -> Outcome:
            """End them."""


def ends_nodes(find: Callable[[], Story]) -> click.Command:
    """The command of a story that `find` imports when the verb is invoked; its docstring is the help."""

    @click.command()
    @nodes_argument()
    @job_options
    @engine_option
    @click.pass_obj
    @functools.wraps(find)
    def command(session: Session, nodes: tuple[str, ...], engine: str | None, policy: JobsPolicy) -> int:
        from gpuprov.stories.change_nodes import NodesChange

        status = change_there(
            session, engine, nodes, NodesChange(verb=cast("Act", find.__module__.rpartition(".")[2]), policy=policy)
        )
        if status is not None:
            return status
        end = find()
        change_nodes(
            session,
            engine,
            nodes,
            lambda driver, host: end(driver, nodes, host, reporter=session.reporter, policy=policy),
        )
        return 0

    return command
