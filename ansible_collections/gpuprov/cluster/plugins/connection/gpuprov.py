"""Ansible connection plugin: runs a module in a node through the engine, without ssh."""

from __future__ import annotations

DOCUMENTATION = """
    name: gpuprov
    short_description: Connect to a gpuprov node through its container engine, also on other hosts
    description:
        - Runs commands and transfers files through the API of the engine that runs the node. The node needs no ssh.
        - Requires access to the engine (root, or its group). It connects as root; use C(become) for other users.
        - Pipelining is on by default.
        - Nodes cache the compiled Python code of Ansible modules; E(GPUPROV_KEEP_COMPILED) enables this.
    author: gpuprov (@gpuprov)
    options:
        node:
            description: Name of the node.
            type: str
            vars:
                - name: inventory_hostname
                - name: gpuprov_node
        engine:
            description: The engine that runs the node.
            type: str
            default: lxd
            vars:
                - name: gpuprov_engine
        through:
            description:
                - The host that runs the node, as C(gpuprov host add) has remembered it.
                - If it is empty, the node is on this machine.
            type: str
            default: ""
            vars:
                - name: gpuprov_through
        simulated:
            description:
                - Whether the node's GPUs are simulated.
                - If so, commands run with E(NUMBA_ENABLE_CUDASIM=1), as with C(gpuprov exec).
            type: bool
            default: false
            vars:
                - name: gpuprov_simulated
        pipelining:
            description: Pass modules to the node's Python directly, without a file for each.
            type: bool
            default: true
            env:
                - name: ANSIBLE_PIPELINING
            ini:
                - section: defaults
                  key: pipelining
                - section: connection
                  key: pipelining
            vars:
                - name: ansible_pipelining
"""

import functools
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.connection import ConnectionBase

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuprov.provision.transport import Transport

Answer = TypeVar("Answer")
NO_GPUPROV = """gpuprov is not installed for the Python that runs Ansible
evidence: {python}: {error}
fix: {python} -m pip install gpuprov"""


@functools.cache
def _transport(engine: str, through: str) -> Transport:
    if through:
        from gpuprov.cluster.transport import open_transport_to

        return open_transport_to(through, engine)
    from gpuprov.cluster.transport import ENTRY
    from gpuprov.provision.transport import ENTRY_VARIABLE, load_entry

    return load_entry(os.environ.get(ENTRY_VARIABLE) or ENTRY)(engine)


class Connection(ConnectionBase):  # type: ignore[misc]  # Ansible has no type information
    """One node."""

    transport = "gpuprov.cluster.gpuprov"
    has_pipelining = True
    _used: Transport | None = None  # since the last `close`

    def _connect(self) -> Connection:
        try:
            from gpuprov.provision.transport import OWNER_VARIABLE, owner_lives
        except ImportError as error:
            raise AnsibleConnectionFailure(NO_GPUPROV.format(python=sys.executable, error=error)) from error
        if not owner_lives(os.environ.get(OWNER_VARIABLE, "self")):
            raise AnsibleConnectionFailure("the gpuprov process that started this play has ended")
        self._connected = True
        return self

    def exec_command(
        self,
        cmd: str,
        in_data: bytes | None = None,
        sudoable: bool = True,  # noqa: FBT001, FBT002 - Ansible's signature
    ) -> tuple[int, bytes, bytes]:
        """Run a shell line in the node, with `in_data` as its standard input."""
        super().exec_command(cmd, in_data=in_data, sudoable=sudoable)

        def run(engine: Transport, node: str) -> tuple[int, bytes, bytes]:
            from gpuprov.gpu.simulator import simulator_environment

            kernels = simulator_environment(simulated=self.get_option("simulated"))
            environment = {"GPUPROV_KEEP_COMPILED": "1", **kernels}
            return engine.run(node, ["/bin/sh", "-c", cmd], environment, in_data or b"")

        return self._ask(run)

    def put_file(self, in_path: str, out_path: str) -> None:
        """Write a file of this machine into the node."""
        super().put_file(in_path, out_path)
        self._ask(lambda engine, node: engine.put(node, out_path, Path(in_path).read_bytes()))

    def fetch_file(self, in_path: str, out_path: str) -> None:
        """Read a file of the node into this machine."""
        super().fetch_file(in_path, out_path)
        content = self._ask(lambda engine, node: engine.get(node, in_path))
        try:
            Path(out_path).write_bytes(content)
        except OSError as error:
            raise AnsibleConnectionFailure(str(error)) from error

    def close(self) -> None:
        """Let go of what is kept for the next task."""
        if self._used is not None:
            self._used.close()
        self._used, self._connected = None, False

    def _ask(self, question: Callable[[Transport, str], Answer]) -> Answer:
        """Ask the node's engine; what it refuses is a connection that failed."""
        from gpuprov.core.errors import GpuprovError

        self._connect()
        try:
            self._used = _transport(self.get_option("engine"), self.get_option("through"))
            return question(self._used, self.get_option("node"))
        except (GpuprovError, OSError) as error:
            raise AnsibleConnectionFailure(str(error)) from error
