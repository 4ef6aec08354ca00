"""What the role cuda brings to a host."""

from __future__ import annotations

import json
import tarfile
from typing import TYPE_CHECKING

from gpuprov.provision.payload import main, pack_packages, pack_wheels, payload_stamp

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def kernels(folder: Path, text: str = "one") -> Path:
    package = folder / "smoke_kernels"
    (package / "__pycache__").mkdir(parents=True, exist_ok=True)
    (package / "__pycache__/x.pyc").write_text("compiled")
    (package / "x.py").write_text(text)
    return package


def test_the_stamp_changes_with_packages_and_kernels(tmp_path: Path) -> None:
    before = payload_stamp(["numpy"], [kernels(tmp_path)])
    assert payload_stamp(["numpy"], [kernels(tmp_path)]) == before
    assert payload_stamp(["numpy", "more"], [kernels(tmp_path)]) != before
    assert payload_stamp(["numpy"], [kernels(tmp_path, "two")]) != before


def test_the_archive_holds_the_package_and_is_made_once(tmp_path: Path) -> None:
    archive = pack_packages([kernels(tmp_path)], tmp_path / "cache")
    made = archive.stat().st_mtime_ns
    with tarfile.open(archive) as opened:
        assert opened.getnames() == ["smoke_kernels/x.py"]
    assert pack_packages([tmp_path / "smoke_kernels"], tmp_path / "cache").stat().st_mtime_ns == made
    assert pack_packages([kernels(tmp_path, "two")], tmp_path / "cache") != archive


def test_the_wheels_are_one_archive_beside_them_that_is_made_once(tmp_path: Path) -> None:
    folder = tmp_path / "wheels-3.11-abc"
    folder.mkdir()
    wheels = [folder / name for name in ("a-1-py3-none-any.whl", "b-2-py3-none-any.whl")]
    for wheel in wheels:
        wheel.write_text(wheel.name)
    archive = pack_wheels(wheels)
    made = archive.stat().st_mtime_ns
    with tarfile.open(archive) as opened:
        assert opened.getnames() == [wheel.name for wheel in wheels]
    assert pack_wheels(wheels).stat().st_mtime_ns == made
    assert [path.name for path in tmp_path.glob("*.tar")] == ["wheels-3.11-abc.tar"]


def test_the_role_reads_a_stamp_of_one_word(capsys: pytest.CaptureFixture[str]) -> None:
    stamps = set()
    for variant in ("none", "cu12", "cu13", "work"):
        assert main(["stamp", variant]) == 0
        stamps.add(capsys.readouterr().out)
    assert len(stamps) == 4
    assert all(json.dumps(stamp).isascii() and len(stamp.split()) == 1 for stamp in stamps)
