"""`gpuprov rm`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.cli.ending_verbs import ends_nodes

if TYPE_CHECKING:
    from gpuprov.cli.ending_verbs import Story


@ends_nodes
def command() -> Story:
    """Remove nodes, running or not, with all their data. Refused while jobs run there."""
    from gpuprov.workflows.remove_nodes import remove_nodes

    return remove_nodes
