"""docs/workers.md and setup.cfg are true of workers."""

from __future__ import annotations

import re
from configparser import ConfigParser
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from gpuwork.broker import PING_TASK, RUN_TASK, no_celery
from gpuwork.worker import arguments, tasks
from gpuwork.worker.cli import _LEFT_S
from tests.unit.gpuwork.test_job_docs import TEXT, WORKERS

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/workers.md").read_text()


def test_the_options_and_tasks_of_a_worker_are_those_of_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        arguments.parse_arguments(["--help"])
    options = set(re.findall(r"--[a-z]+", capsys.readouterr().out)) - {"--help"}
    table = PAGE.partition("| Option | Meaning |")[2].partition("\n\n")[0]
    assert set(re.findall(r"^\| `(--[a-z]+)", table, re.MULTILINE)) == options
    source = Path(str(tasks.__file__)).read_text()
    names = {PING_TASK, RUN_TASK, *re.findall(r'name="(gpuwork\.[a-z]+)"', source)}
    assert set(re.findall(r"^\| `(gpuwork\.[a-z]+)`", PAGE, re.MULTILINE)) == names
    assert f"waits up to {_LEFT_S:g} s for processes that a killed worker" in WORKERS


def test_celery_is_in_the_extras_with_the_versions_that_are_told() -> None:
    config = ConfigParser()
    config.read(ROOT / "setup.cfg")
    extras = config["options.extras_require"]
    (wanted,) = [Requirement(line) for line in extras["worker"].splitlines() if line]
    assert str(wanted) in [str(Requirement(line)) for line in extras["test"].splitlines() if line]
    assert version("celery") in wanted.specifier
    assert "or Celery 5.7" in TEXT
    assert f"'{str(wanted).replace('<6,>=5.7', '>=5.7,<6')}'" in no_celery(ImportError("x")).fix
