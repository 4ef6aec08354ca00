"""A folder of a node that takes jobs, copied to this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpuprov.core.excerpt import LINE, excerpt
from gpuprov.project.incoming_files import IncomingFiles

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from gpuprov.core.reporter import Reporter
    from gpuprov.roles.work.node_program import NodeProgram

_CHANGES: Final = "changed while it was read"  # tar's words about runs that have not ended, which are not kept


def receive_tree(
    controller: NodeProgram,
    folder: str,
    place: Path,
    reporter: Reporter,
    *,
    wants: Callable[[tuple[str, ...]], bool],
    quiet: Callable[[tuple[str, ...]], bool] | None = None,
) -> IncomingFiles:
    """Write what is wanted of a folder to a path, and say what was left out.

    Args:
        controller: In the node.
        folder: Of the node.
        place: The path here.
        reporter: Is told.
        wants: Whether something is written, by its path below the folder.
        quiet: Whether a link is left out without a word.

    Raises:
        EngineError: It could not be read or written, or goes over a limit.
        TimedOut: Nothing moved any more.
    """
    with (
        reporter.phase("copy"),
        IncomingFiles(
            node=controller.node, path=folder, kind="folder", target=place, wants=wants, quiet=quiet
        ) as incoming,
    ):
        said = controller.driver.read_tree(controller.node, folder, incoming.take)
    if incoming.left_out_words:
        reporter.warn(incoming.left_out_words)
    odd = "\n".join(line for line in said.splitlines() if _CHANGES not in line)
    if odd:
        reporter.warn(f"{controller.node} reported while it was read: {excerpt(odd, LINE)}")
    return incoming
