"""`gpuprov explain`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpuprov.core.catalogue import load_catalogue

if TYPE_CHECKING:
    from gpuprov.cli.session import Session
    from gpuprov.core.catalogue import Entry
    from gpuprov.shapes.explain import Explained


def complete_ids(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Ids that begin so."""
    return [name for name in load_catalogue() if name.startswith(incomplete)]


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument(
    "text", metavar="TEXT|CHECK-ID", nargs=-1, required=True, type=click.UNPROCESSED, shell_complete=complete_ids
)
@click.pass_obj
def command(session: Session, text: tuple[str, ...]) -> None:
    """Explain a log line or a check: its cause, how to confirm it, and the fix.

    TEXT is any log line (of the driver, NVML, CUDA, Slurm, munge, LXD, Docker or gpuprov), preferably in quotes.
    CHECK-ID is an id that `verify` or `doctor` prints. Needs neither an engine nor a network.
    """
    from gpuprov.shapes.explain import Explain
    from gpuprov.stories.explain import explain

    entries = explain(" ".join(text))
    session.show(Explain(entries=tuple(map(_tell, entries))), "\n\n".join(map(_render, entries)))


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
