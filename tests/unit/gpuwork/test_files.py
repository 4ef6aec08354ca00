"""Which files are frozen with a run, and that the frozen copy is what its name says."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from gpuwork.errors import Refused, StoreError
from gpuwork.freeze import check_copy, freeze, hash_files, remove_copy
from gpuwork.project_files import ProjectLimits, list_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def project(make: Callable[..., Path]) -> Path:
    files = {"job.py": "", "src/model.py": "", "data/words.txt": "a", ".hidden": ""}
    left_out = {"src/__pycache__/model.pyc": "", ".venv/bin/python": "", "env/pyvenv.cfg": "", "runs/param_001/x": ""}
    return make({**files, **left_out})


@pytest.fixture
def frozen(tmp_path: Path) -> Iterator[Path]:
    """A folder for frozen copies, which can be removed afterwards by users other than root too."""
    folder = tmp_path / "frozen"
    folder.mkdir()
    yield folder
    for copy in folder.iterdir():
        remove_copy(copy)


def faults_of(project: Path, limits: ProjectLimits | None = None) -> list[str]:
    return [str(fault) for fault in list_files(project, limits=limits)[1]]


def test_caches_environments_and_runs_are_left_out(project: Path) -> None:
    (project / "src/runs").mkdir()
    (project / "src/runs/kept.py").touch()
    names = [".hidden", "data/words.txt", "job.py", "src/model.py", "src/runs/kept.py"]
    assert list_files(project) == (names, [])


def test_a_copy_without_git_has_the_same_files(project: Path, tmp_path: Path) -> None:
    for argv in (["init", "-q"], ["add", "--force", "."]):
        subprocess.run(["git", "-C", str(project), *argv], check=True)
    names, faults = list_files(project)
    assert faults == []
    for name in names:
        (tmp_path / "copy" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(project / name, tmp_path / "copy" / name)
    assert list_files(tmp_path / "copy") == (names, [])


def test_git_says_what_belongs_to_a_project_in_its_work_tree(project: Path) -> None:
    (project / ".gitignore").write_text("data/\nenv/\n.venv/\n")
    (project / "gone.py").touch()
    for argv in (["init", "-q"], ["add", "job.py", "gone.py"]):
        subprocess.run(["git", "-C", str(project), *argv], check=True)
    (project / "gone.py").unlink()
    for argv in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "inner"]):
        identity = ["-c", "user.name=n", "-c", "user.email=e"]
        (project / "inner").mkdir(exist_ok=True)
        subprocess.run(["git", *identity, "-C", str(project / "inner"), *argv], check=True)
    (project / "inner/module.py").touch()
    assert list_files(project) == ([".gitignore", ".hidden", "inner/module.py", "job.py", "src/model.py"], [])


def test_what_git_answers_when_it_fails_is_told(project: Path) -> None:
    (project / ".git").write_text("gitdir: /nowhere\n")
    with pytest.raises(Refused) as caught:
        list_files(project)
    assert "not a git repository" in caught.value.evidence
    assert caught.value.fix == f"git -C {project} ls-files"


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="is not a folder"):
        list_files(tmp_path / "nothing")


def test_links_stay_within_the_project(project: Path) -> None:
    for name, target in {
        "good": "data/words.txt",
        "src/up": "../data",
        "data/again": "../src/up/words.txt",
        "absolute": str(project / "job.py"),
        "passwords": "/etc/passwd",
        "out": "../elsewhere",
        "src/out": "../../Project/job.py",
        "dangling": "nothing",
        "excluded": "env/pyvenv.cfg",
    }.items():
        (project / name).symlink_to(target)
    assert faults_of(project) == [
        f"absolute: is a link out of the project, to {project}/job.py (allowed: a relative link inside the project)",
        "out: is a link out of the project, to ../elsewhere (allowed: a relative link inside the project)",
        "passwords: is a link out of the project, to /etc/passwd (allowed: a relative link inside the project)",
        "src/out: is a link out of the project, to ../../Project/job.py (allowed: a relative link inside the project)",
        "dangling: is a link to nothing, which does not exist or is not copied: remove it",
        "excluded: is a link to env/pyvenv.cfg, which does not exist or is not copied: remove it",
        "data/again: is a link to ../src/up/words.txt, which does not exist or is not copied: remove it",
    ]


def test_what_is_too_large_or_no_file_is_refused(project: Path) -> None:
    with (project / "huge.bin").open("wb") as file:
        file.truncate(5 * 1024**3)
    os.mkfifo(project / "pipe")
    (project / os.fsdecode(b"caf\xe9")).touch()
    fix = "keep data outside the project and give its path as a parameter, or name it in .gitignore"
    assert faults_of(project) == [
        r"'caf\udce9': has a name that is not UTF-8",
        f"huge.bin: has 5120 MiB, more than 256 MiB: {fix}",
        "pipe: is neither a file nor a link: remove it, or name it in .gitignore",
    ]


def test_too_much_in_all_is_refused(project: Path) -> None:
    assert faults_of(project, ProjectLimits(all_bytes=0))[0].startswith(
        "Project: has 0 MiB, more than 0 MiB: keep data"
    )
    assert faults_of(project, ProjectLimits(files=2))[0].startswith("Project: has more than 2 files: keep data")


def test_the_hash_is_of_names_contents_links_and_what_can_be_executed(project: Path) -> None:
    names = ["job.py", "data/words.txt"]
    hashes = {hash_files(project, names)}
    assert hash_files(project, reversed(names)) in hashes
    (project / "job.py").write_text("x")
    hashes.add(hash_files(project, names))
    (project / "job.py").chmod(0o755)
    hashes.add(hash_files(project, names))
    (project / "job.py").unlink()
    (project / "job.py").symlink_to("data/words.txt")
    hashes.add(hash_files(project, names))
    assert len(hashes) == 4


def test_an_edit_does_not_reach_the_copy_and_makes_another_one(project: Path, frozen: Path) -> None:
    (project / "link").symlink_to("data/words.txt")
    names, _ = list_files(project)
    code = hash_files(project, names)
    freeze(project, names, code=code, into=frozen)
    (project / "data/words.txt").write_text("edited")
    assert (frozen / code / "data/words.txt").read_text() == "a"
    assert (frozen / code / "link").read_text() == "a"
    assert (frozen / code / "job.py").stat().st_mode & 0o777 == 0o444
    check_copy(frozen / code)
    other = hash_files(project, names)
    freeze(project, names, code=other, into=frozen)
    assert sorted(path.name for path in frozen.iterdir()) == sorted([code, other])


def test_a_copy_that_was_cut_off_is_removed_by_the_next_and_never_used(project: Path, frozen: Path) -> None:
    (frozen / ".0123-99").mkdir()
    (frozen / ".0123-99/job.py").touch()
    names, _ = list_files(project)
    code = hash_files(project, names)
    freeze(project, names, code=code, into=frozen)
    assert [path.name for path in frozen.iterdir()] == [code]


def test_a_project_that_changes_while_it_is_copied_is_refused(project: Path, frozen: Path) -> None:
    names, _ = list_files(project)
    code = hash_files(project, names)
    (project / "job.py").write_text("changed")
    with pytest.raises(Refused, match="changed while it was copied"):
        freeze(project, names, code=code, into=frozen)
    assert list(frozen.iterdir()) == []


@pytest.mark.parametrize("name", ["job.py", "src/new.py"])
def test_a_copy_that_was_changed_is_not_run(project: Path, frozen: Path, name: str) -> None:
    names, _ = list_files(project)
    code = hash_files(project, names)
    freeze(project, names, code=code, into=frozen)
    for folder in (frozen / code, frozen / code / "src", frozen / code / "job.py"):
        folder.chmod(0o755)
    (frozen / code / name).write_text("evil")
    with pytest.raises(StoreError, match="was changed or removed"):
        check_copy(frozen / code)
