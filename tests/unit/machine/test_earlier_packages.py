from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuprov.machine.earlier_packages import KEPT, find_added, note_earlier
from gpuprov.machine.installed_packages import STATUS

if TYPE_CHECKING:
    from pathlib import Path

OURS = ("lxd", "mmdebstrap", "btrfs-progs")


def install(root: Path, *packages: str) -> None:
    (root / STATUS).parent.mkdir(parents=True, exist_ok=True)
    (root / STATUS).write_text("".join(f"Package: {name}\nStatus: install ok installed\n\n" for name in packages))


def test_what_was_there_or_is_needed_is_not_proposed(tmp_path: Path) -> None:
    install(tmp_path, "btrfs-progs")
    note_earlier(tmp_path, OURS)
    install(tmp_path, *OURS)
    assert find_added(tmp_path, OURS, needed=()) == ("lxd", "mmdebstrap")
    assert find_added(tmp_path, OURS, needed=["mmdebstrap"]) == ("lxd",)
    note_earlier(tmp_path, OURS)  # a second run finds what the first one installed
    assert find_added(tmp_path, OURS, needed=()) == ("lxd", "mmdebstrap")


def test_another_engine_is_noted_beside_it(tmp_path: Path) -> None:
    install(tmp_path)
    note_earlier(tmp_path, OURS)
    install(tmp_path, *OURS, "docker.io")
    note_earlier(tmp_path, ("docker.io", "mmdebstrap"))
    assert find_added(tmp_path, ("docker.io", "mmdebstrap"), needed=OURS) == ()
    assert find_added(tmp_path, OURS, needed=()) == OURS


@pytest.mark.parametrize("noted", ["", "[]", "{", '{"lxd": null}'])
def test_what_is_not_known_is_not_proposed(tmp_path: Path, noted: str) -> None:
    install(tmp_path, *OURS)
    (tmp_path / KEPT).parent.mkdir(parents=True)
    (tmp_path / KEPT).write_text(noted)
    assert find_added(tmp_path, OURS, needed=()) == ()


def test_without_dpkg_nothing_is_written(tmp_path: Path) -> None:
    note_earlier(tmp_path, OURS)
    assert list(tmp_path.iterdir()) == []
