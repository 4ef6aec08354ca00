"""Names of nodes, without Docker's SDK."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.drivers.base import LABEL_ROLE, ROLE_BUILDER
from gpuprov.drivers.docker.connect import find_socket
from gpuprov.drivers.docker.documents import choose_containers, parse_container
from gpuprov.drivers.glance import read_json

if TYPE_CHECKING:
    from gpuprov.shapes.choices import Engine


def list_names(engine: Engine) -> list[str]:  # noqa: ARG001 - the registry's signature
    """Those of the nodes of ours."""
    chosen = choose_containers(read_json(find_socket(), "/containers/json?all=1"))
    nodes = [parse_container(document, labels={}) for document in chosen.values()]
    return [node.name for node in nodes if node.ours and node.labels.get(LABEL_ROLE) != ROLE_BUILDER]
