"""Which packages a project needs, by the text of its files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuprov.project.imports import ask_imports
from gpuwork.project_imports import MOST_BYTES, find_imports

if TYPE_CHECKING:
    from pathlib import Path

JOB = "src/job.py"


def imports_of(folder: Path, files: dict[str, str], module: str = "src.job") -> dict[str, str]:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return {name: f"{file}:{line}" for name, (file, line) in find_imports(folder, [*files], module).items()}


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({JOB: "import os, json\nimport pandas as pd\n"}, {"pandas": "src/job.py:2"}),
        ({JOB: "from sklearn.svm import SVC\n"}, {"sklearn": "src/job.py:1"}),
        ({JOB: "import a\n", "a.py": "import torch.nn\n"}, {"torch": "a.py:1"}),
        ({JOB: "import b\n", "src/b.py": "import torch\n"}, {"torch": "src/b.py:1"}),
        ({JOB: "from . import b\n", "src/b.py": "import torch\n"}, {"torch": "src/b.py:1"}),
        ({JOB: "from .b import c\n", "src/b.py": "import torch\n"}, {"torch": "src/b.py:1"}),
        ({JOB: "from ..lib import c\n", "lib/__init__.py": "", "lib/c.py": "import torch\n"}, {"torch": "lib/c.py:1"}),
        ({JOB: "from lib import c\n", "lib/c.py": "import torch\n"}, {"torch": "lib/c.py:1"}),
        ({JOB: "", "src/__init__.py": "import torch\n"}, {"torch": "src/__init__.py:1"}),
        ({JOB: "import pandas\n", "pandas.py": ""}, {}),
        ({JOB: "import native\n", "native.cpython-311-x86_64-linux-gnu.so": ""}, {}),
        ({JOB: "import gpuwork.grid\nfrom __future__ import annotations\n"}, {}),
        ({JOB: "", "tests/test_job.py": "import pytest\n"}, {}),
    ],
)
def test_what_is_imported_on_the_way_from_the_module_is_found(
    tmp_path: Path, files: dict[str, str], found: dict[str, str]
) -> None:
    assert imports_of(tmp_path, files) == found


@pytest.mark.parametrize(
    "text",
    [
        "try:\n    import torch\nexcept ImportError:\n    torch = None\n",
        "def main(values):\n    import torch\n",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch\n",
        "import sys\nsys.path.append('/shared/lib')\nimport torch\n",
        "from sys import path\npath.append('/shared/lib')\nimport torch\n",
        "import sys\nsys.modules['torch'] = sys\nimport torch\n",
        "import torch\nthis is no Python\n",
        "import torch\n" + "#" * MOST_BYTES,
        "import a\nimport torch\n",
    ],
    ids=["try", "function", "if", "path", "path of sys", "modules", "syntax", "large", "a file that cannot be read"],
)
def test_what_may_be_well_is_no_reason_to_refuse(tmp_path: Path, text: str) -> None:
    assert imports_of(tmp_path, {JOB: text, "a.py": "import (\n"}) == {}


def test_a_link_in_a_circle_is_no_module(tmp_path: Path) -> None:
    (tmp_path / "a.py").symlink_to("a.py")
    assert find_imports(tmp_path, ["a.py"], "a") == {}


def test_gpuprov_asks_it_about_nodes(tmp_path: Path) -> None:
    files = {JOB: "import a\n", "a.py": "import os, torch.nn\n"}
    assert imports_of(tmp_path, files) == ask_imports(tmp_path, [*files], "src.job") == {"torch": "a.py:1"}
