"""Docker's settings with the runtime in them, and without."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpuprov.core.errors import HostNotReady
from gpuprov.machine.daemon_json import read_settings, render_settings, with_runtime, without_runtime

PLACES = {"gpuprov": "/srv/r", "gpuprov-default": "/srv/r-default"}
FOREIGN: dict[str, Any] = {"debug": True, "runtimes": {"nvidia": {"path": "/usr/bin/nvidia-container-runtime"}}}


@pytest.mark.parametrize("default", [False, True])
@pytest.mark.parametrize("before", [{}, FOREIGN, {"default-runtime": "runc"}, {"runtimes": {}}])
def test_what_is_registered_can_be_taken_back(before: dict[str, Any], *, default: bool) -> None:
    after = with_runtime(before, PLACES, default=default)
    assert after["runtimes"]["gpuprov"] == {"path": "/srv/r"}
    assert ("gpuprov-default" in after["runtimes"]) == default
    assert (after.get("default-runtime") == "gpuprov-default") == default
    assert with_runtime(after, PLACES, default=default) == after
    left = {key: value for key, value in before.items() if (key, value) != ("default-runtime", "runc") or not default}
    assert without_runtime(after) in (left, {key: value for key, value in left.items() if value != {}})


def test_what_is_not_asked_for_any_more_goes() -> None:
    assert with_runtime(with_runtime(FOREIGN, PLACES, default=True), PLACES, default=False) == {
        "debug": True,
        "runtimes": {**FOREIGN["runtimes"], "gpuprov": {"path": "/srv/r"}},
    }


def test_another_default_runtime_is_not_replaced() -> None:
    taken = {**FOREIGN, "default-runtime": "nvidia"}
    with pytest.raises(HostNotReady, match="default runtime of Docker is nvidia"):
        with_runtime(taken, PLACES, default=True)
    assert with_runtime(taken, PLACES, default=False)["default-runtime"] == "nvidia"


@pytest.mark.parametrize("text", ["{", "[]", '"x"', "1", '{"runtimes": []}', "[" * 100_000])
def test_what_is_no_settings_is_refused(text: str) -> None:
    with pytest.raises(HostNotReady, match="cannot be read"):
        read_settings(text, path=Path("/etc/docker/daemon.json"))


def test_they_are_written_as_they_are_read() -> None:
    assert read_settings("", path=Path("x")) == {}
    assert json.loads(render_settings(FOREIGN)) == FOREIGN
