from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpuprov.core.errors import HostNotReady, TimedOut
from gpuprov.provision.rootfs import ensure_rootfs, render_mmdebstrap
from gpuprov.provision.unfinished import unfinished_folder

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
    first = ensure_rootfs("bookworm", ["python3"], cache=tmp_path / "cache")
    second = ensure_rootfs("bookworm", ["python3"], cache=tmp_path / "cache")
    assert first == second
    assert first.read_text() == "tar\n"
    assert calls.read_text().count("call") == 1


def test_other_packages_or_another_suite_are_another_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, WRITES, monkeypatch)
    cache = tmp_path / "cache"
    made = {ensure_rootfs(suite, packages, cache=cache) for suite, packages in _RECIPES}
    assert len(made) == len(_RECIPES)


_RECIPES: list[tuple[str, list[str]]] = [("bookworm", ["python3"]), ("bookworm", ["vim"]), ("trixie", ["python3"])]


def test_a_failure_shows_the_last_lines_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, WRITES + "echo E: no mirror >&2; exit 25\n", monkeypatch)
    with pytest.raises(HostNotReady, match="bookworm could not be built") as caught:
        ensure_rootfs("bookworm", ["python3"], cache=tmp_path / "cache")
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
    made = ensure_rootfs("bookworm", ["python3"], cache=cache)
    unfinished_folder(cache, "wheels").rmdir()
    assert sorted(cache.iterdir()) == sorted([made, cache / f".rootfs-{alive}.tar"])


def test_a_missing_keyring_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "echo 'not verified: NO_PUBKEY 871920D1991BC93C' >&2; exit 25\n", monkeypatch)
    with pytest.raises(HostNotReady) as caught:
        ensure_rootfs("noble", ["python3"], cache=tmp_path / "cache")
    assert "ubuntu-keyring" in caught.value.fix


def test_a_mirror_that_does_not_answer_ends_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, WRITES + "sleep 60\n", monkeypatch)
    with pytest.raises(TimedOut, match="bookworm could not be built") as caught:
        ensure_rootfs("bookworm", ["python3"], cache=tmp_path / "cache", silence_s=0.2)
    assert "export GPUPROV_SILENCE_S=" in caught.value.fix
    assert "mmdebstrap did nothing for 0.2 s" in caught.value.what
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_missing_mmdebstrap_names_the_command_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(HostNotReady, match="mmdebstrap") as caught:
        ensure_rootfs("bookworm", ["python3"], cache=tmp_path / "cache")
    assert "gpuprov host prepare" in caught.value.fix


def test_ubuntu_needs_its_universe_for_slurm() -> None:
    target = Path("x.tar")
    assert "--components=main,universe" in render_mmdebstrap("noble", ["python3"], target)
    assert "--components=main" in render_mmdebstrap("bookworm", ["python3"], target)
