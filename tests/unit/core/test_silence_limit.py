from __future__ import annotations

import pytest

from gpuprov.core.errors import UsageError
from gpuprov.core.silence_limit import more_patience, more_time, scaled_limit_s, silence_limit_s


def test_the_limit_is_five_minutes_or_what_is_said() -> None:
    assert silence_limit_s({}) == 300
    assert silence_limit_s({"GPUPROV_SILENCE_S": "1200"}) == 1200
    assert more_patience(300.0).endswith("export GPUPROV_SILENCE_S=1200")


@pytest.mark.parametrize("text", ["0", "-5", "1.5", "soon", " "])
def test_what_is_no_number_of_seconds_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not a number of seconds") as caught:
        silence_limit_s({"GPUPROV_SILENCE_S": text})
    assert caught.value.fix == "unset GPUPROV_SILENCE_S"


def test_shorter_limits_follow_what_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    assert scaled_limit_s(60.0, {}) == 60.0
    assert scaled_limit_s(60.0, {"GPUPROV_SILENCE_S": "1200"}) == 240.0
    monkeypatch.setenv("GPUPROV_SILENCE_S", "1200")
    assert more_time().endswith("export GPUPROV_SILENCE_S=4800")
