"""The count of what verbs over hosts ask: every round is counted, and docs/benchmarks.md has the counts of now."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchmarks.round_trips import TIMED, TYPED, CountedHosts, controller, count, render, time_rounds
from tests.fakes.ssh import scripted_member

if TYPE_CHECKING:
    from gpuprov.link.places import Places
    from tests.fakes.ssh import FakeSsh

pytestmark = pytest.mark.slow

HOSTS = "all: {children: {lab: {children: {gpu_hosts: {hosts: {hoff: {ansible_host: 192.0.2.11}}}}}}}\n"
PAGE = Path(__file__).parents[3] / "docs/benchmarks.md"


def test_what_is_asked_side_by_side_is_one_round(tmp_path: Path) -> None:
    verbs = {"new": TYPED["`cluster up -f`, new"], "run": "exec c003 -- true", "list": "list"}
    found = count(verbs, tmp_path)
    assert found["new"].rounds == ("part", "plan", "up", "ready")
    assert found["run"].rounds == ("list", "exec")
    assert (found["list"].rounds, found["list"].connections) == (("list",), 1)
    lines = render(found).splitlines()
    assert lines[2:4] == ["| new | 4 | part, plan, up, ready |", "| run | 2 | list, exec |"]
    twice = {"a": replace(found["run"], connections=2), "b": replace(found["run"], connections=2)}
    assert render(twice).splitlines()[2:] == ["| a; b | 2 | list, exec (2 connections) |"]


def test_a_verb_that_fails_is_not_counted(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="there is no node c009"):
        count({"up": TYPED["`cluster up -f`, new"], "stop": "stop c009"}, tmp_path)


def test_another_way_to_a_host_is_another_connection(tmp_path: Path) -> None:
    with controller(tmp_path) as hosts:
        machine = hosts.machines["hoff"]
        for way in (machine, machine, replace(machine, user="root")):
            hosts.attach(way, ["gpuprov", "exec"], terminal=False)
        assert isinstance(hosts, CountedHosts)
        assert hosts.counted().connections == 2


def test_a_question_is_timed_once_the_connection_is_open(ssh: FakeSsh, places: Places) -> None:
    places.inventory.write_text(HOSTS)
    refusal = "say('error', what='members do not know `nothing`', evidence='', fix='', exit_code=2)"
    ssh.reach("192.0.2.11", member=scripted_member(f"while True: hear(); {refusal}"))
    assert len(time_rounds("hoff", places)) == TIMED
    assert len(ssh.calls()) == 1


def test_the_page_has_the_counts_of_now(tmp_path: Path) -> None:
    assert render(count(TYPED, tmp_path)) in PAGE.read_text()
