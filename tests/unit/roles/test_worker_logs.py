"""Logs of a worker_command: opened by the worker's account, in folders that only root can make."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator

PYTHON = "/usr/bin/python3"  # the test's own may be in a home that is closed to the worker's account
ROOT = Path(__file__).parents[3]
ROLE = ROOT / "roles/worker"
WORKER = 990  # an account of the system
PERSON = 1234
pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.geteuid() != 0, reason="makes files of several accounts")]


@pytest.fixture
def drive() -> Iterator[Path]:
    """As the role nfs makes it; below no folder that is closed to the worker's account."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o1777)
        yield Path(name)


def make(logs: Path) -> subprocess.CompletedProcess[str]:
    program = (ROLE / "files/make_log_folder.py").read_text()
    return subprocess.run(
        [sys.executable, "-I", "-c", program, str(logs), "hoff", str(WORKER)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def owner_and_mode(path: Path) -> tuple[int, int]:
    status = path.lstat()
    return status.st_uid, stat.S_IMODE(status.st_mode)


def log_as(log: Path, *command: str, user: int = WORKER) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [PYTHON, "-I", "-c", (ROLE / "files/worker-log").read_text(), str(log), *command],
        capture_output=True, text=True, check=False, user=user, group=user, extra_groups=[],
    )  # fmt: skip


def test_root_makes_the_folders_once(drive: Path) -> None:
    assert make(drive / "logs").stdout == "changed\n"
    assert owner_and_mode(drive / "logs") == (0, 0o755)
    assert owner_and_mode(drive / "logs/hoff") == (WORKER, 0o755)
    assert make(drive / "logs").stdout == ""
    assert owner_and_mode(drive) == (0, 0o1777)


def test_the_open_folder_of_an_earlier_role_is_closed_and_its_logs_go_on(drive: Path) -> None:
    logs = drive / "logs"
    (logs / "hoff").mkdir(parents=True)
    logs.chmod(0o1777)
    (logs / "hoff/worker-0.log").write_text("before\n")
    assert make(logs).stdout == "changed\n"
    assert owner_and_mode(logs) == (0, 0o755)
    assert owner_and_mode(logs / "hoff/worker-0.log") == (WORKER, 0o644)


@pytest.mark.parametrize("what", ["logs", "logs/hoff", "logs/hoff/worker-0.log"])
def test_a_link_or_a_folder_of_somebody_s_is_refused(drive: Path, tmp_path: Path, what: str) -> None:
    target = tmp_path / "target"
    target.mkdir()
    place = drive / what
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(target)
    os.lchown(place, PERSON, PERSON)
    done = make(drive / "logs")
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert owner_and_mode(target) == (0, 0o755)
    assert not [*target.iterdir()]
    place.unlink()
    place.mkdir()
    os.chown(place, PERSON, PERSON)
    done = make(drive / "logs")
    assert done.returncode == 1
    assert owner_and_mode(place) == (PERSON, 0o755)


def test_a_log_with_a_second_name_is_not_given_away(drive: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("root's\n")
    make(drive / "logs")
    os.link(secret, drive / "logs/hoff/worker-0.log")
    assert "one name" in make(drive / "logs").stderr
    assert owner_and_mode(secret)[0] == 0


def test_the_account_of_the_worker_opens_its_log(drive: Path) -> None:
    make(drive / "logs")
    log = drive / "logs/hoff/worker-0.log"
    assert log_as(log, "sh", "-c", "echo out; echo err >&2").returncode == 0
    assert log_as(log, "echo", "again").returncode == 0
    assert log.read_text() == "out\nerr\nagain\n"
    assert owner_and_mode(log)[0] == WORKER


@pytest.mark.parametrize("kind", ["link", "fifo"])
def test_no_link_is_written_through_even_as_root(drive: Path, tmp_path: Path, kind: str) -> None:
    (drive / "hoff").mkdir()
    log, target = drive / "hoff/worker-0.log", tmp_path / "target"
    if kind == "link":
        log.symlink_to(target)
    else:
        os.mkfifo(log)
    done = log_as(log, "echo", "written", user=0)
    assert done.returncode == 1
    assert done.stderr.startswith("worker-log: ")
    assert not target.exists()


def test_a_command_that_is_not_there_is_an_error_of_one_line(drive: Path) -> None:
    done = log_as(drive / "worker-0.log", "/no/such", user=0)
    assert done.returncode == 1
    assert "No such file" in (drive / "worker-0.log").read_text()


def test_systemd_opens_no_log() -> None:
    unit = (ROLE / "templates/worker@.service.j2").read_text()
    assert "append:" not in unit
    assert "StandardOutput" not in unit
    assert "worker_logged" in unit


def test_root_opens_nothing_in_folders_of_munge_and_rabbitmq() -> None:
    """These folders belong to the accounts, so root would follow a link that one of them has put there."""
    variables = yaml.safe_load((ROOT / "roles/slurm/vars/main.yml").read_text())
    for name in ("slurm_read_key", "slurm_write_key"):
        assert variables[name].startswith("runuser -u munge -- ")
    tasks = (ROOT / "roles/slurm/tasks/configure.yml").read_text()
    assert "slurp" not in tasks
    files = ROOT / "roles/broker/files"
    for file in ("systemd/etc/systemd/system/rabbitmq-server.service",
                 "runit/etc/runit/runsvdir/gpuprov/rabbitmq-server/run"):  # fmt: skip
        lines = (files / file).read_text().splitlines()
        assert not [line for line in lines if "install " in line and "definitions.json" in line]


def test_the_shared_drive_honours_neither_set_user_id_nor_devices() -> None:
    unit = (ROOT / "roles/nfs/templates/shared.mount.j2").read_text()
    options = [line.partition("=")[2].split(",") for line in unit.splitlines() if line.startswith("Options=")]
    assert len(options) == 2
    assert all({"nosuid", "nodev"} <= set(one) for one in options)
