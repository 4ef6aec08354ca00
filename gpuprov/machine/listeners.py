"""Who on this machine listens on which TCP port, read from below a root folder."""

from __future__ import annotations

import ipaddress
import struct
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuprov.core.excerpt import excerpt

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_LISTENS = "0A"  # the state in the kernel's tables
_INODE = 9  # of their fields


@dataclass(frozen=True, kw_only=True)
class Listener:
    """A socket that takes connections.

    Attributes:
        inode: By which the socket is found among the files of processes.
    """

    address: ipaddress.IPv4Address | ipaddress.IPv6Address
    port: int
    inode: str

    def clashes(self, address: str, port: int) -> bool:
        """Whether nobody else can listen at an IPv4 address while this one does; one for IPv6 often takes IPv4 too."""
        if port != self.port:
            return False
        wanted = ipaddress.ip_address(address)
        return self.address == wanted or self.address.is_unspecified or (wanted.is_unspecified and self._is_v4)

    @property
    def _is_v4(self) -> bool:
        return self.address.version == 4  # noqa: PLR2004


def parse_listeners(table: str) -> tuple[Listener, ...]:
    """From the text of /proc/net/tcp or /proc/net/tcp6."""
    rows = (line.split() for line in table.splitlines()[1:])
    return tuple(_parse(row) for row in rows if len(row) > _INODE and row[3] == _LISTENS)


def _parse(row: list[str]) -> Listener:
    address, _, port = row[1].partition(":")
    words = bytes.fromhex(address)
    # each word of four bytes is in the order of this machine
    packed = struct.pack(f">{len(words) // 4}I", *struct.unpack(f"={len(words) // 4}I", words))
    return Listener(address=ipaddress.ip_address(packed), port=int(port, 16), inode=row[_INODE])


def find_listener(root: Path, address: str, port: int) -> str | None:
    """Who listens where one wants to listen oneself, in words; None where nobody does."""
    for listener in _listeners(root):
        if listener.clashes(address, port):
            return f"{_process(root, listener.inode)} listens on port {port} of {listener.address}"
    return None


def _listeners(root: Path) -> Iterator[Listener]:
    for name in ("tcp", "tcp6"):
        with suppress(OSError):
            yield from parse_listeners((root / "proc/net" / name).read_text())


def _process(root: Path, inode: str) -> str:
    """The process that holds a socket; other users' are seen by root alone."""
    for process in root.glob("proc/[0-9]*"):
        with suppress(OSError):  # it has ended, or may not be looked at
            if any(_leads_to(link, f"socket:[{inode}]") for link in (process / "fd").iterdir()):
                return f"{excerpt((process / 'comm').read_text().strip())} (process {process.name})"
    return "another process"


def _leads_to(link: Path, target: str) -> bool:
    with suppress(OSError):  # it has been closed
        return str(link.readlink()) == target
    return False
