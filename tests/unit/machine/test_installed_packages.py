from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.machine.installed_packages import STATUS, find_installed

if TYPE_CHECKING:
    from pathlib import Path

RECORD = """\
Package: docker.io
Status: install ok installed
Version: 26.1.5+dfsg1-9

Package: docker-cli
Status: hold ok installed
Description: Linux container runtime
 Package: mmdebstrap

Package: lxd
Status: deinstall ok config-files
"""


def test_a_package_of_which_only_settings_are_left_is_not_installed(tmp_path: Path) -> None:
    (tmp_path / STATUS).parent.mkdir(parents=True)
    (tmp_path / STATUS).write_text(RECORD)
    assert find_installed(tmp_path, ["mmdebstrap", "docker-cli", "lxd", "docker.io"]) == ("docker-cli", "docker.io")


def test_a_machine_without_dpkg_has_none(tmp_path: Path) -> None:
    assert find_installed(tmp_path, ["lxd"]) == ()
