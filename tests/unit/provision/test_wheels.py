from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from gpuprov.core.errors import HostNotReady
from gpuprov.core.follower import Follower
from gpuprov.provision.cache_age import forget_older
from gpuprov.provision.recipe import REQUIREMENTS
from gpuprov.provision.wheels import ensure_wheels, render_download


@pytest.fixture
def pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A python whose `-m pip download` writes one wheel; the returned file makes it fail."""
    program, broken = tmp_path / "python", tmp_path / "broken"
    program.write_text(
        f"""#!/bin/sh
echo call >>{tmp_path}/calls
echo "$*" >>{tmp_path}/said
for word; do case $word in --dest=*) dest=${{word#--dest=}};; esac; done
touch "$dest/numpy-1-py3-none-any.whl"
[ ! -e {broken} ] || {{ echo "ERROR: no matching distribution" >&2; exit 1; }}
"""
    )
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    return broken


def test_wheels_are_fetched_once_for_a_python(tmp_path: Path, pip: Path) -> None:
    assert not pip.exists()
    cache = tmp_path / "cache"
    first = ensure_wheels(["numpy"], python="3.11", cache=cache)
    assert [path.name for path in first] == ["numpy-1-py3-none-any.whl"]
    assert ensure_wheels(["numpy"], python="3.11", cache=cache) == first
    assert ensure_wheels(["numpy"], python="3.13", cache=cache) != first
    assert (tmp_path / "calls").read_text().count("call") == 2


def test_an_interrupted_download_is_not_used(tmp_path: Path, pip: Path) -> None:
    pip.touch()
    with pytest.raises(HostNotReady, match="numpy") as caught:
        ensure_wheels(["numpy"], python="3.11", cache=tmp_path / "cache")
    assert "no matching distribution" in caught.value.evidence
    assert "pip download" in caught.value.fix
    assert list((tmp_path / "cache").iterdir()) == []
    pip.unlink()
    assert ensure_wheels(["numpy"], python="3.11", cache=tmp_path / "cache")


def test_no_refresh_takes_wheels_from_whoever_has_just_asked_for_them(tmp_path: Path, pip: Path) -> None:
    pip.unlink(missing_ok=True)
    cache = tmp_path / "cache"
    kept = ensure_wheels(["numpy"], python="3.11", cache=cache)[0].parent
    long_ago = time.time() - 24 * 3600
    os.utime(kept, (long_ago, long_ago))
    assert ensure_wheels(["numpy"], python="3.11", cache=cache)[0].parent == kept
    assert forget_older(cache, time.time()) == ()
    os.utime(kept, (long_ago, long_ago))
    assert forget_older(cache, time.time()) == (kept.name,)


def test_the_download_is_for_the_nodes_python() -> None:
    argv = render_download(["numpy"], python="3.13", target=Path("/cache"))
    assert "--python-version=3.13" in argv
    assert "--only-binary=:all:" in argv


def test_what_gpuprov_needs_is_fetched_by_hash(tmp_path: Path, pip: Path) -> None:
    assert not pip.exists()
    kept = ensure_wheels(REQUIREMENTS["none"], python="3.11", cache=tmp_path / "cache")[0].parent
    said = (tmp_path / "said").read_text()
    assert "--no-deps --require-hashes --requirement=" in said
    assert not said.strip().endswith("numpy<2.5")
    pins = (kept / "locked.txt").read_text()
    assert "numba-cuda==" in pins
    assert "pip==" in pins
    assert "celery==" not in pins
    assert all(line.endswith("\\") or "--hash=sha256:" in line or "# via" in line for line in pins.splitlines())


def test_packages_of_the_user_have_no_hashes_and_may_need_other_versions(tmp_path: Path, pip: Path) -> None:
    wanted = [*REQUIREMENTS["none"], "numpy==1.26.*"]
    program = Path(sys.executable)
    conflict = "case $* in *--constraint=*) echo 'ERROR: ResolutionImpossible' >&2; exit 1;; esac"
    program.write_text(f"{program.read_text()}\n{conflict}\n")
    assert not pip.exists()
    assert ensure_wheels(wanted, python="3.11", cache=tmp_path / "cache")
    first, second = (tmp_path / "said").read_text().splitlines()
    assert "--constraint=" in first
    assert "--constraint=" not in second
    assert second.endswith(f"pip {' '.join(wanted)}")


def test_newer_versions_are_looked_for_only_where_there_is_no_lock(tmp_path: Path, pip: Path) -> None:
    assert not pip.exists()
    cache = tmp_path / "cache"
    for requirements, calls in ((REQUIREMENTS["none"], 1), ([*REQUIREMENTS["none"], "torch"], 2)):
        (tmp_path / "calls").unlink(missing_ok=True)
        ensure_wheels(requirements, python="3.11", cache=cache)
        ensure_wheels(requirements, python="3.11", cache=cache, fresh=True)
        assert (tmp_path / "calls").read_text().count("call") == calls


def test_another_file_than_the_lock_has_is_refused(tmp_path: Path, pip: Path) -> None:
    pip.touch()
    program = Path(sys.executable)
    said = "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE."
    program.write_text(program.read_text().replace("ERROR: no matching distribution", said))
    with pytest.raises(HostNotReady) as caught:
        ensure_wheels(REQUIREMENTS["none"], python="3.11", cache=tmp_path / "cache")
    assert "other files than that with which this release was made" in caught.value.fix
    assert list((tmp_path / "cache").iterdir()) == []


def test_why_packages_conflict_is_told_with_what_to_do(tmp_path: Path, pip: Path) -> None:
    pip.touch()
    program = Path(sys.executable)
    said = "ERROR: these package versions have conflicting dependencies."
    why = "echo 'The conflict is caused by:'; echo '    a depends on b==1'"
    program.write_text(
        program.read_text().replace("ERROR: no matching distribution", said).replace("exit 1", f"{why}; exit 1")
    )
    heard: list[str] = []
    with pytest.raises(HostNotReady) as caught:
        ensure_wheels(["a"], python="3.11", cache=tmp_path / "cache", follower=Follower(hear=heard.extend))
    assert caught.value.evidence.splitlines()[-3:] == [said, "The conflict is caused by:", "    a depends on b==1"]
    assert "image.python" in caught.value.fix
    assert "The conflict is caused by:" in heard
