"""One end of the encrypted links between hosts, as all hosts know it."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address

from gpuprov.spec.overlay import TUNNEL_KEY


@dataclass(frozen=True, kw_only=True)
class TunnelEnd:
    """A host's end.

    Attributes:
        address: In the tunnel.
        key: The host's public key; empty until it has told one.
    """

    host: str
    address: str
    key: str = ""

    @property
    def problem(self) -> str:
        """What is wrong with it, in words; empty for nothing. It is recorded, and told to other hosts."""
        try:
            IPv4Address(self.address)
        except ValueError:
            return f"{self.address[:40]!r} is not an address"
        return f"{self.key[:60]!r} is not a key" if self.key and not TUNNEL_KEY.fullmatch(self.key) else ""
