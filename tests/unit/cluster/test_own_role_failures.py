from __future__ import annotations

from pathlib import Path

import pytest

from gpuprov.cluster.build_image import told_by_folder
from gpuprov.core.errors import PlaybookError
from gpuprov.provision.events import TaskEvent
from gpuprov.provision.playbook import TaskFailed

FOLDERS = (Path("/home/ada/motd"), Path("/home/ada/tools"))
COPIES = (Path("/var/cache/gpuprov/.roles-1/motd"), Path("/var/cache/gpuprov/.roles-1/tools"))


def told(error: PlaybookError) -> PlaybookError:
    with pytest.raises(PlaybookError) as caught, told_by_folder(FOLDERS, COPIES):
        raise error
    return caught.value


def test_a_task_that_fails_is_told_with_the_folder_of_its_role() -> None:
    event = TaskEvent(kind="failed", host="gpuprov-build", role="tools", task="Fetch it", message="no such package")
    error = told(TaskFailed(event, folder=Path("/tmp/play")))
    assert error.what == "the role tools of image.roles failed: task 'Fetch it' failed"
    assert error.evidence.splitlines()[:2] == ["role: /home/ada/tools", "no such package"]
    assert "/tmp/play" in error.evidence
    assert "/home/ada/tools" in error.fix


def test_a_role_that_ansible_cannot_read_is_told_where_its_user_has_it() -> None:
    evidence = "ERROR! conflicting action statements\n/var/cache/gpuprov/.roles-1/motd/tasks/main.yml: line 2"
    error = told(PlaybookError("Ansible ended with status failed", evidence=evidence, fix="less LOG"))
    assert "the role motd of image.roles failed" in error.what
    assert "/home/ada/motd/tasks/main.yml: line 2" in error.evidence
    assert "/var/cache" not in error.evidence


def test_a_role_of_gpuprov_s_fails_as_ever() -> None:
    event = TaskEvent(kind="failed", host="gpuprov-build", role="slurm", task="Install", message="no mirror")
    failed = TaskFailed(event, folder=Path("/tmp/play"))
    assert told(failed) is failed
