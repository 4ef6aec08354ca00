"""What a node gives is written below the target and nowhere else, within limits, and whole or not at all."""

from __future__ import annotations

import io
import os
import tarfile
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.core.errors import EngineError
from gpuprov.project import incoming_files
from gpuprov.project.incoming_files import IncomingFiles

if TYPE_CHECKING:
    from pathlib import Path

    from gpuprov.drivers.base import PathKind

DIR, FILE, LINK = tarfile.DIRTYPE, tarfile.REGTYPE, tarfile.SYMTYPE
TOP = ("./", DIR, b"")


def tar(*entries: tuple[str, bytes, bytes], **more: Any) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as made:
        for name, kind, content in entries:
            info = tarfile.TarInfo(name)
            info.type, info.size, info.linkname = kind, len(content), "/etc/passwd" if kind == LINK else ""
            info.mode = 0o4777
            for key, value in more.items():
                setattr(info, key, value)
            made.addfile(info, io.BytesIO(content))
    return packed.getvalue()


def receive(target: Path, packed: bytes, kind: PathKind = "folder") -> IncomingFiles:
    with IncomingFiles(node="c000", path="/srv/x", kind=kind, target=target) as incoming:
        incoming.take(packed)
    return incoming


def test_a_folder_is_the_caller_s_without_special_modes(tmp_path: Path) -> None:
    incoming = receive(tmp_path / "x", tar(TOP, ("./in", DIR, b""), ("./in/a", FILE, b"1"), uid=4711, mtime=1000))
    found = (tmp_path / "x/in/a").stat()
    assert (found.st_uid, found.st_gid, found.st_mtime) == (os.geteuid(), os.getegid(), 1000)
    umask = os.umask(0o022)
    os.umask(umask)
    assert found.st_mode & 0o7777 == 0o777 & ~umask | 0o600
    assert (incoming.files, incoming.total_bytes, incoming.left_out) == (1, 1, 0)


def test_a_file_is_named_by_who_asks_and_replaces_what_was_there(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("before")
    receive(tmp_path / "x", tar(("./another name", FILE, b"after")), "file")
    assert (tmp_path / "x").read_text() == "after"
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_links_and_devices_are_left_out_and_named(tmp_path: Path) -> None:
    entries = [(f"./l{number}\x1b[2J", LINK, b"") for number in range(30)]
    incoming = receive(tmp_path / "x", tar(TOP, ("./d", tarfile.CHRTYPE, b""), *entries))
    assert incoming.left_out == 31
    assert incoming.skipped[:2] == ["d (a device)", r"l0\x1b[2J (a link)"]
    assert len(incoming.skipped) == 20
    assert list((tmp_path / "x").iterdir()) == []


BAD = {
    "not the folder first": tar(("./a", DIR, b"")),
    "a file in its place": tar(("./a", FILE, b"")),
    "the folder twice": tar(TOP, TOP),
    "a file twice": tar(TOP, ("./a", FILE, b"1"), ("./a", FILE, b"2")),
    "a folder over a file": tar(TOP, ("./a", FILE, b"1"), ("./a", DIR, b"")),
    "below a file": tar(TOP, ("./a", FILE, b"1"), ("./a/b", FILE, b"2")),
    "below a link": tar(TOP, ("./a", LINK, b""), ("./a/b", FILE, b"2")),
    "without its folder": tar(TOP, ("./a/b", FILE, b"2")),
    "above": tar(TOP, ("./../b", FILE, b"2")),
    "cut": tar(TOP, ("./a", FILE, b"1"))[:1300],
    "nothing": b"",
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_archive_leaves_nothing(tmp_path: Path, case: str) -> None:
    with pytest.raises(EngineError, match="cannot read /srv/x of c000") as caught:
        receive(tmp_path / "x", BAD[case])
    assert "archive" in caught.value.evidence
    assert caught.value.fix
    assert list(tmp_path.iterdir()) == []


def test_one_file_is_one_file(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("before")
    for packed in (tar(("./a", FILE, b"1"), ("./b", FILE, b"2")), tar(("./a", LINK, b"")), tar(TOP), tar()):
        with pytest.raises(EngineError):
            receive(tmp_path / "x", packed, "file")
        assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("x", "before")]


@pytest.mark.parametrize(("limit", "most"), [("MOST_ENTRIES", 3), ("MOST_BYTES", 5)])
def test_number_and_size_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, most: int) -> None:
    packed = tar(TOP, *((f"./{number}", FILE, b"12") for number in range(3)))
    monkeypatch.setattr(incoming_files, limit, most + 1)
    receive(tmp_path / "x", packed)
    monkeypatch.setattr(incoming_files, limit, most)
    with pytest.raises(EngineError, match="too large") as caught:
        receive(tmp_path / "y", packed)
    assert str(most) in caught.value.evidence
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_a_node_does_not_fill_the_disk(tmp_path: Path) -> None:
    """What is announced is refused before any of it is written."""
    info = tarfile.TarInfo("./a")
    info.size = 9 * 10**11
    with pytest.raises(EngineError, match="no space left") as caught:
        receive(tmp_path / "x", info.tobuf(tarfile.GNU_FORMAT) + bytes(100), "file")
    assert "stay free" in caught.value.evidence
    assert f"df -h {tmp_path}" in caught.value.fix
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_handle: int, _content: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("gpuprov.project.incoming_files.os.write", full)
    with pytest.raises(EngineError, match="no space left") as caught:
        receive(tmp_path / "x", tar(("./a", FILE, b"1")), "file")
    assert caught.value.evidence == "No space left on device"
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_written_says_why(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "x/in").touch()
    with pytest.raises(EngineError, match="cannot write") as caught:  # made by somebody after the look
        receive(tmp_path / "x", tar(TOP))
    assert "not empty" in caught.value.evidence
    with pytest.raises(EngineError, match="cannot write"):
        receive(tmp_path / "none/x", tar(TOP))
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
    with pytest.raises(EngineError, match="cannot write") as caught:
        receive(tmp_path / "y", tar(TOP, (f"./{'n' * 300}", FILE, b"")))
    assert "too long" in caught.value.evidence


def test_the_place_cannot_be_exchanged_while_files_come(tmp_path: Path) -> None:
    """As the root of a node may try that has the target's folder mounted."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "shared").mkdir()
    packed = tar(TOP, ("./a", FILE, b"1"))
    with IncomingFiles(node="c000", path="/srv/x", kind="folder", target=tmp_path / "shared/x") as incoming:
        incoming.take(packed[:600])
        (place,) = (tmp_path / "shared").iterdir()
        place.rename(tmp_path / "shared/moved")
        place.symlink_to(tmp_path / "outside")
        incoming.take(packed[600:])
    assert list((tmp_path / "outside").iterdir()) == []
    assert (tmp_path / "shared/x/a").read_text() == "1"


def test_what_comes_after_the_end_is_dropped(tmp_path: Path) -> None:
    """A driver's thread may have one more piece in its hands."""
    with IncomingFiles(node="c000", path="/srv/x", kind="file", target=tmp_path / "x") as incoming:
        incoming.take(tar(("./a", FILE, b"1")))
    incoming.take(b"more")
    assert (tmp_path / "x").read_text() == "1"
