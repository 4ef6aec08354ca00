from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import pytest

from gpuprov.core.errors import HostNotReady, UsageError
from gpuprov.core.report_file import ReportFile

if TYPE_CHECKING:
    from pathlib import Path


def parts(folder: Path) -> list[str]:
    return sorted(item.name for item in folder.iterdir())


def test_a_report_is_written_and_nothing_else_is_left(tmp_path: Path) -> None:
    file = ReportFile(str(tmp_path / "a.html"), option="--html")
    assert parts(tmp_path) == []
    file.write("grün")
    assert parts(tmp_path) == ["a.html"]
    assert (tmp_path / "a.html").read_bytes() == "grün".encode()


def test_an_older_report_is_there_until_the_new_one_is(tmp_path: Path) -> None:
    path = tmp_path / "a.html"
    path.write_text("old")
    file = ReportFile(str(path), option="--html")
    assert path.read_text() == "old"
    seen: set[str] = set()
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            seen.add(path.read_text()[:3])
            seen.add(str(len(path.read_text())))

    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(20):
        file.write("new" * 100_000)
    done.set()
    reader.join()
    assert seen <= {"old", "new", "3", "300000"}


def test_a_link_stays_and_what_it_leads_to_is_written(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    link = tmp_path / "latest.html"
    link.symlink_to(tmp_path / "folder" / "a.html")
    ReportFile(str(link), option="--html").write("x")
    assert link.is_symlink()
    assert parts(tmp_path / "folder") == ["a.html"]


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("absent/a.html", "is no folder"),
        ("file/a.html", "is no folder"),
        ("folder", "is a folder"),
        ("", "is a folder"),
        ("fifo", "not a regular file"),
        ("/dev/null", "not a regular file"),
        ("/dev/full", "not a regular file"),
        ("a\0b", "null"),
        ("circle", ""),
        ("/proc/a.html", ""),
    ],
)
def test_a_path_that_cannot_be_written_is_refused_before_the_run(
    path: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    monkeypatch.chdir(tmp_path)
    before = parts(tmp_path)
    with pytest.raises(UsageError) as caught:
        ReportFile(path, option="--html")
    assert (caught.value.exit_code, caught.value.what[:8]) == (2, "--html: ")
    assert says in caught.value.evidence
    assert caught.value.fix
    assert parts(tmp_path) == before


def test_a_folder_that_goes_away_during_the_run_is_an_error(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    file = ReportFile(str(folder / "a.html"), option="--html")
    folder.rmdir()
    with pytest.raises(HostNotReady, match="could not be written") as caught:
        file.write("x")
    assert caught.value.evidence
    assert caught.value.fix


def test_a_write_that_fails_leaves_the_old_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.html"
    path.write_text("old")
    file = ReportFile(str(path), option="--html")

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(HostNotReady):
        file.write("new")
    assert path.read_text() == "old"
    assert parts(tmp_path) == ["a.html"]


def test_two_names_of_one_file_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    one = ReportFile("a.html", option="--html")
    assert one.same_as(ReportFile(str(tmp_path / "x" / ".." / "a.html"), option="--junit"))
    assert not one.same_as(ReportFile("b.html", option="--junit"))
