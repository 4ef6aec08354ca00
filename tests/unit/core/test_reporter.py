from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuprov.core.outcome import Outcome, PhaseTiming
from gpuprov.core.reporter import Silent, TimingReporter

if TYPE_CHECKING:
    from gpuprov.core.reporter import Reporter
    from tests.conftest import Recording


def tell(reporter: Reporter) -> None:
    with reporter.phase("nodes"):
        reporter.node("c000", "starting")
        reporter.note("as before")
    reporter.warn("look here")


def test_a_stopwatch_passes_on_and_takes_the_time(recording: Recording) -> None:
    stopwatch = TimingReporter(recording)
    tell(stopwatch)
    assert recording.lines == ["begin nodes", "node c000 starting", "note as before", "end nodes", "warn look here"]
    (phase,) = stopwatch.phases
    assert (phase.name, phase.ok) == ("nodes", True)
    assert phase.seconds >= 0


def test_a_warning_is_passed_on_once(recording: Recording) -> None:
    stopwatch = TimingReporter(recording)
    for text in ("docker is omitted", "docker is omitted", "lxd is omitted"):
        stopwatch.warn(text)
    assert recording.lines == ["warn docker is omitted", "warn lxd is omitted"]


def test_a_phase_that_does_not_end_normally_has_failed() -> None:
    stopwatch = TimingReporter(Silent())
    with pytest.raises(ValueError, match="x"), stopwatch.phase("nodes"):
        raise ValueError("x")
    assert [phase.ok for phase in stopwatch.phases] == [False]


def test_silence(capfd: pytest.CaptureFixture[str]) -> None:
    tell(Silent())
    assert capfd.readouterr() == ("", "")


def test_outcomes_add_up() -> None:
    phase = PhaseTiming(name="nodes", seconds=1.0)
    both = Outcome(changed=("created c000",)) + Outcome(changed=("created c001",), phases=(phase,))
    assert both == Outcome(changed=("created c000", "created c001"), phases=(phase,))
    assert not both.unchanged
    assert (Outcome() + Outcome(phases=(phase,))).unchanged
