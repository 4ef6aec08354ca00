"""`gate up` where `docker run --gpus` needs a restart of Docker: it asks, and does nothing by itself."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from gpuprov.machine.docker_daemon import unit_of
from gpuprov.stories import gate


class Notes:
    def __init__(self) -> None:
        self.told: list[str] = []

    def note(self, text: str) -> None:
        self.told.append(text)


def daemon(*running: str, unit: str = "docker.service", live: bool = False) -> Any:
    containers = [{"Name": f"/{name}", "State": {"Status": "running"}} for name in running]
    return SimpleNamespace(unit=unit, containers=lambda: containers, info=lambda: {"LiveRestoreEnabled": live})


@pytest.fixture
def restarts(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    done: list[list[str]] = []
    monkeypatch.setattr(gate, "run", lambda argv, **_: done.append(argv))
    return done


def test_an_agreed_restart_is_made(restarts: list[list[str]]) -> None:
    asked: list[str] = []

    def agree(question: str) -> bool:
        asked.append(question)
        return True

    notes = Notes()
    lines = gate._offer_restart(daemon("web", "db"), agree, cast("Any", notes))
    assert restarts == [["systemctl", "restart", "docker.service"]]
    assert (lines, notes.told) == (["restarted docker.service"], [])
    assert "which stops web, db. Restart it now?" in asked[0]


@pytest.mark.parametrize(("unit", "agrees"), [("docker.service", False), ("", True)])
def test_else_it_says_what_to_type(restarts: list[list[str]], unit: str, *, agrees: bool) -> None:
    notes = Notes()
    assert gate._offer_restart(daemon("web", unit=unit), lambda _: agrees, cast("Any", notes)) == []
    assert restarts == []
    assert notes.told[0].endswith(f": systemctl restart {unit or 'docker'}")


@pytest.mark.parametrize("there", [daemon(), daemon("web", live=True)])
def test_nothing_is_said_to_stop_where_nothing_does(restarts: list[list[str]], there: Any) -> None:
    notes = Notes()
    gate._offer_restart(there, lambda _: False, cast("Any", notes))
    assert "stops" not in notes.told[0]
    assert restarts == []


@pytest.mark.parametrize(
    ("groups", "unit"),
    [
        ("0::/system.slice/docker.service\n", "docker.service"),
        ("4:devices:/\n1:name=systemd:/system.slice/snap.docker.dockerd.service\n", "snap.docker.dockerd.service"),
        ("0::/user.slice/user-1000.slice/user@1000.service/app.slice/docker.service\n", ""),
        ("0::/\n", ""),
    ],
)
def test_the_unit_is_that_of_the_machines_systemd(groups: str, unit: str) -> None:
    assert unit_of(groups) == unit
