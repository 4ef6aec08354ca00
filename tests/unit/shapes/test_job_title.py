"""What jobs are called."""

from __future__ import annotations

import pytest

from gpuprov.shapes.job_order import JobOrder


@pytest.mark.parametrize(
    ("command", "title"),
    [
        ("python3 train.py --lr 0.1", "train.py"),
        ("/usr/bin/python3.11 -u src/train.py", "train.py"),
        ("python3 -W ignore train.py", "train.py"),
        ("python3 -m vision.train -x", "vision.train"),
        ("env A=1 B=2 python3 train.py", "train.py"),
        ("bash -e run.sh", "run.sh"),
        ("sh -c true", "sh"),
        ("bash -ec true", "bash"),
        ("python3 -c 1", "python3"),
        ("python3 -", "python3"),
        ("python3 -m", "python3"),
        ("./train", "train"),
        ("env", "env"),
        ("odd/\u00e4 x", "_"),
    ],
)
def test_a_job_has_the_name_of_what_is_run_and_not_of_its_interpreter(command: str, title: str) -> None:
    assert JobOrder(command=tuple(command.split())).title == title


def test_a_name_that_was_given_and_a_function_come_first() -> None:
    assert JobOrder(command=("python3", "train.py"), name="sweep").title == "sweep"
    assert JobOrder(function="app.tasks:train").title == "app.tasks:train"
