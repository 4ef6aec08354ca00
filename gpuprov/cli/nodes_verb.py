"""Verbs that change nodes: they differ in what they take, and in what is done with the nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gpuprov.cli.engine import engine_option, show_outcome
from gpuprov.cli.job_options import job_options

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuprov.cli.session import Session
    from gpuprov.lifecycle.leaving import JobsPolicy
    from gpuprov.shapes.orders import Act


def nodes_verb(verb: Act, text: str, *arguments: Callable[[Any], Any], ends_jobs: bool = True) -> click.Command:
    """The command of that name, with this help; of its arguments, those besides the nodes are about what is done."""

    def command(session: Session, engine: str | None, policy: JobsPolicy | None = None, **typed: Any) -> int:  # noqa: ANN401 - click's own
        from gpuprov.cli.open_fleet import open_fleet
        from gpuprov.shapes.orders import NodesOrder
        from gpuprov.stories.change_nodes import change_nodes

        order = NodesOrder(
            act=verb,
            nodes=typed.get("nodes") or (typed["node"],),
            engine=engine or "",
            label=typed.get("label", ""),
            force=policy is not None and policy.force,
            drain_s=policy.drain_s if policy else None,
        )
        done = change_nodes(open_fleet(session, engine), order)
        return show_outcome(session, done.outcome, done.error)

    function = engine_option(click.pass_obj(command))
    for option in ((job_options,) if ends_jobs else ()) + arguments[::-1]:
        function = option(function)
    return click.command(help=text)(function)
