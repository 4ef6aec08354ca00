from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gpuprov.core.errors import HostNotReady
from gpuprov.core.follower import Follower
from gpuprov.provision.wheels import ensure_wheels, render_download


@pytest.fixture
def pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A python whose `-m pip download` writes one wheel; the returned file makes it fail."""
    program, broken = tmp_path / "python", tmp_path / "broken"
    program.write_text(
        f"""#!/bin/sh
echo call >>{tmp_path}/calls
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


def test_the_download_is_for_the_nodes_python_and_takes_pip_along() -> None:
    argv = render_download(["numpy"], python="3.13", target=Path("/cache"))
    assert "--python-version=3.13" in argv
    assert "--only-binary=:all:" in argv
    assert argv[-2:] == ["pip", "numpy"]


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
