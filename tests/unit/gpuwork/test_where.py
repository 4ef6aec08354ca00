"""Which GPUs a run can see, and on which image it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuwork.where import find_where, parse_list, read_image

if TYPE_CHECKING:
    from pathlib import Path

ONE, TWO = "GPU-5fd4f087-86f3-0b8f-8f46-1234567890ab", "GPU-aaaaaaaa-86f3-0b8f-8f46-1234567890ab"
REAL = f"GPU 0: NVIDIA GeForce GTX 1080 (UUID: {ONE})\nGPU 1: NVIDIA GeForce GTX 1080 Ti (UUID: {TWO})\n"
SIMULATED = f"GPU 0: SIMULATED (UUID: {ONE})\n"
MIG = "MIG-4c1a2f3e-0000-5555-8888-000000000001"


@pytest.mark.parametrize(
    ("listed", "visible", "expected"),
    [
        (REAL, None, ((ONE, TWO), False)),
        (REAL, "1", ((TWO,), False)),
        (REAL, TWO, ((TWO,), False)),
        (REAL, f"{TWO}, 0", ((TWO, ONE), False)),
        (REAL, "", ((), False)),
        (REAL, MIG, ((MIG,), False)),
        (SIMULATED, None, ((ONE,), True)),
        (SIMULATED, ONE, ((ONE,), True)),
        ("", None, ((), False)),
        ("rubbish\nGPU 0: x (UUID: $(reboot))\n", "$(reboot)", ((), False)),
    ],
)
def test_the_visible_ones_of_those_that_are_listed(
    listed: str, visible: str | None, expected: tuple[tuple[str, ...], bool]
) -> None:
    assert parse_list(listed, visible) == expected


@pytest.mark.parametrize(
    ("content", "expected"),
    [("0123456789ab\n", "0123456789ab"), ("", None), ("no fingerprint", None), ("ab" * 500, None), ("AB" * 6, None)],
)
def test_the_image_is_what_the_node_has_of_it(tmp_path: Path, content: str, expected: str | None) -> None:
    (tmp_path / "image").write_text(content)
    assert read_image(tmp_path / "image") == expected
    assert read_image(tmp_path / "none") is None


def test_whoever_starts_a_run_may_name_another_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "image").write_text("0123456789ab\n")
    monkeypatch.setattr("gpuwork.where.IMAGE_FILE", tmp_path / "image")
    assert find_where({}).image == "0123456789ab"
    assert find_where({"GPUWORK_IMAGE": "mine"}).image == "mine"
