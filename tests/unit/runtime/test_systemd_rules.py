"""Devices by their numbers, for containers whose cgroups systemd looks after."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.gpu.device_numbers import DeviceNumbers
from gpuprov.runtime.systemd_rules import is_in_charge, place_by_number

if TYPE_CHECKING:
    from pathlib import Path

GPU = DeviceNumbers(path="/dev/nvidia0", major=195, minor=0)
CTL = DeviceNumbers(path="/dev/nvidiactl", major=195, minor=255)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("system.slice:docker:18ae", True),
        ("machine.slice:libpod:18ae", True),
        ("/docker/18ae", False),
        ("/a:b/18ae", False),
        ("", False),
        (None, False),
    ],
)
def test_systemd_is_in_charge_of_what_has_a_unit(path: str | None, *, expected: bool) -> None:
    assert is_in_charge({"linux": {"cgroupsPath": path}}) == expected
    assert not is_in_charge({})


def test_each_device_has_a_place_by_its_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    monkeypatch.setattr(os, "mknod", lambda *given: made.append(given))
    (tmp_path / "dev").mkdir()
    place_by_number([GPU, CTL], root=tmp_path)
    folder = tmp_path / "dev/char"
    assert made == [
        (folder / "195:0", stat.S_IFCHR, os.makedev(195, 0)),
        (folder / "195:255", stat.S_IFCHR, os.makedev(195, 255)),
    ]


def test_what_is_there_stays_and_a_machine_that_allows_none_goes_without(tmp_path: Path) -> None:
    place_by_number([GPU], root=tmp_path)  # it has no /dev
    assert not [*tmp_path.iterdir()]
    (tmp_path / "dev/char").mkdir(parents=True)
    (tmp_path / "dev/char/195:0").symlink_to("../nvidia0")
    place_by_number([GPU], root=tmp_path)
    assert (tmp_path / "dev/char/195:0").readlink() == type(tmp_path)("../nvidia0")
