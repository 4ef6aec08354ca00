"""Files and folders of any size into and out of nodes, of which the root may be anybody."""

from __future__ import annotations

import io
import tarfile
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from gpuprov.core.errors import EngineError, TimedOut, UsageError
from gpuprov.core.waiting import Wait
from gpuprov.drivers.base import File
from gpuprov.project.incoming_files import IncomingFiles
from gpuprov.project.outgoing_files import OutgoingFiles
from tests.contract.engines import FIND_PROCESS, refused

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from gpuprov.drivers.base import Driver, PathKind
    from tests.contract.engines import Bench

LONG = "n" * 200
NAMES = ("plain", "with space", "ünï", "a'b\"c", "-n", "new\nline", f"{LONG}/{LONG}/deep", "..odd..", "*")
LARGE_BYTES = 40_000_000
ODD = """
mkdir -p tree/folder && cd tree && echo kept >folder/file && ln -s /etc/passwd link && ln -s /etc linked
ln folder/file folder/again && mkfifo folder/fifo
python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("folder/socket")'
"""


def fetch(driver: Driver, node: str, path: str, target: Path, kind: PathKind = "folder") -> IncomingFiles:
    with IncomingFiles(node=node, path=path, kind=kind, target=target) as incoming:
        driver.read_tree(node, path, incoming.take)
    return incoming


def make_tree(top: Path) -> dict[str, bytes]:
    contents = {name: name.encode() * 300 for name in NAMES} | {"empty": b"", "block": bytes(512), "most": b"x" * 511}
    for name, content in contents.items():
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return contents


def seen(top: Path) -> dict[str, bytes]:
    return {str(path.relative_to(top)): path.read_bytes() for path in top.rglob("*") if path.is_file()}


def test_a_folder_comes_back_as_it_went(driver: Driver, node: str, tmp_path: Path) -> None:
    contents = make_tree(tmp_path / "there")
    outgoing = OutgoingFiles(tmp_path / "there")
    driver.write_tree(node, "/opt/tree", outgoing.tar())
    assert driver.look(node, "/opt/tree") == "folder"
    incoming = fetch(driver, node, "/opt/tree", tmp_path / "back")
    assert seen(tmp_path / "back") == contents
    assert (outgoing.files, outgoing.total_bytes) == (incoming.files, incoming.total_bytes)
    assert outgoing.files == len(contents)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["back", "there"]


def test_a_file_replaces_a_file(driver: Driver, node: str, tmp_path: Path) -> None:
    for content in (b"a long first one", b"", b"short"):
        (tmp_path / "file").write_bytes(content)
        driver.write_tree(node, "/opt/it's one", OutgoingFiles(tmp_path / "file").tar())
        assert driver.pull(node, "/opt/it's one") == content
        fetch(driver, node, "/opt/it's one", tmp_path / "back", "file")
        assert (tmp_path / "back").read_bytes() == content


def test_what_stands_at_a_path(driver: Driver, node: str) -> None:
    driver.push(node, [File(path="/opt/look/new\nline", content=b"x")])
    paths = ("/opt/look/new\nline", "/opt/look", "/opt/look/", "/opt/look/none", "/opt/look/new\nline/below")
    assert [driver.look(node, path) for path in paths] == ["file", "folder", "folder", "absent", "absent"]


def test_nothing_is_copied_out_of_or_into_a_node_that_does_not_run(bench: Bench, tmp_path: Path) -> None:
    name = bench.create()
    (tmp_path / "file").touch()
    with refused(EngineError):
        bench.driver.look(name, "/opt")
    with refused(EngineError):
        fetch(bench.driver, name, "/opt", tmp_path / "back")
    with refused(EngineError):
        bench.driver.write_tree(name, "/opt/file", OutgoingFiles(tmp_path / "file").tar())
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_source_that_fails_half_way_leaves_all_as_it_was(driver: Driver, node: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(3_000_000))
    driver.push(node, [File(path="/opt/whole/file", content=b"before")])

    def broken() -> Iterator[bytes]:
        for count, piece in enumerate(OutgoingFiles(tmp_path / "file").tar()):
            if count == 10:
                raise UsageError("cannot read on", evidence="a test", fix="none")
            yield piece

    with refused(UsageError):
        driver.write_tree(node, "/opt/whole/file", broken())
    with refused(EngineError):  # it ends between two files, where tar itself sees nothing wrong
        driver.write_tree(node, "/opt/whole/other", [tarfile.TarInfo("item").tobuf()])
    assert driver.pull(node, "/opt/whole/file") == b"before"
    fetch(driver, node, "/opt/whole", tmp_path / "back")
    assert seen(tmp_path / "back") == {"file": b"before"}


def test_a_target_that_stops_half_way_is_left_as_it_was(driver: Driver, node: str, tmp_path: Path) -> None:
    driver.push(node, [File(path="/opt/large/file", content=bytes(3_000_000))])
    (tmp_path / "back").write_bytes(b"before")
    taken = 0

    def take(piece: bytes) -> None:
        nonlocal taken
        taken += len(piece)
        if taken > 100_000:
            raise UsageError("cannot write on", evidence="a test", fix="none")
        incoming.take(piece)

    incoming = IncomingFiles(node=node, path="/opt/large/file", kind="file", target=tmp_path / "back")
    with refused(UsageError), incoming:
        driver.read_tree(node, "/opt/large/file", take)
    assert seen(tmp_path) == {"back": b"before"}


def test_a_foreign_instance_is_neither_read_nor_written(
    driver: Driver, foreign: str, node: str, tmp_path: Path
) -> None:
    assert driver.look(node, "/opt") == "folder"
    with refused(EngineError):
        driver.look(foreign, "/opt")
    with refused(EngineError):
        driver.read_tree(foreign, "/opt", lambda _piece: None)
    with refused(EngineError):
        driver.write_tree(foreign, "/opt/x", OutgoingFiles(tmp_path).tar())


@pytest.mark.usefixtures("real")
def test_what_is_put_into_a_node_is_root_s_and_has_its_modes(bench: Bench, node: str, tmp_path: Path) -> None:
    (tmp_path / "tree/in").mkdir(parents=True)
    (tmp_path / "tree/in/run").write_text("#!/bin/sh\n")
    (tmp_path / "tree/in/run").chmod(0o4755)
    (tmp_path / "tree/link").symlink_to("/etc/passwd")
    outgoing = OutgoingFiles(tmp_path / "tree")
    bench.driver.write_tree(node, "/opt/owned", outgoing.tar())
    assert bench.sh(node, "cd /opt/owned; stat -c '%u %g %a' . in in/run").splitlines() == ["0 0 755"] * 3
    assert bench.sh(node, "ls -A /opt/owned") == "in"
    assert outgoing.skipped == [f"{tmp_path}/tree/link (a link)"]
    assert "gpuprov-cp" not in bench.sh(node, "ls -A /opt")


@pytest.mark.usefixtures("real")
def test_a_large_file_is_streamed_both_ways(bench: Bench, node: str, tmp_path: Path) -> None:
    """More than any command may print."""
    (tmp_path / "large").write_bytes(b"0123456789abcdef" * (LARGE_BYTES // 16))
    bench.driver.write_tree(node, "/opt/large-file", OutgoingFiles(tmp_path / "large").tar())
    fetch(bench.driver, node, "/opt/large-file", tmp_path / "back", "file")
    bench.sh(node, "rm /opt/large-file")
    assert (tmp_path / "back").stat().st_size == LARGE_BYTES
    assert (tmp_path / "back").read_bytes() == (tmp_path / "large").read_bytes()


@pytest.mark.usefixtures("real")
def test_only_files_and_folders_come_out_of_a_hostile_tree(bench: Bench, node: str, tmp_path: Path) -> None:
    bench.sh(node, f"mkdir -p /srv/odd && cd /srv/odd && {ODD.strip()}")
    (tmp_path / "passwd").write_text("the host's")
    with IncomingFiles(node=node, path="/srv/odd/tree", kind="folder", target=tmp_path / "back") as incoming:
        complaint = bench.driver.read_tree(node, "/srv/odd/tree", incoming.take)
    assert seen(tmp_path / "back") == {"folder/file": b"kept\n", "folder/again": b"kept\n"}
    assert sorted(incoming.skipped) == ["folder/fifo (a FIFO)", "link (a link)", "linked (a link)"]
    assert "folder/socket" in complaint
    assert not [path for path in (tmp_path / "back").rglob("*") if path.is_symlink()]


def evil(*entries: tuple[str, bytes, str]) -> bytes:
    """A tar that GNU tar would not make."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name, kind, target in entries:
            member = tarfile.TarInfo(name)
            member.type, member.linkname, member.size = kind, target, 5 if kind == tarfile.REGTYPE else 0
            tar.addfile(member, io.BytesIO(b"owned"))
    return packed.getvalue()


TOP = ("./", tarfile.DIRTYPE, "")
HOSTILE = {
    "a path above the target": evil(TOP, ("./../owned", tarfile.REGTYPE, "")),
    "a path from the root": evil(TOP, ("/owned", tarfile.REGTYPE, "")),
    "a link and a file through it": evil(TOP, ("./out", tarfile.SYMTYPE, ".."), ("./out/owned", tarfile.REGTYPE, "")),
    "a file and one below it": evil(TOP, ("./a", tarfile.REGTYPE, ""), ("./a/b", tarfile.REGTYPE, "")),
    "a file twice": evil(TOP, ("./a", tarfile.REGTYPE, ""), ("./a", tarfile.REGTYPE, "")),
    "a file that was a folder": evil(("./a", tarfile.REGTYPE, "")),
    "no tar": b"#!/bin/sh\n" * 200,
    "nothing": b"",
    "a cut one": evil(TOP, ("./a", tarfile.REGTYPE, ""))[:1400],
}


@pytest.mark.usefixtures("real")
def test_a_tar_that_lies_writes_nothing_outside_and_nothing_at_the_target(bench: Bench, tmp_path: Path) -> None:
    name = bench.create(start=True)
    bench.await_boot(name)
    script = b'#!/bin/sh\ncase "$*" in *create*) exec cat /root/evil ;; esac\nexec /root/tar "$@"\n'
    where = bench.sh(name, "command -v tar; cp $(command -v tar) /root/tar")
    bench.driver.push(name, [File(path="/root/fake", content=script, mode=0o755)])
    bench.sh(name, f"mv -f /root/fake {where}")
    (tmp_path / "in").mkdir()
    for what, content in HOSTILE.items():
        bench.driver.run(name, ["sh", "-c", f"head -c {len(content)} >/root/evil"], stdin=content or b"x")
        with refused(EngineError):
            fetch(bench.driver, name, "/opt", tmp_path / "in/back")
        assert [path.name for path in tmp_path.rglob("*")] == ["in"], what


@pytest.mark.long
@pytest.mark.usefixtures("real")
def test_copies_that_are_given_up_as_they_end_leave_the_engine_alive(bench: Bench, node: str) -> None:
    """An engine that dies does so where a command ends in the moment it is killed: this takes many."""

    def refuse(_piece: bytes) -> None:
        raise UsageError("not wanted", evidence="e", fix="f")

    def give_up(_number: int) -> None:
        with refused(UsageError):  # an engine that dies is another error
            bench.driver.read_tree(node, "/etc/hostname", refuse)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(give_up, range(2000)))
    assert bench.driver.run(node, ["true"]).exit_code == 0


@pytest.mark.usefixtures("real")
def test_a_node_that_is_silent_ends_a_copy_and_one_that_is_slow_does_not(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = bench.create(start=True)
    bench.await_boot(name)
    monkeypatch.setattr("gpuprov.drivers.node_trees.SILENCE_S", 2.0)
    where = bench.sh(name, "command -v tar; cp $(command -v tar) /root/tar")
    slow = (
        b'#!/bin/sh\ncase "$*" in *create*) /root/tar "$@" >/root/all\n'
        b"for part in 0 1 2 3 4 5 6 7 8 9; do sleep 0.5; dd if=/root/all bs=1024 skip=$part count=1 2>/dev/null; done\n"
        b'exit ;; esac\nexec /root/tar "$@"\n'
    )
    (tmp_path / "file").write_bytes(bytes(5_000_000))
    bench.driver.push(name, [File(path="/root/slow", content=slow, mode=0o755), File(path="/srv/one", content=b"1")])
    bench.sh(name, f"mv -f /root/slow {where}")
    fetch(bench.driver, name, "/srv/one", tmp_path / "back", "file")
    assert (tmp_path / "back").read_bytes() == b"1"
    bench.driver.push(name, [File(path="/root/dead", content=b"#!/bin/sh\nexec sleep 4801\n", mode=0o755)])
    bench.sh(name, f"mv -f /root/dead {where}")
    with refused(TimedOut):
        fetch(bench.driver, name, "/srv/one", tmp_path / "silent", "file")
    with refused(TimedOut):
        bench.driver.write_tree(name, "/srv/two", OutgoingFiles(tmp_path / "file").tar())
    ended = Wait(what="tar to end", timeout_s=10, fix="look")
    ended.until(lambda: bench.python(name, FIND_PROCESS.format(seconds="4801")), lambda count: count == "0")
    assert bench.sh(name, "ls -A /srv") == "one"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["back", "file"]
