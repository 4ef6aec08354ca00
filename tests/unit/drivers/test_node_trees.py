"""The commands that copy trees, run on this machine, and what is made of their ends."""

from __future__ import annotations

import subprocess
import tarfile
from typing import TYPE_CHECKING

import pytest

from gpuprov.core.errors import EngineError, TimedOut, UsageError
from gpuprov.drivers.base import Unreadable
from gpuprov.drivers.calls import Call, Output
from gpuprov.drivers.node_trees import look_in_node, read_tree, write_tree

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def here(call: Call) -> Output:
    done = subprocess.run(call.argv, input=b"".join(call.pieces()), capture_output=True, check=False, cwd="/")
    if call.take:
        call.take(done.stdout)
    return Output(exit_code=done.returncode, stdout=b"" if call.take else done.stdout, stderr=done.stderr)


def tar(*names: str) -> list[bytes]:
    return [*(tarfile.TarInfo(name).tobuf() for name in names), bytes(1024)]


def test_a_tree_is_there_at_once_and_nothing_beside_it(tmp_path: Path) -> None:
    write_tree(here, "c000", f"{tmp_path}/new one", tar("item", "whole"))
    assert [path.name for path in tmp_path.iterdir()] == ["new one"]


@pytest.mark.parametrize("names", [("item",), ("whole",), ()])
def test_a_part_is_not_enough(tmp_path: Path, names: tuple[str, ...]) -> None:
    with pytest.raises(EngineError, match="cannot write"):
        write_tree(here, "c000", f"{tmp_path}/new", tar(*names))
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_not_replaced_by_a_file(tmp_path: Path) -> None:
    (tmp_path / "there/in").mkdir(parents=True)
    with pytest.raises(EngineError, match="cannot write") as caught:
        write_tree(here, "c000", f"{tmp_path}/there", tar("item", "whole"))
    assert "directory" in caught.value.evidence
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


def test_what_a_full_node_says() -> None:
    def full(_call: Call) -> Output:
        return Output(exit_code=2, stdout=b"", stderr=b"tar: item: Wrote only 5 of 10 bytes: No space left on device\n")

    with pytest.raises(EngineError, match="no space left for /srv/x in c000") as caught:
        write_tree(full, "c000", "/srv/x", tar("item", "whole"))
    assert "Wrote only" in caught.value.evidence
    assert caught.value.fix.endswith("gpuprov exec c000 -- df -h")


def silent(call: Call) -> Output:
    raise call.overdue(Output(exit_code=-1, stdout=b"", stderr=b""), node="c000")


def test_silence_is_told_with_its_limit() -> None:
    for copy in (lambda: read_tree(silent, "c000", "/x", len), lambda: write_tree(silent, "c000", "/x", [])):
        with pytest.raises(TimedOut, match="stopped") as caught:
            copy()
        assert "nothing moved for 60 s" in caught.value.evidence
        assert "gpuprov shell c000" in caught.value.fix
    with pytest.raises(Unreadable):
        look_in_node(silent, "c000", "/x")


def test_a_source_that_fails_is_passed_on_and_tidied_up_after() -> None:
    ran: list[str] = []

    def broken() -> Iterator[bytes]:
        yield bytes(512)
        raise UsageError("cannot read it", evidence="e", fix="f")

    def execute(call: Call) -> Output:
        ran.append(call.argv[0])
        return here(call) if call.feed else Output(exit_code=0, stdout=b"", stderr=b"")

    with pytest.raises(UsageError, match="cannot read it"):
        write_tree(execute, "c000", "/tmp/gpuprov-none/x", broken())
    assert ran == ["sh", "rm"]


@pytest.mark.parametrize(("code", "said"), [(0, ""), (1, "tar: x: file changed while it was read")])
def test_a_file_that_changes_is_told(code: int, said: str) -> None:
    assert read_tree(lambda _call: Output(exit_code=code, stdout=b"", stderr=said.encode()), "c0", "/x", len) == said


def test_a_tar_that_fails_is_an_error() -> None:
    with pytest.raises(Unreadable) as caught:
        read_tree(lambda _call: Output(exit_code=2, stdout=b"", stderr=b"tar: denied"), "c0", "/x", len)
    assert caught.value.evidence == "tar: denied"
    with pytest.raises(Unreadable, match="cannot read"):
        look_in_node(lambda _call: Output(exit_code=127, stdout=b"", stderr=b"sh: not found"), "c0", "/x")
