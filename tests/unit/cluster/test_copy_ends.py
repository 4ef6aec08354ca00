from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuprov.cluster.copy_ends import CopyEnd, decide_target, parse_end, refuse_odd_source, refuse_same_side
from gpuprov.core.errors import UsageError

if TYPE_CHECKING:
    from gpuprov.drivers.base import PathKind

HERE: dict[str, PathKind] = {
    "logs": "folder",
    "logs/slurm": "folder",
    "logs/fifo": "other",
    "file": "file",
    "fifo": "other",
    ".": "folder",
    "/": "folder",
    "/tmp": "folder",
}


def look(path: str) -> PathKind:
    return HERE.get(path.rstrip("/") or path[:1], "absent")


@pytest.mark.parametrize(
    ("text", "node", "path"),
    [
        ("results.csv", None, "results.csv"),
        ("./odd:name", None, "./odd:name"),
        ("/tmp/c000:x", None, "/tmp/c000:x"),
        (":x", None, ":x"),
        ("", None, ""),
        ("c000:/tmp/", "c000", "/tmp/"),
        ("c000:/tmp", "c000", "/tmp"),
        ("c000:", "c000", "/root/"),
        ("c000:.", "c000", "/root"),
        ("c000:in/a b", "c000", "/root/in/a b"),
        ("c000:../../..", "c000", "/"),
        ("c000:/", "c000", "/"),
        ("c000:a:b", "c000", "/root/a:b"),
    ],
)
def test_an_end_is_in_a_node_if_a_name_and_a_colon_come_first(text: str, node: str | None, path: str) -> None:
    assert parse_end(text) == CopyEnd(path=path, node=node)


def test_a_name_that_no_node_can_have_says_how_a_file_here_is_meant() -> None:
    with pytest.raises(UsageError) as caught:
        parse_end("My file:1")
    assert "./My file:1" in caught.value.fix


@pytest.mark.parametrize(("source", "target"), [("a", "b"), ("c000:/a", "c001:/b"), ("c000:/a", "c000:/b")])
def test_one_end_is_here_and_one_in_a_node(source: str, target: str) -> None:
    with pytest.raises(UsageError, match="between this host and a node") as caught:
        refuse_same_side(parse_end(source), parse_end(target))
    assert caught.value.evidence
    assert "c000:" in caught.value.fix


@pytest.mark.parametrize(
    ("kind", "target", "path"),
    [
        ("file", "logs", "logs/x"),
        ("file", "logs/", "logs/x"),
        ("file", "file", "file"),
        ("file", "new", "new"),
        ("file", "logs/new", "logs/new"),
        ("file", "/tmp/new", "/tmp/new"),
        ("file", "/new", "/new"),
        ("folder", "logs", "logs/x"),
        ("folder", "new", "new"),
        ("folder", ".", "./x"),
    ],
)
def test_where_a_copy_goes(kind: PathKind, target: str, path: str) -> None:
    assert decide_target(kind, "x", CopyEnd(path=target), look) == CopyEnd(path=path)


@pytest.mark.parametrize(
    ("kind", "name", "target", "what"),
    [
        ("file", "slurm", "logs", "logs/slurm exists on c000"),
        ("file", "fifo", "logs", "logs/fifo exists"),
        ("file", "x", "fifo", "fifo exists"),
        ("folder", "slurm", "logs", "logs/slurm exists"),
        ("folder", "x", "file", "file exists"),
        ("file", "x", "file/", "no folder file/"),
        ("file", "x", "none/", "no folder none/"),
        ("folder", "x", "none/below", "no folder none on c000"),
        ("folder", "", "logs", "root folder"),
    ],
)
def test_what_is_there_stays_and_what_is_not_there_is_told(kind: PathKind, name: str, target: str, what: str) -> None:
    with pytest.raises(UsageError, match=what) as caught:
        decide_target(kind, name, CopyEnd(path=target, node="c000"), look)
    assert caught.value.evidence
    assert caught.value.fix


@pytest.mark.parametrize(
    ("path", "kind", "fix"),
    [
        ("/no/such it", "absent", "gpuprov exec c000 -- ls -la /no"),
        ("/a b/it", "absent", "gpuprov exec c000 -- ls -la '/a b'"),
        ("/tmp/fifo", "other", "gpuprov exec c000 -- ls -la /tmp/fifo"),
        ("/tmp/x/", "file", "/tmp/x"),
    ],
)
def test_what_cannot_be_copied(path: str, kind: PathKind, fix: str) -> None:
    with pytest.raises(UsageError) as caught:
        refuse_odd_source(CopyEnd(path=path, node="c000"), kind)
    assert caught.value.fix.endswith(fix)
    refuse_odd_source(CopyEnd(path=path, node="c000"), "folder")
