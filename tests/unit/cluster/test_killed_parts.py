"""The parts of an image, killed while they are fetched side by side: nothing goes on, and the next run ends well."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuprov.core.waiting import Wait

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]

BUILDS = """
import sys, tempfile
from pathlib import Path
from types import SimpleNamespace
from gpuprov.cluster.image_parts import ImageParts
from gpuprov.core.reporter import Silent
from gpuprov.core.side_by_side import beside
from gpuprov.provision.kept_bases import Base
folder = Path(sys.argv[1])
sys.executable = str(folder / "bin" / "python")
recipe = SimpleNamespace(base="bookworm", rootfs=Base(suite="bookworm", packages=("python3",)), requirements=("numpy",))
parts = ImageParts(recipe, folder / "cache", Silent())
with beside(parts.early_wheels) as fetched:
    parts.base()
    fetched()
"""
# Each begins, is held as long as its file is there, and then makes what it is to make. The first process of a pid
# namespace hears no signal that it has no handler for; the real mmdebstrap has handlers.
MMDEBSTRAP = """#!/bin/sh
trap 'exit 1' INT TERM
touch {folder}/began-mmdebstrap
while [ -e {folder}/hold-mmdebstrap ]; do sleep 0.05; done
for last; do :; done
echo tar >"$last"
"""
PIP = """#!/bin/sh
touch {folder}/began-pip
while [ -e {folder}/hold-pip ]; do sleep 0.05; done
for word; do case $word in --dest=*) dest=${{word#--dest=}};; esac; done
touch "$dest/numpy-1-py3-none-any.whl"
"""


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for folder in ("bin", "tmp"):
        (tmp_path / folder).mkdir()
    for name, text in (("mmdebstrap", MMDEBSTRAP), ("python", PIP)):
        program = tmp_path / "bin" / name
        program.write_text(text.format(folder=tmp_path))
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    return tmp_path


@contextmanager
def build_in(workplace: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A build, which is killed where the test fails: it waits as long as it is held."""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen([sys.executable, "-c", BUILDS, str(workplace)], stderr=subprocess.PIPE, env=env) as build:
        try:
            yield build
        except BaseException:
            build.kill()
            raise


def programs(folder: Path) -> list[str]:
    """Processes that run something of this folder."""
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            lines.append(path.read_text())
    return [line for line in lines if str(folder / "bin") in line]


@pytest.mark.sampled(3)
@pytest.mark.skipif(os.getuid() != 0, reason="a user's mmdebstrap has namespaces of its own")
@pytest.mark.parametrize(
    ("running", "number"),
    [
        # Each signal while it waits for mmdebstrap, and those that it can hear while it waits for pip; what is fetched
        # then differs by what still runs, not by the signal.
        (("mmdebstrap", "pip"), signal.SIGKILL),
        (("mmdebstrap", "pip"), signal.SIGTERM),
        (("mmdebstrap", "pip"), signal.SIGINT),
        (("mmdebstrap",), signal.SIGKILL),
        (("pip",), signal.SIGTERM),
        (("pip",), signal.SIGINT),
    ],
)
def test_a_build_is_killed_while_they_run(workplace: Path, running: tuple[str, ...], number: signal.Signals) -> None:
    for name in running:
        (workplace / f"hold-{name}").touch()
    made = {"mmdebstrap": "cache/rootfs-*.tar", "pip": "cache/wheels-*"}
    with build_in(workplace) as build:
        begun = Wait(what="all to have begun, and the rest to be done", timeout_s=30, fix="look", interval_s=0.02)
        begun.until(
            lambda: [
                *(name for name in running if not (workplace / f"began-{name}").exists()),
                *(name for name in made if name not in running and not [*workplace.glob(made[name])]),
            ],
            lambda missing: not missing,
        )
        assert programs(workplace)
        build.send_signal(number)
        build.communicate(timeout=20)
    gone = Wait(what="what it started to be gone", timeout_s=10, fix="look")
    gone.until(lambda: programs(workplace), lambda left: not left)
    for name in running:
        (workplace / f"hold-{name}").unlink()
    with build_in(workplace) as build:
        _, said = build.communicate(timeout=30)
    assert build.returncode == 0, said
    names = sorted(path.name.partition("-")[0] for path in (workplace / "cache").iterdir())
    assert names == ["rootfs", "wheels"]
    assert list((workplace / "tmp").iterdir()) == []
