"""The unit that restores networks at boot: written once, started by the boot and by the engine, and removed."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from gpuprov.cli.main import main
from gpuprov.core.reporter import Silent
from gpuprov.machine.overlay.kept_bridges import BRIDGES
from gpuprov.provision.playbook import Play, RoleUse, run_play
from gpuprov.provision.targets import Target

pytestmark = [
    pytest.mark.slow,
    # ansible-runner's pexpect forks from a process that may have threads
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]
ROLES = Path(__file__).parents[3] / "roles"


def apply(folder: Path, tasks: str = "restore") -> tuple[str, ...]:
    variables = {
        "host_engine": "incus",
        "host_snap": False,
        "host_restore_folder": str(folder / "system"),
        "host_restore_program": "/opt/gpuprov/current/bin/gpuprov",
    }
    use = RoleUse(name="host", tasks=tasks, variables=variables)
    return run_play(Play(roles=(use,), targets=(Target(),), roles_path=ROLES, silence_s=60), reporter=Silent()).changed


def test_the_unit_is_written_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "system").mkdir()
    (tmp_path / "systemctl").write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/told\n')
    (tmp_path / "systemctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert apply(tmp_path)
    unit = tmp_path / "system/gpuprov-restore-incus.service"
    text = unit.read_text()
    assert "ExecStart=/opt/gpuprov/current/bin/gpuprov member-restore --engine incus\n" in text
    assert "ConditionPathExists=/opt/gpuprov/current/bin/gpuprov\n" in text, "after `host remove` nothing fails at boot"
    assert "After=incus.service docker.service\n" in text
    for place in ("multi-user.target.wants", "incus.service.wants"):
        assert (tmp_path / "system" / place / unit.name).readlink() == unit
    assert "daemon-reload" in (tmp_path / "told").read_text()
    assert apply(tmp_path) == ()


def test_bridges_are_made_before_docker_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "systemctl").write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/told\n')
    (tmp_path / "systemctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert apply(tmp_path, "docker_bridges")
    (line,) = [
        line
        for line in (tmp_path / "system/docker.service.d/gpuprov.conf").read_text().splitlines()
        if line.startswith("ExecStartPre=-/bin/sh -c ")
    ]
    command = shlex.split(line.removeprefix("ExecStartPre=-"))
    kept, log = tmp_path / "bridges", tmp_path / "ip.log"
    kept.mkdir()
    (tmp_path / "ip").write_text(f'#!/bin/sh\necho "$@" >>{log}\nexit 1\n')
    (tmp_path / "ip").chmod(0o755)
    command[-1] = command[-1].replace(str(BRIDGES), str(kept))
    subprocess.run(command, check=True)
    (kept / "lab.ip").touch()
    (kept / "two.ip").touch()
    log.write_text("")
    subprocess.run(command, check=True)
    assert log.read_text().splitlines() == [f"-force -batch {kept}/lab.ip", f"-force -batch {kept}/two.ip"]
    assert apply(tmp_path, "docker_bridges") == ()


def test_what_the_unit_starts_is_a_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["member-restore", "--help"]) == 0
    assert "--engine" in capsys.readouterr().out
