from __future__ import annotations

import os
import re
import socket
import time
from threading import Barrier
from typing import TYPE_CHECKING

import pytest

from gpuprov.core.errors import EngineError, HostNotReady, NotAllowed, TimedOut
from gpuprov.machine import survey as surveying
from gpuprov.machine.local import LocalHost
from gpuprov.machine.survey import EngineDoor, open_in_time, survey
from tests.fakes.doors import HungEngine, door_of, door_without
from tests.fakes.driver import FakeDriver
from tests.fakes.engine import FakeEngine

if TYPE_CHECKING:
    from pathlib import Path

    from gpuprov.drivers.base import Driver


def engine(name: str) -> FakeDriver:
    driver = FakeDriver(FakeEngine())
    driver.name = name
    return driver


def name_of(driver: Driver) -> str:
    return driver.name


def test_all_are_asked_at_once_and_answers_stand_in_the_order_of_the_question() -> None:
    together = Barrier(2, timeout=20)

    def question(driver: Driver) -> str:
        together.wait()  # nobody comes through alone
        return driver.name

    seen = survey([door_of(engine("lxd")), door_of(engine("docker"))], question)
    assert list(seen.answers.items()) == [("lxd", "lxd"), ("docker", "docker")]
    assert (seen.errors, seen.absent) == ({}, {})


def test_who_is_installed_and_silent_is_told_from_who_is_not_there() -> None:
    doors = [door_without("lxd", installed=False), door_without("incus", installed=True), door_of(engine("docker"))]
    seen = survey(doors, name_of)
    assert (list(seen.answers), list(seen.errors), list(seen.absent)) == (["docker"], ["incus"], ["lxd"])
    seen.require_answer()


def test_one_that_hangs_holds_up_nobody_and_is_silent() -> None:
    hung = HungEngine("docker")
    seen = survey([hung.door, door_of(engine("lxd"))], name_of, timeout_s=0.2)
    assert hung.hangs
    hung.release()
    assert seen.answers == {"lxd": "lxd"}
    error = seen.errors["docker"]
    assert isinstance(error, TimedOut)
    assert (error.what, error.evidence) == ("docker does not respond", "no response within 0.2 s")
    assert "gpuprov doctor --engine docker" in error.fix


def test_an_engine_that_answers_with_what_nobody_foresaw_is_silent() -> None:
    def question(_driver: Driver) -> str:
        raise ValueError("x")

    seen = survey([door_of(engine("lxd"), installed=False)], question)
    assert isinstance(seen.errors["lxd"], EngineError)
    assert "ValueError: x" in seen.errors["lxd"].evidence


@pytest.mark.parametrize(
    ("installed", "speaker"), [(("lxd", "docker"), "lxd"), (("docker",), "docker"), ((), "lxd")], ids=str
)
def test_where_none_answers_the_installed_one_says_why(installed: tuple[str, ...], speaker: str) -> None:
    doors = [door_without(name, installed=name in installed) for name in ("docker", "lxd")]
    with pytest.raises(HostNotReady, match=f"{speaker} is not running"):
        survey(doors, name_of).require_answer()


def test_a_door_is_opened_by_who_asks() -> None:
    opened: list[str] = []

    def enter() -> Driver:
        opened.append("lxd")
        return engine("lxd")

    survey([EngineDoor(name="lxd", open=enter, installed=lambda: True)], name_of)
    assert opened == ["lxd"]


def test_what_an_engine_needs_is_loaded_before_it_is_opened_unless_it_is_not_there() -> None:
    seen: list[str] = []

    def door(name: str, *, installed: bool = True) -> EngineDoor:
        def enter() -> Driver:
            seen.append(f"opened {name}")
            return engine(name)

        def load() -> None:
            seen.append(f"loaded {name}")
            raise ImportError(name)  # the engine is opened all the same, and says what is wrong

        return EngineDoor(name=name, open=enter, installed=lambda: installed, load=load)

    survey([door("lxd"), door("incus", installed=False), door("docker")], name_of)
    assert sorted(seen) == ["loaded docker", "loaded lxd", "opened docker", "opened incus", "opened lxd"]
    assert all(seen.index(f"loaded {name}") < seen.index(f"opened {name}") for name in ("lxd", "docker"))


def test_one_that_hung_a_moment_ago_is_not_waited_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surveying, "ANSWER_S", 0.4)
    monkeypatch.setattr(surveying, "PROBE_S", 0.05)
    hung = HungEngine("docker")
    doors = [hung.door, door_of(engine("lxd"))]
    first = survey(doors, name_of)
    began_s = time.monotonic()
    again = survey(doors, name_of)
    seconds = time.monotonic() - began_s
    hung.release()
    assert again.answers == {"lxd": "lxd"}
    assert re.fullmatch(
        r"no response within 0.4 s at [0-9:]{8}; until [0-9:]{8} it has 0.05 s", again.errors["docker"].evidence
    )
    assert again.errors["docker"].evidence == first.errors["docker"].evidence
    assert seconds < 0.4
    assert survey([door_of(engine("docker"))], name_of).answers == {"docker": "docker"}
    assert surveying.silent_since_s("docker") is None


@pytest.mark.parametrize("age_s", [surveying.KEPT_S + 1, -60.0])
def test_a_silence_is_forgotten_after_a_while(age_s: float) -> None:
    surveying.remember_silence("docker")
    (kept,) = surveying.RUN_FOLDER.iterdir()
    assert surveying.silent_since_s("docker")
    os.utime(kept, (time.time() - age_s, time.time() - age_s))
    assert surveying.silent_since_s("docker") is None


def test_a_limit_of_one_s_own_is_not_remembered() -> None:
    hung = HungEngine("docker")
    survey([hung.door], name_of, timeout_s=0.05)
    hung.release()
    assert surveying.silent_since_s("docker") is None


def test_an_engine_that_this_user_may_not_use_is_not_silent_and_not_the_default() -> None:
    def refuse() -> Driver:
        raise NotAllowed("this user has no access to lxd", evidence="group lxd", fix="sudo usermod")

    seen = survey([EngineDoor(name="lxd", open=refuse, installed=lambda: True), door_of(engine("incus"))], name_of)
    assert (list(seen.closed), seen.silent, list(seen.errors), seen.default) == (["lxd"], {}, ["lxd"], "incus")


def test_an_engine_that_is_named_has_no_longer_than_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surveying, "ANSWER_S", 0.1)
    hung = HungEngine("docker")
    with pytest.raises(TimedOut, match="docker does not respond") as caught:
        open_in_time(hung.door)
    hung.release()
    assert "gpuprov doctor --engine docker" in caught.value.fix
    assert surveying.silent_since_s("docker") is None, "who names it waits for it"
    assert open_in_time(door_of(engine("docker"))).name == "docker"
    with pytest.raises(HostNotReady, match="lxd is not running"):
        open_in_time(door_without("lxd", installed=True))


@pytest.mark.parametrize(("engine", "place"), [("lxd", "LXD_DIR"), ("incus", "INCUS_DIR"), ("docker", "DOCKER_HOST")])
def test_a_daemon_that_was_stopped_is_told_as_silent(
    engine: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(surveying, "ANSWER_S", 0.5)
    path = tmp_path / "unix.socket"
    monkeypatch.setenv(place, f"unix://{path}" if engine == "docker" else str(tmp_path))
    with socket.socket(socket.AF_UNIX) as listens:
        listens.bind(str(path))
        listens.listen()  # the kernel takes connections, and nobody answers
        with pytest.raises(TimedOut, match=f"{engine} does not respond"):
            LocalHost().open(engine)
