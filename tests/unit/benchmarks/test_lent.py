"""The proof in a container that was given some of its host's GPUs: those that are missing on a machine still fail."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks.gpu_proof.lent import Lent, find_lent, leave_out_withheld, tell_withheld
from gpuprov.verify.chain import judge_host
from gpuprov.verify.models import Expectation
from tests.unit.machine.hosts import see_real_host

if TYPE_CHECKING:
    from pathlib import Path

HOST = Expectation(node="host", status="running", access="raw")
CARDS = [f"0000:{number}1:00.0" for number in range(5, 9)]
UUIDS: list[str] = [gpu["uuid"] for gpu in see_real_host().facts["nvml"]["gpus"]]  # type: ignore[index]
MINORS = {uuid: minor for minor, uuid in enumerate(UUIDS)}


def seen_with(listed: list[str], by_nvml: list[str], missing: tuple[str, ...] = (), **driver: Any) -> dict[str, Any]:
    """Four cards on the bus, some of which the driver lists, and some NVML."""
    facts: dict[str, Any] = dict(see_real_host().facts or {})
    pci = {uuid: card for uuid, card in zip(UUIDS, CARDS, strict=True) if uuid in listed}
    found = {**facts["driver"], "gpus": listed, "pci": pci, "cards": dict.fromkeys(CARDS, "nvidia"), **driver}
    paths = [f"/dev/nvidia{MINORS[uuid]} 195:{MINORS[uuid]}" for uuid in listed]
    devices = {
        "wrong": [f"{path} is missing (expected 195:1)" for path in missing],
        "right": ", ".join(paths),
        "fix": "",
    }
    nvml = {**facts["nvml"], "gpus": [gpu for gpu in facts["nvml"]["gpus"] if gpu["uuid"] in by_nvml]}
    return {**facts, "driver": found, "devices": devices, "nvml": nvml}


def judged(facts: dict[str, Any], lent: Lent) -> tuple[dict[str, tuple[str, str]], tuple[str, ...]]:
    given, withheld = leave_out_withheld(facts, lent)
    seen = replace(see_real_host(), facts=given)
    report = tell_withheld(judge_host(HOST, seen), withheld)
    return {check.id: (check.status, check.evidence) for check in report.checks}, withheld


def lent(nodes: set[int], listed: list[str]) -> Lent:
    return Lent(listed={uuid: MINORS[uuid] for uuid in listed}, nodes=frozenset(nodes))


def test_gpus_that_the_container_toolkit_hides_are_told_and_do_not_fail() -> None:
    one = UUIDS[1:2]
    found, withheld = judged(seen_with(one, one, ("/dev/nvidia-modeset",)), lent({1}, one))
    assert withheld == (CARDS[0], *CARDS[2:])
    status, evidence = found["host-gpus"]
    assert status == "warn"
    assert f"was not given the GPUs at {CARDS[0]}, {CARDS[2]}, {CARDS[3]}" in evidence
    assert found["host-devices"] == ("pass", "/dev/nvidia1 195:1")
    assert found["host-nvml"][0] == "pass"


def test_gpus_that_the_driver_lists_without_a_device_node_are_told_and_do_not_fail() -> None:
    """As with CDI, which hides nothing in /proc."""
    missing = ("/dev/nvidia0", "/dev/nvidia2", "/dev/nvidia3")
    facts = seen_with(UUIDS, UUIDS[1:2], missing)
    assert {name for name, check in judged(facts, lent({0, 1, 2, 3}, UUIDS))[0].items() if check[0] == "fail"} == {
        "host-devices",
        "host-nvml",
    }
    found, withheld = judged(facts, lent({1}, UUIDS))
    assert len(withheld) == 3
    assert (found["host-gpus"][0], found["host-devices"], found["host-nvml"][0]) == (
        "warn",
        ("pass", "/dev/nvidia1 195:1"),
        "pass",
    )


@pytest.mark.parametrize(
    ("facts", "shown"),
    [
        (seen_with(UUIDS[:3], UUIDS[:3]), lent({0, 1, 2, 3}, UUIDS[:3])),  # its device node is here
        (seen_with(UUIDS[:3], UUIDS[:3], cards={**dict.fromkeys(CARDS, "nvidia"), CARDS[3]: None}), lent({0}, UUIDS)),
        (seen_with(UUIDS[:3], UUIDS[:3]), lent(set(), UUIDS[:3])),
        (seen_with([], []), lent({0}, [])),
    ],
    ids=["has-a-node", "without-a-driver", "no-nodes-at-all", "none-listed"],
)
def test_a_gpu_that_is_missing_fails_in_a_container_too(facts: dict[str, Any], shown: Lent) -> None:
    found, _ = judged(facts, shown)
    assert found["host-gpus"][0] == "fail"
    assert CARDS[3] in found["host-gpus"][1]


def test_a_container_with_all_gpus_is_judged_as_a_machine() -> None:
    facts = seen_with(UUIDS, UUIDS)
    assert leave_out_withheld(facts, lent({0, 1, 2, 3}, UUIDS))[1] == ()
    assert judged(facts, lent({0, 1, 2, 3}, UUIDS))[0]["host-gpus"][0] == "pass"


def test_only_a_container_has_a_process_namespace_of_its_own(tmp_path: Path) -> None:
    assert find_lent(tmp_path) is None
    space = tmp_path / "proc/self/ns/pid"
    space.parent.mkdir(parents=True)
    space.symlink_to("pid:[4026531836]")
    (tmp_path / "dev").mkdir()
    for name in ("nvidia3", "nvidiactl", "nvidia-uvm"):
        (tmp_path / "dev" / name).touch()
    assert find_lent(tmp_path) is None
    space.unlink()
    space.symlink_to("pid:[4026532567]")
    assert find_lent(tmp_path) == Lent(listed={}, nodes=frozenset({3}))
