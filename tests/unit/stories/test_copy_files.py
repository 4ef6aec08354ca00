from __future__ import annotations

import io
import tarfile
from typing import TYPE_CHECKING

import pytest

from gpuprov.cluster.copy_ends import parse_end
from gpuprov.core.errors import EngineError, TimedOut, UsageError
from gpuprov.core.lock import host_lock
from gpuprov.drivers.base import File
from gpuprov.stories.copy_files import copy_files

if TYPE_CHECKING:
    from pathlib import Path

    from gpuprov.core.outcome import Outcome
    from tests.fakes.world import World


def cp(world: World, source: str, target: str) -> Outcome:
    return copy_files(world.driver, parse_end(source), parse_end(target), reporter=world.reporter)


@pytest.fixture
def lab(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    world.begin_with(2)
    world.driver.push("c001", [File(path=f"/var/log/slurm/{name}", content=b"12") for name in ("a", "in/b")])
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return world


def test_a_folder_comes_out_and_goes_in(lab: World, tmp_path: Path) -> None:
    assert cp(lab, "c001:/var/log/slurm", "./logs").changed == (
        "copied c001:/var/log/slurm to ./logs: 2 files, 4 bytes",
    )
    assert (tmp_path / "here/logs/in/b").read_bytes() == b"12"
    cp(lab, "c001:/var/log/slurm", "logs")
    assert (tmp_path / "here/logs/slurm/a").read_bytes() == b"12"
    assert cp(lab, "logs", "c000:/tmp/").changed == ("copied logs to c000:/tmp/logs: 4 files, 8 bytes",)
    assert lab.file("c000", "/tmp/logs/slurm/in/b") == "12"


def test_a_file_is_replaced_on_either_side(lab: World, tmp_path: Path) -> None:
    here = tmp_path / "here/a"
    here.write_text("here")
    cp(lab, "a", "c001:/var/log/slurm")
    assert lab.file("c001", "/var/log/slurm/a") == "here"
    here.write_text("old")
    assert cp(lab, "c001:/var/log/slurm/a", ".").changed[0].endswith("to ./a: 1 file, 4 bytes")
    assert here.read_text() == "here"


@pytest.mark.parametrize(("source", "name"), [("link", "link"), (".", "here"), ("in/..", "here"), ("./in/", "in")])
def test_a_copy_has_the_name_that_was_typed(lab: World, tmp_path: Path, source: str, name: str) -> None:
    (tmp_path / "here/in").mkdir()
    (tmp_path / "here/in/a").touch()
    (tmp_path / "here/link").symlink_to("in")
    assert cp(lab, source, "c001:/opt").changed[0].startswith(f"copied {source} to c001:/opt/{name}: ")


def test_it_tells_how_far_it_is(lab: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuprov.stories.copy_files._STEP_BYTES", 3 * 2**20)
    lab.driver.push("c001", [File(path="/tmp/large", content=bytes(7 * 2**20))])
    cp(lab, "c001:/tmp/large", ".")
    cp(lab, "large", "c001:/opt")
    told = [line for line in lab.reporter.lines if "copied" in line]
    assert told == ["node c001 3 MiB copied", "node c001 6 MiB copied"] * 2


def test_it_waits_for_no_other_run(lab: World) -> None:
    with host_lock(lab.reporter):
        cp(lab, "c001:/var/log/slurm", "logs")
        cp(lab, "logs", "c001:/tmp")


REFUSED: dict[str, tuple[str, str, str]] = {
    "no such node": ("c009:/etc", ".", "no node c009"),
    "a foreign one": ("foreign:/etc", ".", "no node foreign"),
    "a stopped one": ("c000:/etc", ".", "c000 is not running"),
    "into a stopped one": ("file", "c000:/tmp", "c000 is not running"),
    "no such file in the node": ("c001:/none", ".", "no /none on c001"),
    "no such file here": ("none", "c001:/tmp", "no none on this host"),
    "no such folder here": ("c001:/var/log", "none/x", "no folder none on this host"),
    "no such folder in the node": ("file", "c001:/none/x", "no folder /none on c001"),
    "a folder onto a file": ("c001:/var/log", "file", "file exists on this host"),
    "a folder onto a folder": ("folder", "c001:/var/log", "/var/log/folder exists on c001"),
    "a file onto a folder": ("c001:/var/log/file", ".", "exists|no /var/log/file"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_is_refused_before_anything_is_copied(lab: World, tmp_path: Path, case: str) -> None:
    lab.engine.add_foreign_node("foreign", status="running")
    lab.driver.push("c001", [File(path="/var/log/folder/x", content=b"")])
    (tmp_path / "here/file").touch()
    (tmp_path / "here/folder").mkdir()
    lab.driver.stop_node("c000")
    before = lab.engine.dump()
    source, target, what = REFUSED[case]
    with pytest.raises(UsageError, match=what) as caught:
        cp(lab, source, target)
    assert caught.value.evidence
    assert caught.value.fix
    assert lab.engine.dump() == before
    assert sorted(path.name for path in tmp_path.rglob("here/*")) == ["file", "folder"]


def odd_tree() -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name, kind in (("./", tarfile.DIRTYPE), *((f"./l{number}", tarfile.SYMTYPE) for number in range(25))):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "/etc"
            tar.addfile(info)
    return packed.getvalue()


def test_what_is_left_out_is_told(lab: World, tmp_path: Path) -> None:
    lab.engine.tars["/var/log/slurm"] = odd_tree()
    cp(lab, "c001:/var/log/slurm", "logs")
    (told,) = (line for line in lab.reporter.lines if "skipped" in line)
    assert "l0 (a link), " in told
    assert told.endswith(", and 5 more")
    (tmp_path / "here/logs/link").symlink_to("/etc")
    cp(lab, "logs", "c001:/tmp")
    assert "here/logs/link (a link)" in lab.reporter.lines[-2]


def test_a_node_that_lies_leaves_nothing(lab: World, tmp_path: Path) -> None:
    lab.engine.tars["/var/log/slurm"] = odd_tree()[:-9000]
    with pytest.raises(EngineError, match="cannot read /var/log/slurm of c001"):
        cp(lab, "c001:/var/log/slurm", "logs")
    assert list((tmp_path / "here").iterdir()) == []


@pytest.mark.parametrize("step", ["read_tree", "read_tree:done"])
def test_a_node_that_is_silent_leaves_nothing(lab: World, tmp_path: Path, step: str) -> None:
    lab.engine.faults.raise_at(TimedOut("the copy stopped", evidence="e", fix="f"), step)
    with pytest.raises(TimedOut):
        cp(lab, "c001:/var/log/slurm", "logs")
    assert list((tmp_path / "here").iterdir()) == []
