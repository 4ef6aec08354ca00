"""Names of nodes, without pylxd."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.drivers.base import LABEL_ROLE, ROLE_BUILDER
from gpuprov.drivers.glance import read_json
from gpuprov.drivers.lxd.connect import get_socket
from gpuprov.drivers.lxd.documents import parse_image_instance, parse_instance
from gpuprov.drivers.lxd.members import is_here

if TYPE_CHECKING:
    from gpuprov.shapes.choices import Engine


def list_names(engine: Engine) -> list[str]:
    """Those of the nodes of ours on this host."""
    place = get_socket(engine)
    environment = read_json(place, "/1.0")["metadata"]["environment"]
    member = environment["server_name"] if environment.get("server_clustered") else ""
    found = read_json(place, "/1.0/instances?recursion=1")["metadata"]
    here = [document for document in found if is_here(document, member) and not parse_image_instance(document)]
    nodes = map(parse_instance, here)
    return [node.name for node in nodes if node.ours and node.labels.get(LABEL_ROLE) != ROLE_BUILDER]
