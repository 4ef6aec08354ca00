"""The services of the driver: what systemd says, and what they say of themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.core.errors import TimedOut
from gpuprov.core.execution import CommandMissing, Completed
from gpuprov.machine.nvidia_services import look_at_services, parse_service_version, parse_units

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

SHOWN = """Id=nvidia-fabricmanager.service
LoadState=loaded
UnitFileState=enabled
ActiveState=active
NRestarts=2
ActiveEnterTimestampMonotonic=20143227

Id=nvidia-persistenced.service
LoadState=loaded
UnitFileState=static
ActiveState=inactive
NRestarts=0

Id=nvidia-dcgm.service
LoadState=not-found
UnitFileState=
ActiveState=inactive
NRestarts=0
"""


def answer(argv: Sequence[str], **_: Any) -> Completed:
    assert argv[0] != "systemctl" or "ActiveEnterTimestampMonotonic" in argv[2]
    said = SHOWN if argv[0] == "systemctl" else "Fabric Manager version is : 580.95.05\n"
    return Completed(argv=tuple(argv), exit_code=0, stdout=said, stderr="", seconds=0.1)


def test_units_that_are_not_installed_are_left_out() -> None:
    units = parse_units(SHOWN)
    assert list(units) == ["nvidia-fabricmanager", "nvidia-persistenced"]
    assert units["nvidia-fabricmanager"]["ActiveState"] == "active"
    assert units["nvidia-fabricmanager"]["NRestarts"] == "2"
    assert parse_units("") == {}


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ("Fabric Manager version is : 580.95.05", "580.95.05"),
        ("nvidia-persistenced:  version 470.57.02", "470.57.02"),
        ("unknown option", None),
    ],
)
def test_a_program_says_its_version(said: str, version: str | None) -> None:
    assert parse_service_version(said) == version


def test_systemd_is_asked_and_active_ones_for_their_version(tmp_path: Path) -> None:
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    seen = look_at_services(tmp_path, execute=answer)
    assert seen["versions"] == {"nvidia-fabricmanager": "580.95.05"}
    assert (seen["problem"], seen["processes"]) == ("", [])
    entered = seen["units"]["nvidia-fabricmanager"]["ActiveEnterTimestampMonotonic"]
    assert (entered, seen["asked_s"] > 0) == ("20143227", True)


def test_without_systemd_processes_are_looked_for(tmp_path: Path) -> None:
    (tmp_path / "proc/77").mkdir(parents=True)
    (tmp_path / "proc/77/comm").write_text("nv-fabricmanage\n")
    seen = look_at_services(tmp_path, execute=answer)
    assert (seen["processes"], seen["units"]) == (["nvidia-fabricmanager"], {})
    assert seen["versions"] == {"nvidia-fabricmanager": "580.95.05"}
    assert seen["problem"] == "systemd is not running"


def test_the_manager_of_a_subnet_is_seen_by_its_process(tmp_path: Path) -> None:
    (tmp_path / "proc/78").mkdir(parents=True)
    (tmp_path / "proc/78/comm").write_text("nvlsm\n")
    seen = look_at_services(tmp_path, execute=answer)
    assert (seen["processes"], seen["versions"]) == (["nvlsm"], {})


@pytest.mark.parametrize("error", [TimedOut("systemctl hangs"), CommandMissing("no systemctl")])
def test_a_systemd_that_does_not_answer_is_told(tmp_path: Path, error: Exception) -> None:
    def refuse(*_: object, **__: object) -> Completed:
        raise error

    (tmp_path / "run/systemd/system").mkdir(parents=True)
    assert str(error) in look_at_services(tmp_path, execute=refuse)["problem"]
