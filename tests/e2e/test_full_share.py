"""Work whose shared folder is full, or is somebody else's: told in words, and nothing is half submitted."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.conftest import output
from tests.e2e.desk import Desk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.conftest import Gpuprov
    from tests.e2e.places import Place

TINY_MIB = 24


@pytest.fixture(scope="module")
def tiny(gpuprov: Gpuprov, place: Place, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """A cluster of one node whose shared folder is a small file system of its own."""
    base = tmp_path_factory.mktemp("tiny")
    folder = Path("/mnt") / place.cluster
    if folder.is_mount():  # of a killed run
        output("umount", "--lazy", str(folder))
    folder.mkdir(exist_ok=True)
    output("mount", "-t", "tmpfs", "-o", f"size={TINY_MIB}m,mode=0700", "tmpfs", str(folder))
    try:
        spec = base / "tiny.yaml"
        spec.write_text(place.spec(count=1, nodes="role: worker", share=str(folder)))
        gpuprov("cluster", "up", "-f", str(spec), "--no-verify")
        made = Desk(gpuprov, place, "lxd", "worker", base)
        made.folder = folder
        yield made
        gpuprov("cluster", "down", place.cluster, "--yes", "--force")
    finally:
        output("umount", "--lazy", str(folder))
        folder.rmdir()


def refused(desk: Desk, code: int, *argv: str) -> str:
    """What a command says on stderr that cannot be done."""
    said = desk(*argv, expect=code).stderr
    assert all(part in said for part in ("error: ", "fix: ")), said
    return said


@contextmanager
def filled(folder: Path, keep: int = 0) -> Iterator[None]:
    """Nearly or quite full, for the block."""
    filler = folder / "filler"
    with suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    with filler.open("r+b") as file:
        file.truncate(filler.stat().st_size - keep)
    try:
        yield
    finally:
        filler.unlink()


@pytest.mark.parametrize("keep", [512 * 1024, 0], ids=["no room for the project", "no room at all"])
def test_a_shared_folder_that_is_full_is_told_and_nothing_is_half_submitted(tiny: Desk, keep: int) -> None:
    project = tiny.project / f"project-{keep}"
    project.mkdir()
    (project / "data.bin").write_bytes(os.urandom(2**20))
    before = tiny.gpuprov.json(*tiny.typed(("jobs",)))["jobs"]
    with filled(tiny.folder, keep):
        said = refused(tiny, 3, "submit", "--project", str(project), "--", "true")
        assert "nothing was submitted" in said
        assert "No space left on device" in said
        assert tiny.gpuprov.json(*tiny.typed(("jobs",)))["jobs"] == before
    with filled(tiny.folder, 2**21):
        finished = tiny("submit", "--project", str(project), "--", "true")
    assert f"warning: {tiny.folder} is 9" in finished.stderr, "per cent full"
    tiny("jobs", "wait", finished.stdout.strip())


@pytest.mark.long
def test_a_run_that_ends_while_the_folder_is_full_has_its_end_once_there_is_room(tiny: Desk) -> None:
    job = tiny.begin("--no-project", "--", "sleep", "5")
    with filled(tiny.folder):
        time.sleep(10)
        assert tiny.shown(job)["state"] != "done", "its end cannot be written"
    tiny("jobs", "wait", job)


def test_a_job_that_fills_the_folder_says_why_it_failed(tiny: Desk) -> None:
    fill = 'said=$(head -c 100M /dev/zero 2>&1 >big) || { rm big; echo "$said"; exit 4; }'  # a full disk has no log
    job = tiny.submit("--no-project", "--", "sh", "-c", fill)
    tiny("jobs", "wait", job, expect=1)
    shown = tiny.shown(job)
    assert (shown["state"], shown["exit_status"]) == ("failed", 4), shown
    assert "No space left on device" in tiny.log(job)


def test_a_shared_folder_whose_owner_was_changed_is_told(tiny: Desk) -> None:
    owner = tiny.folder.stat().st_uid
    jobs = tiny.folder / "jobs"
    for place in (tiny.folder, jobs):
        output("chown", "0:0", str(place))
        place.chmod(0o750)
        try:
            refused(tiny, 3, "submit", "--no-project", "--", "true")
        finally:
            output("chown", f"{owner}:{owner}", str(place))
    job = tiny.submit("--no-project", "--", "true")
    tiny("jobs", "wait", job)
