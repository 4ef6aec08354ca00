"""The collection, as `ansible-test sanity` judges it; docs/ansible.md says what of it does not run, and why."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import ansible_test
import pytest
from ansible.release import __version__ as ansible_version

ROOT = Path(__file__).resolve().parents[2]
PLACE = Path("ansible_collections/gpuprov/cluster")
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
QUICK = (
    "compile",
    "empty-init",
    "ignores",
    "line-endings",
    "no-assert",
    "no-get-exception",
    "no-illegal-filenames",
    "no-smart-quotes",
    "replace-urlopen",
    "shebang",
    "symlinks",
    "use-argspec-type-path",
    "use-compat-six",
    "validate-modules",
)
LONG = ("ansible-doc", "import", "pep8", "pylint", "runtime-metadata", "shellcheck", "yamllint")
REQUIREMENTS = Path(ansible_test.__path__[0], "_internal", "python_requirements.py").read_text()
PIP_VERSIONS = re.findall(r"pip='([0-9.]+)'", REQUIREMENTS)
# ansible-test would download this; Python brings the same
GET_PIP = """
import runpy, sys
sys.argv = ["ensurepip"]
runpy.run_module("ensurepip", run_name="__main__")
"""


def check(folder: Path, tests: tuple[str, ...]) -> None:
    shutil.copytree(ROOT / PLACE, folder / PLACE, ignore=shutil.ignore_patterns("__pycache__"))
    sanity = folder / PLACE / "tests" / "sanity"
    major, minor = ansible_version.split(".")[:2]
    (sanity / "ignore.txt").rename(sanity / f"ignore-{major}.{minor}.txt")
    home = folder / "home"
    cache = home / ".ansible" / "test" / "cache"
    cache.mkdir(parents=True)
    for version in PIP_VERSIONS:
        (cache / f"get_pip_{version.replace('.', '_')}.py").write_text(GET_PIP)
    tools = Path(sys.executable).parent
    asked = [part for test in tests for part in ("--test", test)]
    done = subprocess.run(
        [tools / "ansible-test", "sanity", "--local", "--python", PYTHON, "--requirements", *asked],
        cwd=folder / PLACE,
        env={**os.environ, "HOME": str(home), "PATH": f"{tools}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    for test in tests:
        assert f'Running sanity test "{test}"' in done.stdout + done.stderr, f"{test} was not run"


@pytest.mark.slow
def test_ansible_test_finds_nothing_wrong(tmp_path: Path) -> None:
    check(tmp_path, QUICK)


@pytest.mark.long
def test_ansible_test_finds_nothing_wrong_in_what_takes_it_longer(tmp_path: Path) -> None:
    check(tmp_path, LONG)
