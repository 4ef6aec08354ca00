"""`host prepare` mounts lxcfs again, also where systemd has given it up. What is rendered runs with false programs."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from jinja2 import Environment

from gpuprov.core.execution import run

if TYPE_CHECKING:
    from collections.abc import Callable

TASKS = Path(__file__).parents[3] / "roles/host/tasks/lxcfs.yml"
PROGRAMS = {
    "mountpoint": 'test -e "$MOUNTED"',
    "systemctl": 'echo "systemctl $*" >> "$CALLS"; test "$1" != restart || touch "$MOUNTED"',
    "lxcfs": 'echo "lxcfs $*" >> "$CALLS"; touch "$MOUNTED"; sleep 0.3',
}


@pytest.fixture
def mount(tmp_path: Path) -> Callable[..., tuple[str, str]]:
    """What the task prints, and what it called."""
    (tmp_path / "programs").mkdir()
    for name, text in PROGRAMS.items():
        program = tmp_path / "programs" / name
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)
    environment = {
        "PATH": f"{tmp_path}/programs:{os.environ['PATH']}",
        "MOUNTED": str(tmp_path / "mounted"),
        "CALLS": str(tmp_path / "calls"),
    }
    (task,) = yaml.safe_load(TASKS.read_text())
    jinja = Environment(trim_blocks=True, autoescape=False)
    jinja.filters["quote"] = shlex.quote

    def _mount(*, systemd: bool) -> tuple[str, str]:
        folders = {f"host_{name}": str(tmp_path / name) for name in ("lxcfs", "run_dir", "log_dir", "lxcfs_pid")}
        script = jinja.from_string(task["ansible.builtin.shell"]["cmd"]).render(folders, host_by_systemd=systemd)
        said = run(["/bin/sh", "-c", script], timeout_s=20, environment=environment).stdout.strip()
        calls = tmp_path / "calls"
        return said, calls.read_text() if calls.exists() else ""

    return _mount


def test_systemd_s_is_started_again(mount: Callable[..., tuple[str, str]]) -> None:
    assert mount(systemd=True) == ("started", "systemctl restart lxcfs\n")
    assert mount(systemd=True) == ("", "systemctl restart lxcfs\n"), "it is there now"


def test_without_systemd_it_is_a_process(mount: Callable[..., tuple[str, str]], tmp_path: Path) -> None:
    wanted = f"lxcfs -p {tmp_path}/lxcfs_pid {tmp_path}/lxcfs\n"
    assert [mount(systemd=False), mount(systemd=False)] == [("started", wanted), ("", wanted)]
