"""The role broker: Flower runs the same with either init, as the account of jobs, where gpuprov put its file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpuprov.roles.worker.facts import FLOWER, PAGE_SERVICE
from gpuprov.spec.shared_folder import ACCOUNT

ROLE = Path(__file__).parents[3] / "roles/broker"
UNIT = ROLE / f"files/systemd/etc/systemd/system/{PAGE_SERVICE}.service"
RUN = ROLE / f"files/runit/etc/runit/runsvdir/gpuprov/{PAGE_SERVICE}/run"
COMMAND = f"/usr/bin/python3 -I -m celery --config gpuwork.celeryconfig flower --conf={FLOWER}"


def test_systemd_starts_it_where_its_file_is() -> None:
    settings = dict(re.findall(r"^(\w+)=(.*)$", UNIT.read_text(), re.MULTILINE))
    assert settings["ConditionPathExists"] == FLOWER
    assert (settings["User"], settings["WorkingDirectory"], settings["ExecStart"]) == (ACCOUNT, "/", COMMAND)
    assert f"{PAGE_SERVICE}.service" in (ROLE / "tasks/main.yml").read_text()


def test_runit_starts_it_where_its_file_is() -> None:
    lines = RUN.read_text().splitlines()
    assert f"[ -e {FLOWER} ] || exec sv down {PAGE_SERVICE}" in lines
    assert lines[-1] == f"exec nice -n 19 chpst -u {ACCOUNT}:{ACCOUNT} {COMMAND}"
    assert "cd / || exit 1" in lines


@pytest.mark.parametrize("file", [UNIT, RUN])
def test_no_password_is_an_argument_or_in_the_environment(file: Path) -> None:
    assert not re.search(r"auth|passw|FLOWER_|amqp", file.read_text(), re.IGNORECASE)
