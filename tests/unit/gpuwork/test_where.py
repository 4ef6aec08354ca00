"""Which GPUs a run can see."""

from __future__ import annotations

import pytest

from gpuwork.where import parse_list

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
