"""What nodes keep of zips that Python imports from: each case is a Python of its own, started as in a node."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Mapping

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]
SHIPPED = ROOT / "roles/base/files/rootfs/usr/lib/python3/dist-packages"
SOURCES = {
    "pack/__init__.py": "",
    "pack/fine.py": "import sys\ndef answer(): return 42\n",
    "pack/broken.py": "def fail():\n    raise RuntimeError('on line 2')\n",
    "pack/notes.txt": "a resource",
}


class Node:
    """A folder with the files as a node has them, but for the place where compiled code is kept."""

    def __init__(self, folder: Path) -> None:
        self.kept = folder / "kept"
        self.site = folder / "site"
        shutil.copytree(SHIPPED, self.site, ignore=shutil.ignore_patterns("__pycache__"))
        line = self.site / "gpuprov_zip.pth"
        line.write_text(line.read_text().replace("/var/cache/gpuprov-python", str(self.kept)))
        self.archive = folder / "payload.zip"

    def write(self, sources: Mapping[str, str]) -> None:
        with zipfile.ZipFile(self.archive, "w") as archive:
            for name, content in sources.items():
                archive.writestr(name, content)

    def run(self, script: str, *, asked: bool = True) -> str:
        start = f"import site, sys; site.addsitedir({str(self.site)!r}); sys.path.insert(0, {str(self.archive)!r})\n"
        environment = {"PATH": os.environ["PATH"]} | ({"GPUPROV_KEEP_COMPILED": "1"} if asked else {})
        done = subprocess.run(
            [sys.executable, "-c", start + script], env=environment, capture_output=True, text=True, check=False
        )
        return done.stdout + done.stderr

    def files(self) -> dict[str, int]:
        return {path.name: path.stat().st_ino for path in self.kept.glob("*")}


@pytest.fixture
def node(tmp_path: Path) -> Node:
    made = Node(tmp_path)
    made.write(SOURCES)
    return made


def test_what_was_compiled_once_is_read_the_second_time(node: Node) -> None:
    script = "from pack import fine; print(fine.answer())"
    assert node.run(script) == "42\n"
    first = node.files()
    assert sorted(name.split(".")[0] for name in first) == ["pack", "pack"]
    never = "import builtins\ndef compile(*_, **__): raise SystemExit('compiled')\nbuiltins.compile = compile\n"
    assert node.run(never + script, asked=False) == "compiled\n"
    assert node.run(never + script) == "42\n"
    assert node.files() == first


def test_another_source_of_the_same_name_is_compiled_anew(node: Node) -> None:
    script = "from pack import fine; print(fine.answer())"
    node.run(script)
    node.write({**SOURCES, "pack/fine.py": SOURCES["pack/fine.py"].replace("42", "43")})
    assert node.run(script) == "43\n"
    assert len(node.files()) == 3


def test_an_error_shows_the_file_of_this_run_and_its_line(node: Node) -> None:
    script = "import traceback\nfrom pack import broken\ntry: broken.fail()\nexcept RuntimeError: traceback.print_exc()"
    node.run(script)
    node.archive = node.archive.rename(node.archive.with_name("elsewhere.zip"))
    said = node.run(script)
    assert f'{node.archive}/pack/broken.py", line 2, in fail\n    raise RuntimeError' in said
    assert said == node.run(script, asked=False)


def test_the_rest_of_a_zip_is_as_ever(node: Node) -> None:
    script = """
import importlib.resources, pkgutil, runpy, pack, os
print(pkgutil.get_data("pack", "notes.txt"), importlib.resources.files("pack").joinpath("notes.txt").read_text())
print(sorted(module.name for module in pkgutil.iter_modules(pack.__path__)))
print(runpy.run_module("pack.fine")["answer"](), os.environ.get("GPUPROV_KEEP_COMPILED"))
try: import pack.absent
except ImportError as error: print(error)
"""
    expected = "b'a resource' a resource\n['broken', 'fine']\n42 None\nNo module named 'pack.absent'\n"
    assert node.run(script) == node.run(script, asked=False) == expected


def test_a_folder_that_cannot_be_written_keeps_nothing(node: Node) -> None:
    node.kept.write_text("a file")
    assert node.run("from pack import fine; print(fine.answer())") == "42\n"


def test_without_the_variable_python_imports_as_ever(node: Node) -> None:
    script = "from pack import fine; print(type(fine.__loader__).__name__, 'gpuprov_zip' in sys.modules)"
    assert node.run(script, asked=False) == "zipimporter False\n"
    assert not node.kept.exists()
    assert node.run(script) == "KeptLoader True\n"
