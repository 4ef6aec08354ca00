from __future__ import annotations

import io
import os
import socket
import tarfile
from typing import TYPE_CHECKING

import pytest

from gpuprov.core.errors import UsageError
from gpuprov.project.outgoing_files import MOST_LEVELS, OutgoingFiles, OutgoingProject, look_here

if TYPE_CHECKING:
    from pathlib import Path


def unpacked(outgoing: OutgoingFiles) -> dict[str, bytes | None]:
    with tarfile.open(fileobj=io.BytesIO(b"".join(outgoing.tar()))) as tar:
        found = {}
        for member in tar:
            opened = tar.extractfile(member)
            assert (member.uid, member.gid) == (0, 0)
            assert member.mode & ~0o777 == 0
            found[member.name] = opened.read() if opened else None
        return found


def test_what_stands_at_a_path(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "broken").symlink_to("none")
    os.mkfifo(tmp_path / "fifo")
    kinds = {name: look_here(tmp_path / name) for name in ("file", "link", "broken", "fifo", "none", "file/x", "")}
    assert kinds == {
        "file": "file",
        "link": "file",
        "broken": "other",
        "fifo": "other",
        "none": "absent",
        "file/x": "absent",
        "": "folder",
    }
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(UsageError, match="cannot read"):
        look_here(tmp_path / "loop")


def test_only_files_and_folders_go_out(tmp_path: Path) -> None:
    top = tmp_path / "top"
    (top / "in/empty").mkdir(parents=True)
    (top / "in/a").write_bytes(b"1" * 513)
    (top / "in/a").chmod(0o4755)
    (top / "link").symlink_to("/etc/passwd")
    (top / "folder\x1b").symlink_to("/etc")
    os.mkfifo(top / "fifo")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(top / "socket"))
    listener.close()
    outgoing = OutgoingFiles(top)
    assert unpacked(outgoing) == {
        "item": None,
        "item/in": None,
        "item/in/a": b"1" * 513,
        "item/in/empty": None,
        "whole": b"",
    }
    assert outgoing.skipped == [
        f"{top}/fifo (a FIFO)",
        rf"{top}/folder\x1b (a link)",
        f"{top}/link (a link)",
        f"{top}/socket (a socket)",
    ]
    assert (outgoing.files, outgoing.total_bytes) == (1, 513)


def test_a_link_that_was_named_is_followed(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"1")
    (tmp_path / "link").symlink_to("file")
    assert unpacked(OutgoingFiles(tmp_path / "link")) == {"item": b"1", "whole": b""}


def test_a_file_that_shrinks_is_an_error_and_one_that_grows_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"1" * 300_000)
    outgoing = OutgoingFiles(path).tar()
    next(outgoing)
    with path.open("ab") as opened:
        opened.write(b"2" * 1000)
    with tarfile.open(fileobj=io.BytesIO(b"".join(OutgoingFiles(path).tar()))) as tar:
        assert tar.getmember("item").size == 301_000
    assert sum(map(len, outgoing)) == 300_000 + 32 + 512 + 1024  # content, its padding, the last header, the end
    outgoing = OutgoingFiles(path).tar()
    next(outgoing)
    path.write_bytes(b"")
    with pytest.raises(UsageError, match="became shorter"):
        list(outgoing)


def test_what_goes_away_meanwhile_is_left_out(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).write_bytes(b"1")
    outgoing = OutgoingFiles(tmp_path)
    pieces = outgoing.tar()
    next(pieces)
    next(pieces)  # the folder was listed
    (tmp_path / "b").unlink()
    rest = b"".join(pieces)
    assert b"item/c" in rest
    assert b"item/b" not in rest
    assert outgoing.skipped == [f"{tmp_path}/b (removed while it was copied)"]


def test_folders_in_each_other_have_a_limit(tmp_path: Path) -> None:
    deep = tmp_path
    for _ in range(MOST_LEVELS + 1):
        deep /= "d"
    deep.mkdir(parents=True)
    with pytest.raises(UsageError, match="cannot read") as caught:
        list(OutgoingFiles(tmp_path).tar())
    assert str(MOST_LEVELS) in caught.value.evidence


def test_of_a_project_what_is_named_goes_out_and_everybody_may_read_it(tmp_path: Path) -> None:
    (tmp_path / "src/deep").mkdir(parents=True, mode=0o700)
    for name, mode in (("src/deep/secret.py", 0o600), ("src/run", 0o4700), ("left", 0o644), ("src/left", 0o644)):
        (tmp_path / name).touch()
        (tmp_path / name).chmod(mode)
    (tmp_path / ("l" * 120)).symlink_to("src/" + "d" * 150)
    names = ["src/deep/secret.py", "src/run", "l" * 120]
    with tarfile.open(fileobj=io.BytesIO(b"".join(OutgoingProject(tmp_path, names).tar()))) as tar:
        found = {member.name: (member.type, member.mode, member.linkname) for member in tar}
    folder = (tarfile.DIRTYPE, 0o755, "")
    assert found == {
        "item": folder,
        f"item/{'l' * 120}": (tarfile.SYMTYPE, 0o777, f"src/{'d' * 150}"),
        "item/src": folder,
        "item/src/deep": folder,
        "item/src/deep/secret.py": (tarfile.REGTYPE, 0o644, ""),
        "item/src/run": (tarfile.REGTYPE, 0o755, ""),
        "whole": (tarfile.REGTYPE, 0o644, ""),
    }


def test_a_project_without_files_is_a_folder(tmp_path: Path) -> None:
    assert unpacked(OutgoingProject(tmp_path, ())) == {"item": None, "whole": b""}
