from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from gpuprov.core.errors import HostNotReady, TimedOut
from gpuprov.core.waiting import Wait
from gpuprov.provision.kept_bases import Base
from gpuprov.provision.kept_packages import forget_packages, kept_packages
from gpuprov.provision.rootfs import ensure_rootfs, render_mmdebstrap
from gpuprov.provision.unfinished import unfinished_folder
from tests.e2e.remains import find_mounts

BASE = Base(suite="bookworm", packages=("python3",))
WRITES = 'for last; do :; done\necho tar >"$last"\n'


def install(folder: Path, body: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put an mmdebstrap of this content on the path; it counts its calls."""
    program = folder / "bin" / "mmdebstrap"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho call >>{folder}/calls\n{body}")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    return folder / "calls"


def test_a_root_file_system_is_built_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = install(tmp_path, WRITES, monkeypatch)
    first = ensure_rootfs(BASE, cache=tmp_path / "cache")
    second = ensure_rootfs(BASE, cache=tmp_path / "cache")
    assert first == second
    assert first.read_text() == "tar\n"
    assert calls.read_text().count("call") == 1


def test_other_packages_or_another_suite_are_another_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, WRITES, monkeypatch)
    cache = tmp_path / "cache"
    bases = [BASE, Base(suite="bookworm", packages=("vim",)), Base(suite="trixie", packages=("python3",))]
    assert len({ensure_rootfs(base, cache=cache) for base in bases}) == len(bases)


def test_a_failure_shows_the_last_lines_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, WRITES + "echo E: no mirror >&2; exit 25\n", monkeypatch)
    with pytest.raises(HostNotReady, match="bookworm could not be built") as caught:
        ensure_rootfs(BASE, cache=tmp_path / "cache")
    assert "E: no mirror" in caught.value.evidence
    assert "mmdebstrap" in caught.value.fix
    assert list((tmp_path / "cache").iterdir()) == []


def test_what_a_killed_build_left_goes_and_what_another_one_makes_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, WRITES, monkeypatch)
    cache = tmp_path / "cache"
    dead, alive = 4_194_305, os.getppid()  # one more than any process has
    for name in (f".rootfs-{dead}.tar", f".rootfs-{alive}.tar"):
        cache.mkdir(exist_ok=True)
        (cache / name).touch()
    (cache / f".wheels-x-{dead}").mkdir()
    made = ensure_rootfs(BASE, cache=cache)
    unfinished_folder(cache, "wheels").rmdir()
    assert sorted(cache.iterdir()) == sorted([made, cache / f".rootfs-{alive}.tar"])


BUILDS = """
import sys
from pathlib import Path
from gpuprov.provision.kept_bases import Base
from gpuprov.provision.rootfs import ensure_rootfs
ensure_rootfs(Base(suite="bookworm", packages=("python3",)), cache=Path(sys.argv[1]))
"""


def programs(folder: Path) -> list[str]:
    """Processes that run something in this folder."""
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            lines.append(path.read_text())
    return [line for line in lines if str(folder) in line and "\0-c\0" not in line]


@pytest.mark.skipif(os.getuid() != 0, reason="a user's mmdebstrap has namespaces of its own")
def test_where_gpuprov_is_killed_mmdebstrap_and_its_mounts_go_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounted, began = tmp_path / "mounted", tmp_path / "began"
    mounted.mkdir()
    install(tmp_path, f"mount -t tmpfs none {mounted}; touch {began}; sleep 600 & wait", monkeypatch)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with subprocess.Popen([sys.executable, "-c", BUILDS, str(tmp_path / "cache")]) as build:
        Wait(what="mmdebstrap to begin", timeout_s=30, fix="look").until(began.exists, bool)
        running, places = programs(tmp_path / "bin"), find_mounts(str(mounted))
        build.kill()
    assert running
    assert len(places) == 1
    assert str(Path("/proc/self/ns/mnt").readlink()) not in places
    gone = Wait(what="mmdebstrap and its mounts to be gone", timeout_s=10, fix="look")
    gone.until(lambda: [*programs(tmp_path / "bin"), *find_mounts(str(mounted))], lambda left: not left)
    (tmp_path / "bin" / "mmdebstrap").write_text(f"#!/bin/sh\n{WRITES}")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    made = ensure_rootfs(BASE, cache=tmp_path / "cache")
    assert [path for path in (*tmp_path.glob(".*"), *(tmp_path / "cache").iterdir()) if path != made] == []


def test_a_missing_keyring_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "echo 'not verified: NO_PUBKEY 871920D1991BC93C' >&2; exit 25\n", monkeypatch)
    with pytest.raises(HostNotReady) as caught:
        ensure_rootfs(Base(suite="noble", packages=("python3",)), cache=tmp_path / "cache")
    assert "ubuntu-keyring" in caught.value.fix


def test_a_mirror_that_does_not_answer_ends_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, WRITES + "sleep 60\n", monkeypatch)
    with pytest.raises(TimedOut, match="bookworm could not be built") as caught:
        ensure_rootfs(BASE, cache=tmp_path / "cache", silence_s=0.2)
    assert "export GPUPROV_SILENCE_S=" in caught.value.fix
    assert "mmdebstrap did nothing for 0.2 s" in caught.value.what
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_missing_mmdebstrap_names_the_command_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(HostNotReady, match="mmdebstrap") as caught:
        ensure_rootfs(BASE, cache=tmp_path / "cache")
    assert "gpuprov host prepare" in caught.value.fix


def test_ubuntu_needs_its_universe_for_slurm() -> None:
    target = Path("x.tar")
    assert "--components=main,universe" in render_mmdebstrap("noble", ["python3"], target)
    assert "--components=main" in render_mmdebstrap("bookworm", ["python3"], target)


@pytest.fixture
def as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)


FETCHES = """
for word; do case $word in --hook-dir=*) kept=$(readlink "${word#--hook-dir=}/kept");; esac; done
mkdir -p "$kept/partial"; touch "$kept/lock"
"""


@pytest.mark.usefixtures("as_root")
def test_packages_that_were_fetched_are_there_in_the_next_run_and_go_with_the_base(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    body = f"{FETCHES}[ -e $kept/a.deb ] && {{ {WRITES} exit 0; }}; touch $kept/a.deb; exit 25"
    calls = install(tmp_path, body, monkeypatch)
    with pytest.raises(HostNotReady):
        ensure_rootfs(BASE, cache=cache)
    kept = kept_packages(cache)
    assert kept is not None
    assert (kept / "a.deb").exists()
    made = ensure_rootfs(BASE, cache=cache)
    assert list(cache.iterdir()) == [made]
    assert calls.read_text().count("call") == 2


@pytest.mark.usefixtures("as_root")
def test_a_run_that_fetched_nothing_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, f"{FETCHES} exit 25", monkeypatch)
    with pytest.raises(HostNotReady):
        ensure_rootfs(BASE, cache=tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


@pytest.mark.usefixtures("as_root")
def test_packages_that_cannot_be_installed_are_fetched_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = f"{FETCHES} touch $kept/a.deb; echo 'I: extracting archives...' >&2; exit 25"
    install(tmp_path, body, monkeypatch)
    with pytest.raises(HostNotReady):
        ensure_rootfs(BASE, cache=tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


@pytest.mark.usefixtures("as_root")
def test_packages_from_before_the_machine_was_booted_are_not_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = kept_packages(tmp_path)
    assert before is not None
    before.mkdir()
    (before / "a.deb").touch()
    assert kept_packages(tmp_path) == before
    assert before.exists()
    monkeypatch.setattr("gpuprov.provision.kept_packages.boot_id", lambda: "another")
    assert kept_packages(tmp_path) != before
    assert not before.exists()


@pytest.mark.usefixtures("as_root")
def test_packages_that_another_build_fetches_stay(tmp_path: Path) -> None:
    folders = [tmp_path / "packages-before", kept_packages(tmp_path)]
    for folder in folders:
        assert folder is not None
        folder.mkdir()
        (folder / "a.deb").touch()
        held = os.open(folder, os.O_RDONLY)
        fcntl.flock(held, fcntl.LOCK_EX)
        kept_packages(tmp_path)
        forget_packages(tmp_path)
        assert (folder / "a.deb").exists()
        os.close(held)
        forget_packages(tmp_path)
        assert not folder.exists()


def test_a_user_s_mmdebstrap_cannot_write_to_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert kept_packages(tmp_path) is None
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    body = 'for word; do case $word in --hook-dir=*) ls "${word#--hook-dir=}" >&2;; esac; done; exit 25'
    install(tmp_path, body, monkeypatch)
    with pytest.raises(HostNotReady) as caught:
        ensure_rootfs(BASE, cache=tmp_path / "cache")
    assert caught.value.evidence.splitlines()[1:] == ["customize.sh", "extract.sh", "packages", "setup.sh", "tmp"]
    assert list(tmp_path.glob(".gpuprov-base-*")) == []


def test_the_user_that_mmdebstrap_runs_as_can_read_what_it_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    body = 'for word; do case $word in --hook-dir=*) stat -c %A "${word#--hook-dir=}"/* >&2;; esac; done; exit 25'
    install(tmp_path, body, monkeypatch)
    before = os.umask(0o077)
    try:
        with pytest.raises(HostNotReady) as caught:
            ensure_rootfs(BASE, cache=tmp_path / "cache")
    finally:
        os.umask(before)
    modes = [line for line in caught.value.evidence.splitlines()[1:] if not line.startswith("l")]
    assert len(modes) == 5
    assert all(mode[7] == "r" for mode in modes)


def test_the_name_of_a_base_does_not_depend_on_where_packages_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, WRITES, monkeypatch)
    names = set()
    for uid in (0, 1000):
        monkeypatch.setattr(os, "geteuid", lambda uid=uid: uid)
        names.add(ensure_rootfs(BASE, cache=tmp_path / str(uid)).name)
    assert len(names) == 1


def test_how_far_mmdebstrap_is_is_told_while_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    tell = tmp_path / "told"
    waits = f"for _ in $(seq 100); do [ -e {tell} ] && break; sleep 0.1; done; [ -e {tell} ] || exit 25\n"
    install(tmp_path, f"echo 'I: running --setup-hook directly: x' >&2\n{waits}{WRITES}", monkeypatch)

    def hear(state: str) -> None:
        told.append(state)
        tell.touch()

    ensure_rootfs(BASE, cache=tmp_path / "cache", tell=hear)
    assert told == ["fetching the lists of packages"]
