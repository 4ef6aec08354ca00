"""Clocks and temperature while the kernels run."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pynvml
import pytest

from gpuprov.gpu.observe import observe
from gpuprov.gpu.simulate import SimulatedNvml
from gpuprov.verify import probe
from gpuprov.verify.probe import Sampler
from tests.fakes.places import NOWHERE

if TYPE_CHECKING:
    from collections.abc import Callable

    Put = Callable[..., list[str]]


@pytest.fixture
def put(monkeypatch: pytest.MonkeyPatch) -> Put:
    """Puts two simulated GPUs behind pynvml, the first changed as told; returns their UUIDs."""

    def put(**changes: Any) -> list[str]:
        document = observe(root=NOWHERE, mode="simulated", simulated_count=2).document
        assert document is not None
        gpus = [dict(gpu) for gpu in document["gpus"]]
        for key, value in changes.items():
            gpus[0][key] = {**gpus[0].get(key, {}), **value}
        monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
        monkeypatch.setattr(pynvml, "nvmlLib", SimulatedNvml({**document, "gpus": gpus}))
        return [gpu["uuid"] for gpu in gpus]

    return put


def samples(*, during_s: float = 0.0) -> dict[str, Any]:
    sampler = Sampler(interval_s=0.001)
    sampler.start()
    time.sleep(during_s)
    deadline = time.monotonic() + 10
    while sampler._thread.is_alive() and not sampler._rows and time.monotonic() < deadline:
        time.sleep(0.001)
    return sampler.finish()


def test_every_gpu_is_sampled_over_the_run(put: Put) -> None:
    uuids = put(answers={"PowerUsage": 345600, "ClockInfo": {"1": 1980, "2": 2619}, "CurrentClocksEventReasons": 0x40})
    found = samples(during_s=0.05)
    assert found["problem"] == ""
    assert list(found["gpus"]) == uuids
    rows = found["gpus"][uuids[0]]
    assert len(rows) > 1
    assert [row["at_s"] for row in rows] == sorted(row["at_s"] for row in rows)
    assert (rows[-1]["power_w"], rows[-1]["sm_clock_mhz"], rows[-1]["memory_clock_mhz"]) == (345.6, 1980, 2619)
    assert (rows[-1]["throttle"], rows[-1]["temperature_c"]) == (0x40, 33)


def test_what_a_gpu_does_not_tell_is_none(put: Put) -> None:
    uuids = put(errors={"PowerUsage": 3})
    row = samples()["gpus"][uuids[0]][0]
    assert row["power_w"] is None
    assert row["temperature_c"] == 33


def test_a_gpu_that_goes_away_ends_its_own_samples_and_says_so(put: Put) -> None:
    uuids = put(errors={"Temperature": 15})
    found = samples(during_s=0.05)
    assert list(found["gpus"]) == uuids[1:]
    assert all(len(rows) > 1 for rows in found["gpus"].values())
    assert "NVMLError" in found["problem"]


def test_samples_stay_few_and_cover_the_whole_run(put: Put, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "MOST_SAMPLES", 8)
    uuids = put()
    rows = samples(during_s=0.2)["gpus"][uuids[1]]
    assert len(rows) <= 8
    assert rows[0]["at_s"] < 0.05
    assert rows[-1]["at_s"] > 0.05


def test_a_sampler_that_never_began_has_no_samples() -> None:
    assert Sampler(interval_s=1.0).finish() == {"gpus": {}, "seen": {}, "xids": {}, "problem": ""}
