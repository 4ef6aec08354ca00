from __future__ import annotations

import socket

from gpuprov.drivers.lxd.ports import why_unbound
from gpuprov.shapes.node import Exposure


def test_a_port_that_somebody_listens_on_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        assert why_unbound(Exposure(host_port=port, node_port=80)) == f"bind 127.0.0.1:{port}: address already in use"
    assert why_unbound(Exposure(host_port=port, node_port=80)) == ""
