from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import pytest

from gpuprov.machine.listeners import find_listener, parse_listeners

HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
ROW = "   0: {} 00000000:0000 {} 00000000:00000000 00:00000000 00000000     0        0 {} 1 0000000000000000 100\n"
LITTLE = HEAD + ROW.format("00000000:0016", "0A", "11") + ROW.format("0100007F:1F90", "0A", "12")
LITTLE6 = HEAD + ROW.format("00000000000000000000000000000000:1BBC", "0A", "13")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A machine on which sshd, a web server and one more listen; nobody may look at the third's files."""
    (tmp_path / "proc/net").mkdir(parents=True)
    (tmp_path / "proc/net/tcp").write_text(LITTLE)
    (tmp_path / "proc/net/tcp6").write_text(LITTLE6)
    for pid, name, inode in ((812, "sshd", 11), (900, "we\x1b[2Jb", 12)):
        folder = tmp_path / "proc" / str(pid) / "fd"
        folder.mkdir(parents=True)
        (folder / "3").symlink_to(f"socket:[{inode}]")
        (folder.parent / "comm").write_text(f"{name}\n")
    return tmp_path


@pytest.mark.skipif(sys.byteorder != "little", reason="the table is of a little machine")
@pytest.mark.parametrize(
    ("address", "port", "who"),
    [
        ("0.0.0.0", 22, "sshd (process 812) listens on port 22 of 0.0.0.0"),
        ("127.0.0.1", 22, "sshd (process 812) listens on port 22 of 0.0.0.0"),
        ("127.0.0.1", 8080, r"we\x1b[2Jb (process 900) listens on port 8080 of 127.0.0.1"),
        ("0.0.0.0", 8080, r"we\x1b[2Jb (process 900) listens on port 8080 of 127.0.0.1"),
        ("10.1.2.3", 8080, None),
        ("127.0.0.1", 7100, "another process listens on port 7100 of ::"),
        ("0.0.0.0", 23, None),
    ],
)
def test_who_listens(root: Path, address: str, port: int, who: str | None) -> None:
    assert find_listener(root, address, port) == who


def test_connections_and_rubbish_are_no_listeners(root: Path) -> None:
    assert parse_listeners(HEAD + ROW.format("00000000:0016", "01", "11") + "\n") == ()
    (root / "proc/net/tcp").unlink()
    assert find_listener(root, "0.0.0.0", 22) is None


@pytest.mark.parametrize(("family", "address"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::")])
def test_this_process_is_found(family: socket.AddressFamily, address: str) -> None:
    with socket.create_server((address, 0), family=family) as server:
        port = server.getsockname()[1]
        found = find_listener(Path("/"), "0.0.0.0" if address != "::" else "127.0.0.1", port)
        assert found is not None
        assert f"(process {os.getpid()}) listens on port {port} of {address}" in found
    assert find_listener(Path("/"), "127.0.0.1", port) is None
