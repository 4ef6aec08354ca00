"""Host keys of nodes: what root in a node says is its key is believed of that node, and of nothing else."""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING

from gpuprov.core.errors import EngineError

if TYPE_CHECKING:
    from pathlib import Path

HOST_KEY = "/etc/ssh/ssh_host_ed25519_key.pub"
MOST_BYTES = 2000
_KIND = "ssh-ed25519"
_LINE = re.compile(rf"{_KIND} ([A-Za-z0-9+/]+={{0,2}})(?: [\x20-\x7e]*)?\n?")
_HEAD = len(_KIND).to_bytes(4, "big") + _KIND.encode() + (32).to_bytes(4, "big")
_BYTES = len(_HEAD) + 32
# What this program writes, and what ssh does: an address or a hashed name, never a pattern or a marker.
_KNOWN = re.compile(rf"(?:\d+\.\d+\.\d+\.\d+|\|1\|[A-Za-z0-9+/=]+\|[A-Za-z0-9+/=]+) {_KIND} [A-Za-z0-9+/=]+")


def parse_host_key(content: bytes, node: str) -> str:
    """The key of a public key file, `ssh-ed25519 AAAA...`, without its comment.

    Raises:
        EngineError: It is anything but one line with one such key.
    """
    text = content.decode("ascii", "replace")
    found = _LINE.fullmatch(text)
    if found is None or not _is_key(found[1]):
        raise EngineError(
            f"the ssh host key of {node} is not valid",
            evidence=f"{HOST_KEY} must be one line with one {_KIND} key; it begins with {text[:60]!r}",
            fix=f"inspect the node: gpuprov shell {node}; or remove it: gpuprov rm {node}",
        )
    return f"{_KIND} {found[1]}"


def _is_key(encoded: str) -> bool:
    try:
        key = base64.b64decode(encoded, validate=True)
    except binascii.Error:
        return False
    return key.startswith(_HEAD) and len(key) == _BYTES


def remember_host_key(known_hosts: Path, address: str, key: str) -> None:
    """Have ssh expect this key at this address; lines that could speak for other hosts are dropped."""
    old = known_hosts.read_text(encoding="ascii", errors="replace").splitlines() if known_hosts.exists() else []
    kept = [line for line in old if _KNOWN.fullmatch(line) and line.split(" ")[0] != address]
    known_hosts.write_text("".join(f"{line}\n" for line in (*kept, f"{address} {key}")), encoding="ascii")
