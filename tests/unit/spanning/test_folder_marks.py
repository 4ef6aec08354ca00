"""Marks that hosts leave with their first answer and take while they plan: no question more, and none is left."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.core.errors import GpuprovError, HostNotReady, UsageError
from gpuprov.serving.member import serve_request
from gpuprov.spanning.hosts_up import look_and_plan_over_hosts, up_over_hosts
from gpuprov.spanning.parts.over_hosts import look_for_spanning
from gpuprov.spec.models import ClusterSpec, HostSpec
from gpuprov.spec.serialize import dump_spec
from tests.fakes.hosts_in_worlds import HostsInWorlds
from tests.unit.spanning.test_share_over_hosts import FOLDER, NAMES, Lab, lab

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from gpuprov.host.remote.ask import MemberRequest
    from gpuprov.host.remote.machine import RemoteMachine
    from gpuprov.host.remote.several import HostAnswer

    Rounds = Callable[[], list[str]]

__all__ = ["lab"]
NEW = ["part", "plan", "up"]
PROVEN_BEFORE = ["part", "share", "share", "plan", "up"]
PROVEN_AFTER = ["part", "plan", "share", "share", "up"]
MARK = "0123456789abcdef" * 2


@pytest.fixture
def rounds(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Rounds:
    """What hosts were asked since the last time: a verb for each round."""
    verbs: list[str] = []
    ask = lab.hosts.ask

    def noted(requests: Mapping[RemoteMachine, MemberRequest], *further: Any) -> list[HostAnswer]:
        verbs.extend(sorted({request.verb for request in requests.values()}))
        return ask(requests, *further)

    def since() -> list[str]:
        told = verbs[:]
        verbs.clear()
        return told

    monkeypatch.setattr(lab.hosts, "ask", noted)
    return since


def separate(lab: Lab, name: str) -> dict[tuple[str, str], str]:
    """Have that host another folder at the path; returns what is left in it."""
    folders = lab.hosts.worlds[name].host.folders
    folders.marks = {}
    return folders.marks


def test_a_new_cluster_and_one_that_grows_ask_nothing_more(lab: Lab, rounds: Rounds) -> None:
    assert lab.up(2).error is None
    assert rounds() == NEW
    assert lab.up(4).error is None
    assert rounds() == NEW
    assert lab.up(4).outcome.unchanged
    assert rounds() == ["part", "plan"]
    look_and_plan_over_hosts(lab.order(6), lab.hosts, reporter=lab.reporter)
    assert rounds() == ["part", "plan", "plan"]
    assert lab.marks == {}
    for name in NAMES:
        acts = [step for step in lab.steps_of_marks(name) if not step.endswith(":done")]
        assert acts == ["leave_marks", "remove_mark"] * 4, "each leaves one and takes one, each time"


def test_whoever_only_looks_leaves_nothing(lab: Lab) -> None:
    lab.up()
    before = {name: lab.steps_of_marks(name) for name in NAMES}
    lab.find()
    look_for_spanning("lab", lab.hosts.machines, lab.hosts, "nodes")
    assert {name: lab.steps_of_marks(name) for name in NAMES} == before


def test_two_folders_at_one_path_are_refused_as_before_and_nothing_is_left_in_either(lab: Lab, rounds: Rounds) -> None:
    other = separate(lab, "hinton")
    with pytest.raises(UsageError, match="is not the same folder on all hosts") as caught:
        lab.up()
    assert caught.value.evidence.endswith("a file that the first one writes there is not seen on hinton")
    assert rounds() == ["part", "plan", "share", "share", "share", "share"]
    assert (lab.untouched(), lab.marks, other) == (True, {}, {})


@pytest.mark.parametrize("odd", ["hoff", "hinton", "hegel"])
def test_whichever_of_three_hosts_has_another_folder_is_found(lab: Lab, odd: str, tmp_path: Path) -> None:
    lab = three(lab, tmp_path)
    one = separate(lab, odd)
    with pytest.raises(UsageError, match="is not the same folder on all hosts"):
        up_over_hosts(over(lab, *NAMES, "hegel"), lab.hosts, reporter=lab.reporter)
    others = lab.hosts.worlds["hinton" if odd == "hoff" else "hoff"].host.folders.marks
    assert (lab.untouched(), one, others) == (True, {}, {})


def test_a_mark_that_a_host_does_not_see_at_first_is_asked_for_again(
    lab: Lab, rounds: Rounds, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = lab.hosts.worlds["hinton"].host.folders
    read, late = folders.read_mark, [True]

    def read_late(path: str, name: str) -> str:
        return "" if late and late.pop() else read(path, name)

    monkeypatch.setattr(folders, "read_mark", read_late)
    assert lab.up().error is None
    assert rounds() == ["part", "plan", "share", "share", "share", "up"], "with one for the mark that is left"
    assert lab.marks == {}


def test_where_nothing_changes_a_mark_that_is_not_seen_is_removed_and_nothing_more_asked(
    lab: Lab, rounds: Rounds
) -> None:
    lab.up()
    other = separate(lab, "hinton")
    rounds()
    assert lab.up().outcome.unchanged
    assert rounds() == ["part", "plan", "share"]
    assert (lab.marks, other) == ({}, {})


def test_a_host_that_cannot_leave_one_is_proven_by_asking(
    lab: Lab, rounds: Rounds, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str, _texts: Mapping[str, str]) -> None:
        raise HostNotReady(f"the folder {path} cannot be written", evidence="Permission denied", fix="findmnt")

    monkeypatch.setattr(lab.hosts.worlds["hinton"].host.folders, "leave_marks", refuse)
    assert lab.up(2).error is None
    assert rounds() == ["part", "share", "share", "plan", "share", "up"]
    assert lab.marks == {}


def test_a_folder_that_hangs_takes_nothing_else_from_what_a_host_says(lab: Lab, rounds: Rounds) -> None:
    lab.up(2)
    folders = lab.hosts.worlds["hinton"].host.folders
    folders.hang = True
    rounds()
    assert lab.up(4).error is None, "in this test, the file server is back when the folder is asked for"
    assert rounds() == ["part", "plan", "share", "share", "share", "up"]
    folders.hang = False
    assert lab.marks == {}


def test_a_folder_that_hangs_while_hosts_plan_is_proven_by_asking(
    lab: Lab, rounds: Rounds, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = lab.hosts.worlds["hinton"].host.folders
    leave = folders.leave_marks

    def leave_then_hang(path: str, texts: Mapping[str, str]) -> None:
        leave(path, texts)
        folders.hang = True

    monkeypatch.setattr(folders, "leave_marks", leave_then_hang)
    assert lab.up(2).error is None
    assert rounds() == ["part", "plan", "share", "share", "share", "up"]
    assert lab.marks == {}


def test_another_folder_than_the_recorded_one_is_proven_before_it_is_used(lab: Lab, rounds: Rounds) -> None:
    other = f"{FOLDER}2"
    assert lab.up(2, share=False).error is None
    for name in NAMES:
        folders = lab.hosts.worlds[name].host.folders
        folders.there[other] = replace(folders.there[FOLDER], at=other)
    rounds()
    found = look_for_spanning("lab", lab.hosts.machines, lab.hosts, "offer")
    assert lab.marks == {}, "it has no folder"
    order = replace(lab.order(2, share=other), found=found)
    look_and_plan_over_hosts(order, lab.hosts, reporter=lab.reporter)
    assert "share" not in rounds()
    assert lab.marks == {}


def test_marks_of_a_folder_that_is_given_up_are_removed(lab: Lab, rounds: Rounds) -> None:
    lab.up(2)
    other = f"{FOLDER}2"
    for name in NAMES:
        folders = lab.hosts.worlds[name].host.folders
        folders.there[other] = replace(folders.there[FOLDER], at=other)
    rounds()
    found = look_for_spanning("lab", lab.hosts.machines, lab.hosts, "offer")
    assert {path for path, _ in lab.marks} == {FOLDER}
    with pytest.raises(GpuprovError):  # nodes have the other one
        raise_planned(lab, replace(lab.order(2, share=other), found=found))
    assert rounds()[:4] == ["part", "part", "share", "share"]
    assert lab.marks == {}


def raise_planned(lab: Lab, order: Any) -> None:
    planned = look_and_plan_over_hosts(order, lab.hosts, reporter=lab.reporter)
    raise planned.error or HostNotReady("nothing is wrong", evidence="", fix="")


def test_a_refusal_in_between_leaves_none(lab: Lab, rounds: Rounds) -> None:
    with pytest.raises(GpuprovError, match="its hosts have room for 0"):
        lab.up(4, gpus=replace(lab.order().draft.spec.gpus, per_node=9))
    assert rounds() == ["part", "share"]
    assert (lab.marks, lab.untouched()) == ({}, True)
    lab.hosts.away = {"hinton"}
    with pytest.raises(GpuprovError, match="a new cluster needs all its hosts"):
        lab.up()
    assert lab.marks == {}


def test_a_host_that_refuses_its_part_leaves_none(lab: Lab) -> None:
    for name in NAMES:
        lab.hosts.spoiled[name, "plan"] = lambda told: {**told, "took": "yes"}
    with pytest.raises(HostNotReady, match="hosts refuse their part: hoff, hinton"):
        lab.up()
    assert (lab.marks, lab.untouched()) == ({}, True)


@pytest.mark.parametrize(
    "spoilt",
    [
        [],
        {FOLDER: "a folder"},
        {FOLDER: {}},
        {FOLDER: {"mark": "../../etc/passwd"}},
    ],
)
def test_a_host_that_says_something_else_of_a_folder_is_not_believed(lab: Lab, spoilt: Any) -> None:
    def spoil(told: dict[str, Any]) -> dict[str, Any]:
        if isinstance(spoilt, dict) and isinstance(spoilt.get(FOLDER), dict) and spoilt[FOLDER]:
            return {**told, "shares": {FOLDER: {**told["shares"][FOLDER], **spoilt[FOLDER]}}}
        return {**told, "shares": spoilt}

    lab.hosts.spoiled["hinton", "part"] = spoil
    with pytest.raises(HostNotReady, match="a new cluster needs all its hosts"):
        lab.up()
    assert lab.untouched()


@pytest.mark.parametrize("mark", ["../../etc/passwd", MARK[1:], MARK.upper(), f"{MARK}\n"])
def test_what_is_no_mark_is_neither_left_nor_taken(lab: Lab, mark: str) -> None:
    spec = dump_spec(replace(ClusterSpec(), hosts=(HostSpec(name="hoff"),), share=FOLDER))
    host = lab.hosts.worlds["hoff"].host.called("hoff")
    with pytest.raises(UsageError, match="`part` cannot be served"):
        serve_request("part", {"cluster": "lab", "spec": spec, "mark": mark}, host, reporter=lab.reporter)
    with pytest.raises(UsageError, match="`plan` cannot be served"):
        serve_request("plan", {"cluster": "lab", "spec": spec, "left": [], "take": mark}, host, reporter=lab.reporter)
    assert lab.steps_of_marks("hoff") == []


@pytest.mark.parametrize("share", ["/home/ada", "/mnt", True, False])
def test_no_mark_is_left_in_a_folder_that_no_nodes_may_share(lab: Lab, share: bool | str) -> None:
    for folder in ("/home/ada", "/mnt", "/srv/gpuprov/lab"):
        lab.hosts.worlds["hoff"].host.folders.add(folder)
    spec = dump_spec(replace(lab.order().draft.spec, share=share))
    host = lab.hosts.worlds["hoff"].host.called("hoff")
    told = serve_request(
        "part", {"cluster": "lab", "spec": spec, "internal_ip": "192.0.2.11", "mark": MARK}, host, reporter=lab.reporter
    )
    assert (told["shares"], lab.steps_of_marks("hoff")) == ({}, [])


def three(lab: Lab, tmp_path: Path) -> Lab:
    """With a third host, which has mounted the same folder."""
    (tmp_path / "three").mkdir()
    more = Lab(HostsInWorlds(tmp_path / "three", lab.reporter, (*NAMES, "hegel")), lab.reporter)
    more.mount("hegel")
    more.hosts.worlds["hegel"].host.folders.marks = more.marks
    return more


def over(lab: Lab, *names: str) -> Any:
    hosts = tuple(HostSpec(name=name, internal_ip=f"192.0.2.{n}") for n, name in enumerate(lab.hosts.worlds, 11))
    return lab.order(2, hosts=tuple(host for host in hosts if host.name in names))


def test_a_host_that_was_left_out_while_it_was_away_removes_its_own(lab: Lab, tmp_path: Path) -> None:
    lab = three(lab, tmp_path)
    up_over_hosts(over(lab, *NAMES, "hegel"), lab.hosts, reporter=lab.reporter)
    lab.hosts.away = {"hegel"}
    up_over_hosts(over(lab, *NAMES), lab.hosts, reporter=lab.reporter)
    lab.hosts.away = set()
    found = look_for_spanning("lab", lab.hosts.machines, lab.hosts, "offer")
    assert (set(found.parts), len(lab.marks)) == ({*NAMES}, 3)
    again = up_over_hosts(replace(over(lab, *NAMES), found=found), lab.hosts, reporter=lab.reporter)
    assert (again.outcome.unchanged, lab.marks) == (True, {})
