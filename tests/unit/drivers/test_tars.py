from __future__ import annotations

import io
import tarfile

import pytest

from gpuprov.core.errors import EngineError
from gpuprov.drivers.base import File
from gpuprov.drivers.tars import find_member, folders_above, pack


def test_files_and_folders_are_packed_with_owner_and_mode() -> None:
    file = File(path="/etc/munge/munge.key", content=b"key", mode=0o400, uid=64, gid=65)
    with tarfile.open(fileobj=io.BytesIO(pack([file], folders=["/etc/munge"]))) as tar:
        folder, member = tar.getmembers()
        assert (folder.name, folder.isdir(), folder.mode, folder.uid) == ("etc/munge", True, 0o755, 0)
        assert (member.name, member.mode, member.uid, member.gid) == ("etc/munge/munge.key", 0o400, 64, 65)
    with pytest.raises(EngineError, match="cannot write"):
        pack([File(path="etc/x", content=b"")])


def odd(kind: bytes, target: str = "") -> bytes:
    """A tar of one member that is not a regular file."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        member = tarfile.TarInfo("a")
        member.type, member.linkname = kind, target
        tar.addfile(member)
    return packed.getvalue()


@pytest.mark.parametrize(
    ("packed", "found"),
    [
        (pack([File(path="/a", content=b"x")]), (None, b"x")),
        (pack([File(path="/a", content=b"x" * 9)]), (None, b"x" * 6)),
        (pack([], folders=["/a"]), None),
        (odd(tarfile.SYMTYPE, "../b"), ("../b", b"")),
        (odd(tarfile.LNKTYPE, "etc/b"), ("/etc/b", b"")),
        (odd(tarfile.FIFOTYPE), None),
        (b"", None),
        (pack([File(path="/a", content=b"x" * 9)])[:300], None),
        (odd(tarfile.CHRTYPE), None),
    ],
    ids=["file", "large", "folder", "link", "hard link", "fifo", "nothing", "broken off", "device"],
)
def test_what_a_tar_holds(packed: bytes, found: object) -> None:
    """A larger file is known by one byte over the limit, and no more of it is read."""
    assert find_member(io.BytesIO(packed), most_bytes=5) == found


class Endless(io.BytesIO):
    """A tar that goes on for ever: what is behind the file must not be read."""

    def read(self, size: int | None = -1) -> bytes:
        assert self.tell() < len(self.getvalue()), "read on"
        return super().read(size)


def test_a_file_of_a_long_tar() -> None:
    packed = pack([File(path="/etc/a", content=b"a\0"), File(path="/x", content=b"x" * 9999)], folders=["/etc"])
    assert find_member(io.BytesIO(packed), "/x", most_bytes=10_000) == (None, b"x" * 9999)
    assert find_member(Endless(packed[:12288]), "/etc/a", most_bytes=10_000) == (None, b"a\0")
    assert find_member(io.BytesIO(packed), "/y", most_bytes=10_000) is None
    assert find_member(io.BytesIO(packed), "/etc", most_bytes=10_000) is None


def test_folders_above() -> None:
    assert folders_above(["/etc/a/b", "/etc/c", "/x"]) == ["/etc", "/etc/a"]
