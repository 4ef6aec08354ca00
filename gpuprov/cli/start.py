"""`gpuprov start`."""

from __future__ import annotations

from gpuprov.cli.nodes_verb import nodes_verb
from gpuprov.cli.parameters import nodes_argument

command = nodes_verb(
    "start",
    "Start nodes, such as c000 or c[000-003].",
    nodes_argument(),
    ends_jobs=False,
)
