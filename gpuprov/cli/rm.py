"""`gpuprov rm`."""

from __future__ import annotations

from gpuprov.cli.nodes_verb import nodes_verb
from gpuprov.cli.parameters import nodes_argument

command = nodes_verb(
    "rm",
    "Remove nodes, running or not, with all their data. Refused while jobs run there.",
    nodes_argument(),
)
