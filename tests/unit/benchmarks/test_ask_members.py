"""Verbs asked of fake hosts over the member protocol: the hosts answer what real ones would, for a few of them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, cast

import pytest

from benchmarks.ask_members import NEW, VERBS, Run, hosts_at, known_hosts, measure, render, way_to_hosts
from benchmarks.fake_members import FakeHosts, serving, write_members
from benchmarks.many_hosts import GPUS
from gpuprov.spec.addressing import node_name
from tests.schemas import validate

if TYPE_CHECKING:
    from pathlib import Path

HOSTS = 3
NODES = [node_name("c", number) for number in range(HOSTS * GPUS)]


def ask(verb: str, folder: Path, count: int = HOSTS) -> Any:
    return cast("Any", VERBS[verb](known_hosts(count), way_to_hosts(folder)))


def test_hosts_in_one_process_answer_every_verb_as_members_do(tmp_path: Path) -> None:
    address = str(tmp_path / "there")
    with serving(FakeHosts(HOSTS), address), hosts_at(address):
        assert ask("plan, nothing to do", tmp_path)["plan"] == []
        told = ask("status", tmp_path)
        validate(told)
        assert [(node["name"], node["work"]) for node in told["nodes"]] == [(name, "idle") for name in NODES]
        assert [host["status"] for host in told["hosts"]] == ["ready"] * HOSTS
        assert sorted(ask("inventory", tmp_path)["_meta"]["hostvars"]) == NODES
        with pytest.raises(SystemExit, match="h0003"):  # nothing is measured where a host does not answer
            ask("inventory", tmp_path, HOSTS + 1)


def test_a_new_cluster_is_planned_with_every_node_on_its_host(tmp_path: Path) -> None:
    address = str(tmp_path / "new")
    with serving(FakeHosts(HOSTS, new=True), address), hosts_at(address):
        lines = ask(NEW, tmp_path)["plan"]
    assert lines == [f"h{number // GPUS:04d}: create node {name}" for number, name in enumerate(NODES)]


@pytest.mark.slow
def test_hosts_in_a_process_each_answer_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = write_members(FakeHosts(2), tmp_path)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    run = measure("status", 2, tmp_path)
    assert 0 < run.cpu_s < run.seconds
    with serving(FakeHosts(2), str(tmp_path / "socket")), hosts_at(str(tmp_path / "socket")):
        assert measure("status", 2, tmp_path).printed_bytes == run.printed_bytes


def test_the_table_compares_each_number_of_hosts_with_the_first() -> None:
    def run(seconds: float) -> Run:
        return Run(seconds=seconds, cpu_s=seconds / 2, peak_bytes=64 << 20, printed_bytes=1 << 20)

    lines = render({"10": dict.fromkeys(VERBS, run(0.5)), "1,000": dict.fromkeys(VERBS, run(60.0))}).splitlines()
    assert len(lines) == 2 + 2 * len(VERBS)
    assert lines[0].split(" | ")[4] == "of 10 hosts"
    assert lines[3] == "| plan of a new cluster | 1,000 | 60.00 s | 30.00 s | 120.0 times | 64 MiB | 1.0 MiB |"
