"""What a node says is its ssh host key is one key of one kind, and speaks for that node alone."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import pytest

from gpuprov.cluster.known_hosts import parse_host_key, remember_host_key
from gpuprov.core.errors import EngineError

if TYPE_CHECKING:
    from pathlib import Path


def encoded(kind: bytes, body: bytes = b"k" * 32, more: bytes = b"") -> str:
    parts = (kind, body)
    return base64.b64encode(b"".join(len(part).to_bytes(4, "big") + part for part in parts) + more).decode()


KEY = f"ssh-ed25519 {encoded(b'ssh-ed25519')}"


@pytest.mark.parametrize("line", [KEY, f"{KEY}\n", f"{KEY} \n", f"{KEY} root@c000\n"])
def test_a_key_without_its_comment(line: str) -> None:
    assert parse_host_key(line.encode(), "c000") == KEY


@pytest.mark.parametrize(
    "content",
    [
        b"",
        f"* {KEY}\n".encode(),
        f"@cert-authority * {KEY}\n".encode(),
        f"{KEY}\n* {KEY}\n".encode(),
        f"{KEY}\r* {KEY}\n".encode(),
        f"{KEY} \x1b[2J\n".encode(),
        f"{KEY}\n\n".encode(),
        f" {KEY}\n".encode(),
        f"ssh-rsa {encoded(b'ssh-rsa')}\n".encode(),
        f"ssh-ed25519 {encoded(b'ssh-rsa')}\n".encode(),
        f"ssh-ed25519 {encoded(b'ssh-ed25519', b'k' * 31)}\n".encode(),
        f"ssh-ed25519 {encoded(b'ssh-ed25519', more=b'x')}\n".encode(),
        b"ssh-ed25519 AAAA\n",
        b"ssh-ed25519 A\n",
        bytes(range(256)),
    ],
)
def test_anything_else_is_refused(content: bytes) -> None:
    with pytest.raises(EngineError, match="c000") as caught:
        parse_host_key(content, "c000")
    assert caught.value.evidence
    assert "gpuprov rm c000" in caught.value.fix


def test_what_is_known_of_other_nodes_stays_and_what_was_planted_goes(tmp_path: Path) -> None:
    known = tmp_path / "known_hosts"
    other, hashed = f"10.0.3.3 {KEY}", f"|1|c2FsdA==|aGFzaA== {KEY}"
    planted = [f"* {KEY}", f"@cert-authority * {KEY}", f"10.0.3.2,* {KEY}", "# a comment", "10.0.3.4 ssh-rsa AAAA"]
    known.write_text("\n".join([other, hashed, f"10.0.3.2 {KEY}", *planted]) + "\n\xff", encoding="latin-1")
    remember_host_key(known, "10.0.3.2", KEY)
    assert known.read_text().splitlines() == [other, hashed, f"10.0.3.2 {KEY}"]
    remember_host_key(tmp_path / "new", "10.0.3.2", KEY)
    assert (tmp_path / "new").read_text() == f"10.0.3.2 {KEY}\n"
