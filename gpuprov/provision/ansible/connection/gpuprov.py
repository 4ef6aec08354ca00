"""Ansible connection plugin: runs a module in a node through the engine, without ssh.

An engine's exec has no standard input. A pipelined module is therefore written to a file of the node, which the
shell opens and removes before the interpreter reads it: one write and one command for each task.
"""

from __future__ import annotations

import functools
import os
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.connection import ConnectionBase

from gpuprov.core.errors import GpuprovError
from gpuprov.provision.transport import ENTRY_VARIABLE, OWNER_VARIABLE, load_entry, owner_lives

if TYPE_CHECKING:
    from gpuprov.provision.transport import Transport

DOCUMENTATION = """
    name: gpuprov
    short_description: Reach a node of gpuprov through its container engine
    description:
        - Runs commands and moves files through the API of the engine that runs the node. The node needs no ssh.
    author: gpuprov
    options:
        node:
            description: Name of the node.
            type: str
            vars:
                - name: inventory_hostname
        engine:
            description: The engine that runs it.
            type: str
            default: lxd
            vars:
                - name: gpuprov_engine
"""


@functools.cache
def _transport(engine: str) -> Transport:
    return load_entry(os.environ.get(ENTRY_VARIABLE, ""))(engine)


class Connection(ConnectionBase):  # type: ignore[misc]  # Ansible has no type information
    """One node."""

    transport = "gpuprov"
    has_pipelining = True

    def _connect(self) -> Connection:
        if not owner_lives(os.environ.get(OWNER_VARIABLE, "self")):
            raise AnsibleConnectionFailure("the gpuprov that started this play is gone")
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
        node = self.get_option("node")
        try:
            engine = _transport(self.get_option("engine"))
            if in_data:
                path = f"/run/gpuprov-stdin-{uuid.uuid4().hex}"
                engine.put(node, path, in_data)
                cmd = f"exec <{path} && rm -f {path} && {cmd}"
            return engine.run(node, ["/bin/sh", "-c", cmd])
        except GpuprovError as error:
            raise AnsibleConnectionFailure(str(error)) from error

    def put_file(self, in_path: str, out_path: str) -> None:
        """Write a file of this machine into the node."""
        super().put_file(in_path, out_path)
        try:
            content = Path(in_path).read_bytes()
            _transport(self.get_option("engine")).put(self.get_option("node"), out_path, content)
        except (GpuprovError, OSError) as error:
            raise AnsibleConnectionFailure(str(error)) from error

    def fetch_file(self, in_path: str, out_path: str) -> None:
        """Read a file of the node into this machine."""
        super().fetch_file(in_path, out_path)
        try:
            content: Any = _transport(self.get_option("engine")).get(self.get_option("node"), in_path)
            Path(out_path).write_bytes(content)
        except (GpuprovError, OSError) as error:
            raise AnsibleConnectionFailure(str(error)) from error

    def close(self) -> None:
        """Nothing is held open."""
        self._connected = False
