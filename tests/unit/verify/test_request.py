"""What is sent into a node, run here as it is run there."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.gpu.observe import observe
from gpuprov.gpu.simulate import node_document
from gpuprov.roles.slurm.questions import ask_slurm, job_program
from gpuprov.verify.models import Expectation, Peer
from gpuprov.verify.request import SIMULATION, Work, parse_answer, probe_argv
from tests.fakes.chain import judge_node
from tests.fakes.places import NOWHERE

if TYPE_CHECKING:
    from pathlib import Path

MAX_ARGUMENT_BYTES = 128 * 1024  # Linux: MAX_ARG_STRLEN


def parameters(expected: Expectation, questions: Any = None) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        probe_argv(expected, part_timeout_s=9, work=Work(), questions=questions or {})[-1]
    )
    return found


def simulated(count: int) -> Expectation:
    document = observe(root=NOWHERE, mode="simulated", simulated_count=count).document
    assert document is not None
    uuids = [gpu["uuid"] for gpu in document["gpus"]]
    return Expectation(
        node="c000",
        status="running",
        access="simulated",
        gpus=tuple(uuids[:1]),
        denied=(1, 253),
        simulation=node_document(dict(document), uuids[:1]),
    )


def test_only_what_makes_sense_is_asked() -> None:
    asked = parameters(Expectation(node="c000", status="running", denied=(253,)))
    assert [asked[part] for part in ("nvml", "kernels", "questions", "cuda")] == [None, None, {}, False]
    assert asked["network"] == {}


def test_roles_and_networks_are_asked_where_there_are_any() -> None:
    peers = (Peer(name="c001", address="10.0.3.3", private_address="10.0.5.2"),)
    expected = Expectation(node="c000", status="running", role="slurm", peers=peers, gateway="10.0.3.1")
    asked = parameters(expected, {"slurm": ask_slurm(expected, timeout_s=9)})
    assert asked["network"] == {"eth0": ["10.0.3.1", "10.0.3.3"], "eth1": ["10.0.5.2"]}
    assert set(asked["questions"]["slurm"]) == {"show", "job", "left", "accounting"}
    job = asked["questions"]["slurm"]["job"]
    assert job["argv"][-2:] == [job_program(), SIMULATION]
    assert job["timeout_s"] == 9


def test_real_gpus_are_asked_for_cuda_and_not_for_a_simulation() -> None:
    asked = parameters(Expectation(node="c000", status="running", access="raw", gpus=("GPU-1",)))
    assert asked["cuda"] is True
    assert asked["nvml"] is None
    assert asked["kernels"]["environment"] == {}


def test_no_argument_is_longer_than_linux_allows() -> None:
    peers = tuple(Peer(name=f"c{n:03d}", address="10.0.3.254", private_address="10.0.5.254") for n in range(253))
    document = observe(root=NOWHERE, mode="simulated", simulated_count=16).document
    assert document is not None
    expected = Expectation(node="c000", status="running", peers=peers, gpus=("x",), simulation=document)
    assert all(
        len(part.encode()) < MAX_ARGUMENT_BYTES
        for part in probe_argv(expected, part_timeout_s=9, work=Work(), questions={})
    )


def test_the_probe_runs_as_it_is_sent_and_the_simulated_nvml_answers_with_the_lease(tmp_path: Path) -> None:
    expected = simulated(4)
    say = {"argv": [sys.executable, "-c", "import sys; print(sys.argv[1])", SIMULATION], "timeout_s": 20}
    argv = probe_argv(expected, part_timeout_s=0.2, work=Work(level="full"), questions={"role": {"say": say}})
    done = subprocess.run(
        [sys.executable, *argv[1:]], capture_output=True, text=True, check=False, cwd=tmp_path, timeout=60
    )
    seen = parse_answer(done.returncode, done.stdout, done.stderr, seconds=0.5)
    assert seen.facts is not None, seen.problem
    assert [gpu["uuid"] for gpu in seen.facts["nvml"]["gpus"]] == list(expected.gpus)
    assert {attempt["minor"] for attempt in seen.facts["mknod"]} == {1, 253}
    assert seen.facts["devices"] == {}
    told = json.loads(seen.facts["role"]["say"]["stdout"])
    assert [gpu["uuid"] for gpu in told["document"]["gpus"]] == list(expected.gpus)
    assert list(seen.facts["samples"]["gpus"]) == list(expected.gpus), seen.facts["samples"]
    row = seen.facts["samples"]["gpus"][expected.gpus[0]][0]
    assert set(row) == {
        "at_s", "temperature_c", "sm_clock_mhz", "memory_clock_mhz", "power_w", "throttle", "pcie_generation",
        "pcie_replay",
    }  # fmt: skip
    assert None not in row.values()
    assert seen.facts["samples"]["xids"] == {"value": []}
    report = judge_node(expected, seen, "full")
    health = {check.id: check.status for check in report.checks if check.layer == "nvml"}
    assert set(health.values()) == {"pass", "skip"}
    assert {check_id for check_id, status in health.items() if status == "skip"} == {
        "nvml-retired-pages", "nvml-processes", "nvml-p2p",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ((127, "", "sh: python3: not found"), "python3: not found"),
        ((1, "only stdout", ""), "only stdout"),
        ((0, "", ""), "no facts"),
        ((0, "[]", ""), "no facts"),
        ((0, "[" * 100_000, ""), "no facts"),
        ((0, '{"a": ', ""), "no facts"),
    ],
)
def test_an_answer_that_is_none_says_why(answer: tuple[int, str, str], says: str) -> None:
    seen = parse_answer(*answer, seconds=1.0)
    assert seen.facts is None
    assert says in seen.problem
