from __future__ import annotations

import json
import sys
import venv
from functools import cache
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import yaml

from gpuprov.core import group_files, lock
from gpuprov.core.execution import Completed, run
from gpuprov.gpu import information, waiting_for_gpus
from gpuprov.lifecycle import changing
from gpuprov.link.places import Places
from gpuprov.machine import run_records, survey
from gpuprov.provision import recipe
from tests.fakes.forked_programs import ForkedPrograms
from tests.fakes.ssh import install_ssh
from tests.fakes.world import make_world

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.conftest import Recording
    from tests.fakes.ssh import FakeSsh
    from tests.fakes.world import World

ROOT = Path(__file__).parents[2]


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSsh:
    """A stand-in for ssh, by which hosts are processes of this machine."""
    return install_ssh(tmp_path, monkeypatch)


@pytest.fixture
def places(tmp_path: Path) -> Places:
    """Where a test's own user has added hosts and has connections."""
    for name in ("config", "run"):
        (tmp_path / name).mkdir()
    return Places(config=tmp_path / "config", runtime=tmp_path / "run")


@pytest.fixture(autouse=True, scope="session")
def folders_hashed_once() -> Iterator[None]:
    """The checkout's roles and kernels do not change during a run; thousands of commands ask for their hashes."""
    hash_folder = recipe.hash_folder
    hash_once = cache(hash_folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            recipe,
            "hash_folder",
            lambda folder: hash_once(folder) if folder.is_relative_to(ROOT) else hash_folder(folder),
        )
        yield


@pytest.fixture(autouse=True, scope="session")
def recorded_drivers_are_read_here() -> Iterator[None]:
    """What drivers in folders of tests tell of their GPUs is read without a child, unless it is no file, or hangs."""
    code = information._READ

    def read(argv: Sequence[str], **options: Any) -> Completed:
        told = [Path(path) for path in argv[5:]]
        if argv[4] != code or not all(path.is_file() for path in told):
            return run(argv, **options)
        texts = json.dumps({str(path): path.read_text(encoding="utf-8", errors="replace") for path in told})
        return Completed(argv=tuple(argv), exit_code=0, stdout=texts, stderr="", seconds=0.0)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(information, "run", read)
        yield


@pytest.fixture(scope="session")
def lock_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Folders that are made by those who lock: most tests do not."""
    base = tmp_path_factory.mktemp("locks")
    return (base / str(number) for number in count())


@pytest.fixture(autouse=True)
def own_lock_and_short_waits(lock_folders: Iterator[Path]) -> Iterator[None]:
    """A lock of each test's own; and threads that wait for each other look often, and are soon done.

    Thousands of tests go through here: it is one fixture, and neither imports by name nor makes a folder.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(group_files, "LOCK_FOLDER", folder := next(lock_folders))
        patch.setattr(run_records, "FOLDER", folder / "runs")
        patch.setattr(survey, "RUN_FOLDER", folder / "run")
        patch.setattr(lock, "_LOOK_S", 0.02)
        patch.setattr(waiting_for_gpus, "_LOOK_S", 0.03)
        patch.setattr(changing, "_SETTLE_S", 0.1)
        yield


@pytest.fixture(scope="session")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Python with PyYAML and msgspec, as nodes have; it starts in a third of the time that the tests' takes."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    for package in (yaml, msgspec):
        found = Path(str(package.__file__)).parent
        (packages / found.name).symlink_to(found)
    return str(folder / "bin/python")


@pytest.fixture(scope="session")
def world_member(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., str]]:
    """The shell command of a gpuprov on a host whose root is a folder: world_member(root, name, nodes=0)."""
    imported = ["gpuprov.cli.main", "gpuprov.cli.member", "gpuprov.fleet.member.serve", "tests.fakes.world"]
    started: list[ForkedPrograms] = []  # by the first test that needs it

    def command(root: Path, name: str, *, nodes: int = 0) -> str:
        if not started:
            started.append(ForkedPrograms(sys.executable, tmp_path_factory.mktemp("members"), imported=imported))
        return f'exec {started[0].command("tests.fakes.member", str(root), name, str(nodes))} "$@"'

    yield command
    for members in started:
        members.finish()


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recording: Recording) -> World:
    return make_world(tmp_path, monkeypatch, recording)
