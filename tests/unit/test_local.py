"""What the pages tell to type with `--local` works with the packages of the extra `local`."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from gpuprov.project.local_packages import EXTRAS, extra_requirements

ROOT = Path(__file__).parents[2]
PAGES = {path.relative_to(ROOT): path.read_text() for path in (*ROOT.glob("docs/*.md"), *ROOT.glob("examples/*/*.md"))}
COMMAND = re.compile(r"^ +(?:\$ )?(gpuprov (?:.*\\\n)*.*)$", re.MULTILINE)


def commands_of(page: str) -> list[list[str]]:
    """The commands of a page that run on this machine."""
    typed = [command for command in COMMAND.findall(page) if re.search(r"--local\b", command.partition(" #")[0])]
    return [shlex.split(command.replace("\\\n", " "), comments=True) for command in typed]


TYPED = [(page, argv) for page, text in sorted(PAGES.items()) for argv in commands_of(text)]


def packages_of(extra: str) -> set[str]:
    config = ConfigParser()
    config.read(ROOT / "setup.cfg")
    return {str(Requirement(line)) for line in config["options.extras_require"][extra].splitlines() if line}


def test_the_extras_are_the_packages_of_nodes_and_are_tested() -> None:
    for wheels, extra in EXTRAS.items():
        assert packages_of(extra) == {str(Requirement(line)) for line in extra_requirements(wheels)}, extra
    assert {Requirement(line).name for line in packages_of("local")} <= {
        *(Requirement(line).name for line in (*packages_of("test"), *packages_of("local-cu13"))), "numba-cuda",
    }  # fmt: skip
    page = PAGES[Path("docs/commands.md")]
    assert all(f"`{extra}`" in page or f"gpuprov[{extra}]" in page for extra in EXTRAS.values())


def test_every_verb_that_runs_here_is_typed_in_a_page() -> None:
    assert {argv[1] for _, argv in TYPED} == {"anneal", "grid", "program", "smoke"}


@pytest.mark.slow
@pytest.mark.parametrize(("page", "argv"), TYPED, ids=[f"{page.name}: {' '.join(argv[1:3])}" for page, argv in TYPED])
def test_what_is_typed_works(page: Path, argv: list[str], tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    shutil.copytree(ROOT / "examples/anneal", tmp_path, dirs_exist_ok=True)
    if "vision" in argv:
        _write_project(PAGES[page], tmp_path / "vision")
    env = {**os.environ, "GPUPROV_SIMULATED_GPUS": "1", "HOME": str(tmp_path)}
    done = subprocess.run(
        [str(Path(sys.executable).with_name("gpuprov")), *argv[1:]],
        cwd=tmp_path, env=env, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def _write_project(page: str, folder: Path) -> None:
    """The first project that a page shows: each file is named in the line before it."""
    for name in ("src/params.py", "src/job.py"):
        text = page.partition(f"\n`{name}`:\n\n")[2].partition("\n\n`")[0].partition("\n\nThree")[0]
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(re.sub("^    ", "", text, flags=re.MULTILINE))
