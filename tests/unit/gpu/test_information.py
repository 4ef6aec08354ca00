"""What the driver shows of its GPUs, where it answers, hangs, or has none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.gpu import information
from gpuprov.gpu.information import Information, read_information

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from gpuprov.core.execution import Completed


def write(root: Path, address: str, text: str) -> Path:
    path = root / f"proc/driver/nvidia/gpus/{address}/information"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return path


def test_each_file_is_read_and_one_that_has_gone_is_left_out(tmp_path: Path) -> None:
    first = write(tmp_path, "0000:01:00.0", "Model: \t x\n")
    gone = write(tmp_path, "0000:02:00.0", "")
    gone.unlink()
    gone.symlink_to("nowhere")
    assert read_information(tmp_path) == Information(texts={str(first): "Model: \t x\n"})


def test_a_driver_that_hangs_is_left_to_its_child(hung: Path) -> None:
    assert read_information(hung) == Information(silent="no response within 0.3 s")


def test_without_gpus_no_child_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object, **__: object) -> Completed:
        raise AssertionError

    monkeypatch.setattr(information, "run", never)
    assert read_information(tmp_path) == Information()
    (tmp_path / "proc/driver/nvidia/gpus").mkdir(parents=True)
    assert read_information(tmp_path) == Information()


def test_a_reader_that_dies_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "0000:01:00.0", "")
    monkeypatch.setattr(information, "_READ", "import sys; sys.exit('out of memory')")
    assert read_information(tmp_path).silent == "the reader ended with status 1: out of memory"
