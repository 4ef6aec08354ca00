"""`host prepare` where a daemon does not start: the error has the end of the daemon's log."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from gpuprov.core.reporter import Silent
from gpuprov.provision.playbook import Play, RoleUse, TaskFailed, run_play
from gpuprov.provision.targets import Target
from gpuprov.workflows.prepare_host import translate_failure

pytestmark = [
    pytest.mark.slow,
    # ansible-runner's pexpect forks from a process that may have threads
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]
ROLES = Path(__file__).parents[3] / "roles"
START = """---
- name: Gather the state of the host
  ansible.builtin.include_tasks: facts.yml
- name: Start LXD
  ansible.builtin.include_tasks: daemon.yml
"""
LXD = "#!/bin/sh\necho 'Error: failed to open the database: disk I/O error' >&2\nexit 1\n"


def test_the_end_of_the_daemon_s_log_is_in_the_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    roles, programs, folder = (tmp_path / name for name in ("roles", "programs", "lxd"))
    shutil.copytree(ROLES / "host", roles / "host")
    (roles / "host/tasks/main.yml").write_text(START)
    folder.mkdir()
    programs.mkdir()
    (programs / "lxd").write_text(LXD)
    (programs / "lxd").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    variables = {
        "host_engine": "lxd",
        "host_lxd_dir": str(folder),  # so that systemd, where there is one, is not asked to start its own
        "host_log_dir": str(folder),
        "host_run_dir": str(folder),
        "host_start_timeout_s": 2,
    }
    play = Play(roles=(RoleUse(name="host", variables=variables),), targets=(Target(),), roles_path=roles)
    with pytest.raises(TaskFailed) as caught:
        run_play(play, reporter=Silent())
    error = translate_failure(caught.value)
    assert error.what == "requirement not met: the daemon responds"
    assert "LXD was started, and did not respond within 2 s" in error.evidence
    assert "failed to open the database: disk I/O error" in error.evidence
    assert error.fix == f"less {folder}/lxd.log"
