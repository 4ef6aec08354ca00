"""`gpuprov stop`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.cli.ending_verbs import ends_nodes

if TYPE_CHECKING:
    from gpuprov.cli.ending_verbs import Story


@ends_nodes
def command() -> Story:
    """Stop nodes, such as c000 or c[000-003]. Refused while jobs run there."""
    from gpuprov.workflows.start_stop import stop_nodes

    return stop_nodes
