"""What is lost for good is agreed to: on a terminal by typing the cluster's name, elsewhere by `--yes`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from gpuprov.cli.session import tell
from gpuprov.core.errors import UsageError
from gpuprov.core.names import fold

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gpuprov.cli.session import Session
    from gpuprov.cluster.shrinking import Shrinking
    from gpuprov.lifecycle.replace_older import Replaceable


def require_agreement(
    session: Session, cluster: str, would: str, losses: Sequence[str], *, kept: str, fix: str
) -> None:
    """Say what would be lost, and go on only if the cluster's name is typed.

    Args:
        session: Where it is asked.
        cluster: The name to type.
        would: What is about to be done, in a sentence.
        losses: What goes with it, one line for each.
        kept: What is said where something else is typed.
        fix: What to type where no user can be asked.

    Raises:
        UsageError: There is no terminal, or something else was typed; nothing was changed.
    """
    if not session.interactive:
        raise UsageError(would, evidence="\n".join((*losses, "there is no terminal on which to ask")), fix=fix)
    tell("\n".join((f"{would}:", *(f"  {line}" for line in losses), "")))
    typed = click.prompt(f"To go on, type {cluster}", default="", show_default=False, err=True)
    if typed.strip() != cluster:
        raise UsageError(
            kept, evidence=f"{typed!r} was typed, not {cluster}", fix=f"type {cluster} when asked; or {fix}"
        )


def asks_to_shrink(session: Session, options: Mapping[str, Any]) -> Callable[[str, Shrinking], None] | None:
    """Has whoever typed `cluster up -f` agree to what the file takes away; None where the file does not decide.

    What was typed besides is that person's word: a number of nodes, a folder.
    """
    if options["file"] is None or options["yes"]:
        return None

    def ask(cluster: str, shrinking: Shrinking) -> None:
        lost = replace(
            shrinking,
            nodes=shrinking.nodes if options["count"] is None else (),
            folder=shrinking.folder if options["share"] is None else "",
        )
        if lost.lines:
            require_agreement(
                session,
                cluster,
                f"{options['file']} says less than cluster {cluster} has: this would be lost",
                (*lost.lines, *_jobs_of(session, cluster, lost)),
                kept=f"cluster {cluster} stays as it is",
                fix="repeat the command with --yes; or make another cluster of the file: --name NAME",
            )

    return ask


def tells_of_jobs(session: Session) -> Callable[[str, Shrinking], None]:
    """Has whoever typed `cluster plan -f` hear of the jobs of people whom the file takes away."""

    def tell_of(cluster: str, shrinking: Shrinking) -> None:
        for line in _jobs_of(session, cluster, shrinking):
            session.reporter.note(f"{shrinking.who} would go; {line}")

    return tell_of


def _jobs_of(session: Session, cluster: str, shrinking: Shrinking) -> tuple[str, ...]:
    from gpuprov.fleet.where import reach_controller
    from gpuprov.stories.people import describe_jobs_of

    return describe_jobs_of(lambda: reach_controller(session.fleet, cluster), cluster, shrinking.people)


def agree_to_renew(session: Session, cluster: str, found: Replaceable) -> None:
    """Ask before nodes are replaced.

    Raises:
        UsageError: It is not agreed to.
    """
    require_agreement(
        session,
        cluster,
        f"{fold(found.names)} of cluster {cluster} would be replaced, one after the other",
        [found.lost],
        kept=f"no node of cluster {cluster} was replaced",
        fix="repeat the command with --yes; to see what they lack, with `plan` in place of `up`",
    )
