from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PARAMS = """
param2requests = {
    "num_hidden_units": [64, 128, 256],
    "lr": [0.1, 0.01],
}
param2default = {"lr": 0.1, "num_hidden_units": 32, "epochs": 3}
param2debug = {"epochs": 1}
"""
# A stand-in for pandas, of which the contract uses one class; the tests' environment has no pandas.
PANDAS = """
class Series:
    def __init__(self, data, index=None, name=None):
        self.data, self.index, self.name = data, index or range(len(data)), name

    def items(self):
        return zip(self.index, self.data)
"""
JOB = """
import pandas as pd

def main(param2val):
    print(param2val)
    return [
        pd.Series([0.5, 0.5, 0.8], index=[1, 2, 3], name="precision"),
        pd.Series([0.4, 0.6, 0.7], index=[1, 2, 3], name="recall"),
    ]
"""

Make = "Callable[..., Path]"


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Path]:
    """Makes a project of files by name; without any, the lab's template."""

    def project(files: dict[str, str] | None = None, *, name: str = "Project") -> Path:
        template = {"src/params.py": PARAMS, "src/job.py": JOB, "pandas.py": PANDAS}
        for path, text in (template if files is None else files).items():
            (tmp_path / name / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name / path).write_text(text)
        return tmp_path / name

    return project
