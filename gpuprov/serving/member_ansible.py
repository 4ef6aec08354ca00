"""What a controller's Ansible has this host do: run a command in one of its nodes."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpuprov.cluster.transport import DriverTransport
from gpuprov.core.errors import UsageError
from gpuprov.shapes.members import Ran

if TYPE_CHECKING:
    from gpuprov.core.reporter import Reporter
    from gpuprov.host.base import Host


@dataclass(frozen=True, kw_only=True)
class RunOrder:
    """`run`: a command in a running node, with the limits of every command in a node.

    Attributes:
        environment: `KEY=VALUE` each.
        stdin: In base64.
    """

    node: str
    engine: str
    argv: list[str]
    environment: list[str] = field(default_factory=list)
    stdin: str = field(default="", repr=False)


def serve_run(order: RunOrder, host: Host, _reporter: Reporter) -> Ran:
    """The answer to `run`.

    Raises:
        GpuprovError: The node does not run, or its engine refuses.
    """
    try:
        stdin = base64.b64decode(order.stdin, validate=True)
        environment = dict(variable.split("=", 1) for variable in order.environment)
    except (binascii.Error, ValueError) as error:
        raise UsageError("the request `run` cannot be served", evidence=str(error), fix="gpuprov host list") from error
    transport = DriverTransport(host.open(order.engine))
    status, stdout, stderr = transport.run(order.node, order.argv, environment, stdin)
    return Ran(exit_code=status, stdout=base64.b64encode(stdout).decode(), stderr=base64.b64encode(stderr).decode())
