from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks import kernels

if TYPE_CHECKING:
    import pytest


def test_nothing_is_measured_on_the_simulator(capsys: pytest.CaptureFixture[str]) -> None:
    assert kernels.main([]) == kernels.NO_DEVICE
    out, err = capsys.readouterr()
    assert out == ""
    assert "nothing was measured" in err
