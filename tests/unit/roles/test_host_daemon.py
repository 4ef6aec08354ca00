"""`host prepare` where a daemon does not start: the error has the end of the daemon's log."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from gpuprov.core.reporter import Silent
from gpuprov.core.silence_limit import SILENCE_S
from gpuprov.lifecycle.prepare_host import START_S, translate_failure
from gpuprov.provision.playbook import Play, RoleUse, TaskFailed, run_play
from gpuprov.provision.targets import Target

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.core.errors import GpuprovError

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
START_DOCKER = """---
- name: As on a host with systemd
  ansible.builtin.set_fact:
    host_systemd: {stat: {exists: true}}
- name: Start Docker
  ansible.builtin.include_tasks: docker_daemon.yml
"""
SYSTEMCTL = """#!/bin/sh
case "$1" in
  show) printf 'LoadState=loaded\nActiveState=failed\n' ;;
  is-enabled) echo enabled ;;
  *)
    echo 'Job for docker.service failed because the control process exited with error code.' >&2
    echo 'See "systemctl status docker.service" and "journalctl -xeu docker.service" for details.' >&2
    exit 1 ;;
esac
"""
SAID = "failed to start daemon: unable to configure the Docker daemon with file daemon.json"
JOURNALCTL = f"""#!/bin/sh
echo '{SAID}'
for _ in $(seq 30); do
    echo 'docker.service: Start request repeated too quickly.'
    echo 'Failed to start docker.service - Docker Application Container Engine.'
done
"""
SLOW_TASK_S = 8  # of Ansible's own, for each try on an emulated machine


def fail_to_start(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    tasks: str,
    programs: Mapping[str, str],
    variables: Mapping[str, object],
) -> GpuprovError:
    """The error of these tasks of the role where programs are replaced."""
    roles, places = tmp_path / "roles", tmp_path / "programs"
    shutil.copytree(ROLES / "host", roles / "host")
    (roles / "host/tasks/main.yml").write_text(tasks)
    places.mkdir()
    for name, text in programs.items():
        (places / name).write_text(text)
        (places / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{places}{os.pathsep}{os.environ['PATH']}")
    play = Play(roles=(RoleUse(name="host", variables=variables),), targets=(Target(),), roles_path=roles)
    with pytest.raises(TaskFailed) as caught:
        run_play(play, reporter=Silent())
    return translate_failure(caught.value)


def test_the_end_of_the_daemon_s_log_is_in_the_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "lxd"
    folder.mkdir()
    variables = {
        "host_engine": "lxd",
        "host_lxd_dir": str(folder),  # so that systemd, where there is one, is not asked to start its own
        "host_log_dir": str(folder),
        "host_run_dir": str(folder),
        "host_start_timeout_s": 3,
    }
    error = fail_to_start(tmp_path, monkeypatch, tasks=START, programs={"lxd": LXD}, variables=variables)
    assert error.what == "requirement not met: the daemon responds"
    assert "LXD was started, and did not respond within 3 s" in error.evidence
    assert "failed to open the database: disk I/O error" in error.evidence
    assert error.fix == f"less {folder}/lxd.log"


def test_where_systemd_cannot_start_the_daemon_its_journal_is_in_the_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = {"systemctl": SYSTEMCTL, "journalctl": JOURNALCTL}
    variables = {"host_engine": "docker", "host_docker_socket": str(tmp_path / "docker.sock")}
    error = fail_to_start(tmp_path, monkeypatch, tasks=START_DOCKER, programs=programs, variables=variables)
    assert error.what == "requirement not met: the daemon responds"
    assert "Docker did not start: Unable to start service docker.service: Job for docker.service failed" in (
        error.evidence
    )
    assert error.evidence.count("repeated too quickly") == 1
    assert SAID in error.evidence
    assert error.fix == "journalctl -u docker -u containerd"


@pytest.mark.parametrize("name", ["daemon.yml", "docker_daemon.yml"])
def test_a_daemon_that_hangs_is_told_by_the_role_and_not_as_a_silent_play(name: str) -> None:
    tasks = yaml.safe_load((ROLES / "host/tasks" / name).read_text())
    (wait,) = (task for task in tasks if "until" in task)
    assert wait["retries"] == "{{ host_start_timeout_s // 3 }}"
    a_try_s = wait["ansible.builtin.uri"]["timeout"] + wait["delay"] + SLOW_TASK_S
    assert START_S // 3 * a_try_s < SILENCE_S
