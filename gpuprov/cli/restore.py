"""`gpuprov restore`."""

from __future__ import annotations

from gpuprov.cli.nodes_verb import nodes_verb
from gpuprov.cli.parameters import node_argument

command = nodes_verb(
    "restore",
    "Restore a node to a snapshot; later changes are lost. Refused while jobs run there.",
    node_argument(),
    node_argument("label", new=True),
)
