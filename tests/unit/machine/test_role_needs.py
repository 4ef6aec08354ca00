from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from gpuprov.core.requirements import load_requirements
from gpuprov.gpu.observe import observe
from gpuprov.machine.facts import EngineView, HostFacts
from gpuprov.machine.role_needs import compare_roles, judge_roles
from gpuprov.roles.registry import ROLE_NAMES
from gpuprov.shapes.base import changed
from gpuprov.shapes.engine import EngineFacts
from tests.fakes.places import NOWHERE

if TYPE_CHECKING:
    from gpuprov.shapes.doctor import HostFinding

ENGINE = EngineFacts(
    name="lxd", version="5.0.2", api="1.0", storage="pool (btrfs)", copy_on_write=True, cpus=2, memory_bytes=1
)
SIMULATED = observe(root=NOWHERE, mode="simulated")
REAL = replace(SIMULATED, simulated=False, driver_version="580.95.05")
HOST = HostFacts(kernel="6.1.0-30-amd64", cgroup="v2", uid=0, engine=EngineView(facts=ENGINE), gpus=REAL)


def judge(facts: HostFacts, role: str = "slurm") -> HostFinding:
    return judge_roles(compare_roles(facts), role)


def test_every_role_is_in_the_table_and_says_where_its_numbers_are_from() -> None:
    table = load_requirements()
    assert set(table) == {*ROLE_NAMES, "smoke"}
    assert all(line.why for line in table.values())


def test_a_host_with_all_that_is_needed() -> None:
    needs = compare_roles(HOST)
    assert {need.met for need in needs} == {"yes"}
    assert {(need.part, need.has) for need in needs if need.role == "slurm"} == {
        ("kernel", "6.1.0-30-amd64"), ("engine", "5.0.2"), ("driver", "580.95.05"), ("compute_capability", "9.0"),
    }  # fmt: skip
    assert judge(HOST).status == "ok"


OLD_ENGINE = EngineView(facts=changed(ENGINE, version="4.0.9"))
OLD_GPU = replace(REAL, gpus=tuple(replace(gpu, compute_capability=(3, 5)) for gpu in REAL.gpus))


@pytest.mark.parametrize(
    ("facts", "role", "status", "says"),
    [
        (replace(HOST, kernel="4.19.0"), "plain", "fail", "Linux 4.19.0, 5.4 required for plain, slurm"),
        (replace(HOST, engine=OLD_ENGINE), "slurm", "fail", "engine 4.0.9, 5.0 required for plain, slurm"),
        (replace(HOST, gpus=replace(REAL, driver_version="470.1")), "slurm", "fail", "driver 470.1, 525.60 required"),
        (replace(HOST, gpus=replace(REAL, driver_version="470.1")), "plain", "warn", "for slurm, worker, smoke"),
        (replace(HOST, gpus=OLD_GPU), "slurm", "fail", "compute capability 3.5, 5.0 required for slurm, worker, smoke"),
    ],
)
def test_what_is_too_old_is_named_with_the_roles_that_need_more(
    facts: HostFacts, role: str, status: str, says: str
) -> None:
    finding = judge(facts, role)
    assert finding.status == status
    assert says in finding.evidence
    assert finding.fix


def test_the_weakest_gpu_counts() -> None:
    first, *rest = REAL.gpus
    gpus = replace(REAL, gpus=(replace(first, compute_capability=(3, 7)), *rest))
    finding = judge(replace(HOST, gpus=gpus), role="plain")
    assert (finding.status, finding.evidence) == (
        "warn",
        "compute capability 3.7, 5.0 required for slurm, worker, smoke",
    )


@pytest.mark.parametrize("capability", [(6, 1), (7, 0), (7, 5)])
def test_the_packages_of_cuda_12_serve_gpus_that_those_of_13_do_not(capability: tuple[int, int]) -> None:
    gpus = replace(REAL, gpus=tuple(replace(gpu, compute_capability=capability) for gpu in REAL.gpus))
    assert judge(replace(HOST, gpus=gpus)).status == "ok"


def test_of_simulated_gpus_nothing_is_asked_and_that_is_said() -> None:
    needs = compare_roles(replace(HOST, gpus=SIMULATED))
    assert {need.met for need in needs if need.part in ("driver", "compute_capability")} == {"SIMULATED"}
    finding = judge_roles(needs, "slurm")
    assert finding.status == "ok"
    assert "SIMULATED" in finding.evidence


def test_what_cannot_be_told_is_no_pass() -> None:
    unasked = replace(REAL, gpus=tuple(replace(gpu, compute_capability=None) for gpu in REAL.gpus))
    for facts in (replace(HOST, gpus=None), replace(HOST, gpus=unasked)):
        finding = judge(facts)
        assert (finding.status, "compute capability" in finding.evidence) == ("info", True)


def test_an_engine_that_does_not_answer_is_left_to_its_own_finding() -> None:
    needs = compare_roles(replace(HOST, engine=EngineView()))
    assert "engine" not in {need.part for need in needs}
