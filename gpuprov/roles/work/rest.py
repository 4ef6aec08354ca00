"""Slurm's REST API, and the tokens that it asks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from gpuprov.roles.work.queue_page import NodeService

# It is nobody's: neither root nor slurm may run it, and what it may do is the token's. Its stdin and stdout are a
# connection, as inetd's are; of its plugins, that of accounting ends it where there is no accounting.
_SERVE: Final = """
plugin=$(/usr/sbin/slurmrestd -s list 2>&1 | grep -Eo 'openapi/(v[0-9.]+|slurmctld)' | sort -V | tail -n 1)
exec /usr/sbin/slurmrestd -a rest_auth/jwt -s "$plugin"
"""
# Docker forbids it to leave namespaces, and there is nothing else in its process to share
_SECURITY: Final = "SLURMRESTD_SECURITY=disable_unshare_sysv,disable_unshare_files"


@dataclass(frozen=True, kw_only=True)
class RestService(NodeService):
    """Slurm's REST API in a node, where a process serves each connection and nothing listens.

    Attributes:
        account: Whose tokens are.
    """

    account: str
    title: ClassVar[str] = "REST API"

    @property
    def relay_argv(self) -> list[str]:
        """The command in the node that ties its stdin and stdout to the API."""
        return ["runuser", "-u", "nobody", "--", "env", "SLURM_JWT=daemon", _SECURITY, "sh", "-c", _SERVE]

    def token_argv(self, lifespan_s: int) -> list[str]:
        """The command in the node that prints a token."""
        return ["scontrol", "token", f"username={self.account}", f"lifespan={lifespan_s}"]
