"""`gpuprov snapshot`."""

from __future__ import annotations

from gpuprov.cli.nodes_verb import nodes_verb
from gpuprov.cli.parameters import node_argument

command = nodes_verb(
    "snapshot",
    """Take a snapshot of a node's state.

    Docker and pools without copy-on-write pause the node during the snapshot: there it is refused while jobs run.
    """,
    node_argument(),
    node_argument("label", new=True),
)
