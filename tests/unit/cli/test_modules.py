"""Ansible's modules tell nodes, GPUs and reports as the command line does."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from ansible_collections.gpuprov.cluster.plugins.doc_fragments.gpuprov import ModuleDocFragment
from gpuprov.core.errors import UsageError
from gpuprov.drivers.base import LABEL_ORDER, LABEL_SPEC, ExecResult
from gpuprov.shapes.cluster_spec import GpuSpec
from gpuprov.spec.gpu_order import CRITERIA
from gpuprov.spec.serialize import load_spec_json
from tests.fakes.slurm import FakeJob
from tests.schemas import validate
from tests.unit.cli.module_stage import MODULES, act
from tests.unit.machine.hosts import see_host

if TYPE_CHECKING:
    from tests.fakes.engine import Command
    from tests.fakes.world import World
    from tests.unit.cli.conftest import Typed

FACTS = Path(__file__).parents[1] / "verify" / "data" / "simulated.json"  # of a healthy node c001
STRANGER = {"path": "/dev/nvidia1", "kind": "char", "major": 195, "minor": 1, "open": "ENXIO"}


@pytest.fixture(autouse=True)
def host(typed: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    """The modules run on the fake engine's host."""
    monkeypatch.setattr("gpuprov.machine.local.LocalHost", lambda: typed.world.host)


def as_list(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Rows as `gpuprov list` would print them."""
    return {"version": 1, "schema": "gpuprov.nodes/v1", "host": "here", "nodes": rows}


def test_nodes_are_those_of_list(typed: Typed) -> None:
    typed.world.begin_with(2)
    assert validate(as_list(act("cluster", gpu_mode="simulated")["nodes"])) == "gpuprov.nodes/v1"
    node = act("node", name="c000")["node"]
    assert validate(as_list([node])) == "gpuprov.nodes/v1"
    assert (node["name"], node["host"]) == ("c000", "here")


def test_a_report_is_that_of_verify(typed: Typed) -> None:
    typed.world.begin_with(1)
    assert validate(act("verify")["report"]) == "gpuprov.verify/v1"


@pytest.mark.usefixtures("typed")
def test_a_gpu_has_the_keys_of_every_gpu_and_who_holds_it() -> None:
    from gpuprov.gpu.document import gpu_document

    results = act("gpus")
    assert results["host"] == "here"
    assert not results["reason"].startswith("here: ")
    assert len(results["gpus"]) == 4
    for gpu in results["gpus"]:
        assert set(gpu) == {*gpu_document("", None), "host", "nodes", "exclusive"}
        assert gpu["host"] == "here"
        assert gpu["model"].startswith("SIMULATED")


def let_answer(world: World, **changes: Any) -> None:
    """Have the one node, and the host, answer `verify` as healthy ones do, but for these facts."""

    def answer(command: Command) -> ExecResult:
        if command.argv[0] != "python3":
            return world.slurm(command)
        asked = json.loads(command.argv[-1])
        facts = json.loads(FACTS.read_text().replace("c001", command.node.name))
        facts["mknod"] = [
            {"minor": minor, "folder": "/dev", "mknod": "EPERM", "open": None} for minor in asked["denied"]
        ]
        facts["network"] = {nic: {"reached": to, "missing": []} for nic, to in asked["network"].items()}
        return ExecResult(exit_code=0, stdout=json.dumps(facts | changes), stderr="")

    world.engine.answer = answer
    world.host.looks = see_host


def test_a_cluster_that_is_proved_and_changes_nothing_the_second_time(typed: Typed) -> None:
    let_answer(typed.world)
    results = act("cluster", count=1, gpu_mode="simulated", verify=True)
    assert validated_report(results)["passed"]
    assert "failed" not in results
    assert results["changed"]
    again = act("cluster", count=1, gpu_mode="simulated", verify=True)
    assert (again["changed"], "verify" in again) == (False, False)


def prove_badly() -> dict[str, Any]:
    """The results of a module that ends because a check failed; its message is its three parts."""
    results = act("cluster", count=1, gpu_mode="simulated", verify=True)
    assert results["failed"]
    assert not validated_report(results)["passed"]
    assert results["msg"] == f"{results['what']}\nevidence: {results['evidence']}\nfix: {results['fix']}"
    return results


def validated_report(results: dict[str, Any]) -> dict[str, Any]:
    report: dict[str, Any] = results["verify"]
    assert validate(report) == "gpuprov.verify/v1"
    return report


def test_a_check_that_fails_ends_the_module_in_three_parts_and_the_nodes_stay(typed: Typed) -> None:
    let_answer(typed.world, strangers=[STRANGER])
    results = prove_badly()
    assert results["what"].startswith("1 node: 1 fail")
    assert STRANGER["path"] in results["evidence"]
    problems = [check for check in results["verify"]["nodes"][0]["checks"] if check["status"] == "fail"]
    assert results["fix"] == problems[0]["fix"]
    assert results["fix"]
    assert [node["name"] for node in results["nodes"]] == typed.world.names == ["c000"]


def test_a_check_of_the_host_that_fails_says_its_own_fix(typed: Typed) -> None:
    let_answer(typed.world)
    typed.world.host.looks = lambda document: see_host(document, addresses={})
    results = prove_badly()
    assert results["evidence"].startswith("host: ")
    problems = [check for check in results["verify"]["host"]["checks"] if check["status"] == "fail"]
    assert results["fix"] == problems[0]["fix"]


@pytest.mark.parametrize("given", [{"name": "c001", "state": "stopped"}, {"name": "c001", "state": "absent"}])
def test_a_node_with_a_job_is_kept_without_force(typed: Typed, given: dict[str, Any]) -> None:
    typed.world.begin_with(2)
    typed.world.slurm.queue = [FakeJob(id="17", nodes="c001")]
    with pytest.raises(UsageError, match="there are jobs on c001") as refused:
        act("node", **given)
    assert "job 17 of alice (train)" in refused.value.evidence
    assert typed.world.engine.nodes["c001"].status == "running"
    assert act("node", **given, force=True)["changed"]


def test_a_cluster_with_a_job_is_kept_without_force(typed: Typed) -> None:
    typed.world.begin_with(2)
    typed.world.slurm.queue = [FakeJob(id="17", nodes="c001")]
    for given in ({"count": 1, "gpu_mode": "simulated"}, {"state": "absent"}):
        with pytest.raises(UsageError, match="there are jobs on"):
            act("cluster", **given)
        assert typed.world.names == ["c000", "c001"]
    assert act("cluster", count=1, gpu_mode="simulated", force=True)["changed"]
    assert typed.world.names == ["c000"]
    typed.world.slurm.queue = [FakeJob(id="18", state="PD")]
    assert act("cluster", state="absent", force=True)["changed"]
    assert typed.world.names == []


def test_a_node_gets_all_that_can_be_asked_of_gpus(typed: Typed) -> None:
    typed.world.begin_with(1)
    asked: dict[str, Any] = {"gpu_model": "h100", "gpu_memory": "20480MiB", "role": "plain", "gpu_mode": "simulated"}
    assert act("node", name="web", **asked)["changed"]
    order = json.loads(typed.world.engine.nodes["web"].labels[LABEL_ORDER])
    assert order["gpus"] == {"model": "h100", "memory_gib": 20}
    assert not act("node", name="web", **asked)["changed"]
    with pytest.raises(UsageError, match="differs from the request") as caught:
        act("node", name="web", gpu_model="A100", gpu_mode="simulated")
    assert "does not have a model name that contains 'A100'" in caught.value.evidence
    with pytest.raises(UsageError, match="no GPU with at least 90 GiB of memory"):
        act("node", name="big", gpu_memory="90GiB", role="plain", gpu_mode="simulated")
    with pytest.raises(UsageError, match="'20' is not a valid amount") as caught:
        act("node", name="big", gpu_memory="20")
    assert caught.value.fix == "gpu_memory: 20GiB"


def test_a_cluster_gets_all_that_can_be_asked_of_gpus(typed: Typed) -> None:
    act("cluster", count=1, gpus_per_node=2, sharing="exclusive", gpu_model="H100", gpu_memory="20GiB")
    spec = load_spec_json(typed.world.engine.networks["gpbr0"].labels[LABEL_SPEC], cluster="lab")
    assert spec.gpus == GpuSpec(per_node=2, sharing="exclusive", model="H100", memory_gib=20)


@pytest.mark.parametrize("name", ["node", "cluster"])
def test_what_each_gpu_has_is_an_argument_of_each_module_and_documented(name: str) -> None:
    module = import_module(f"{MODULES}.{name}")
    fragment = yaml.safe_load(ModuleDocFragment.GPU_CRITERIA)["options"]
    assert "gpuprov.cluster.gpuprov.gpu_criteria" in module.DOCUMENTATION
    assert set(fragment) == {told.argument for told in CRITERIA.values()} >= {"gpu_model", "gpu_memory"}
    for argument, about in fragment.items():
        assert module.ARGUMENTS[argument] == {"type": about["type"]}


WITHOUT_GPUPROV = """
import json, sys
from ansible.module_utils import basic
sys.modules["gpuprov"] = None
basic._ANSIBLE_ARGS = json.dumps({"ANSIBLE_MODULE_ARGS": {"name": "c007", **json.loads(sys.argv[1])}}).encode()
basic._ANSIBLE_PROFILE = "legacy"
from ansible_collections.gpuprov.cluster.plugins.modules import node
node.main()
"""


@pytest.mark.parametrize("given", [{}, {"gpu_model": "H100"}])
def test_a_python_without_gpuprov_is_told_so_whatever_was_asked(given: dict[str, str]) -> None:
    argv = [sys.executable, "-c", WITHOUT_GPUPROV, json.dumps(given)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    told = json.loads(done.stdout)
    assert told["failed"]
    assert told["msg"].startswith("gpuprov is not installed for the Python that runs this module")
    assert "fix: set ansible_python_interpreter" in told["msg"]
