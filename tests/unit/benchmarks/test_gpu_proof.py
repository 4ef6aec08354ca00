"""The GPU proof without a GPU: its parts, how they are run, and the page."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pytest

from benchmarks.gpu_proof import __main__ as program
from benchmarks.gpu_proof import container, gpu_tests, host
from benchmarks.gpu_proof.gpu_tests import read_summary, run_tests
from benchmarks.gpu_proof.node import DOWN_S, UP_S, VERIFY_S, NodeImage, find_image, verify_node
from benchmarks.gpu_proof.page import proof_document, render_page
from benchmarks.gpu_proof.parts import Part, Place, count_gpus, explain_major, plan_parts
from benchmarks.gpu_proof.run import Result, run_parts
from gpuprov.cli.main import root
from gpuprov.cli.session import Session
from gpuprov.cluster.images import node_recipe
from gpuprov.cluster.services import init_of
from gpuprov.core.errors import HostNotReady, TimedOut
from gpuprov.core.execution import GRACE_S, KILLED_S, Completed
from gpuprov.drivers.base import LABEL_FINGERPRINT
from gpuprov.gpu.driver_files import read_driver_files
from gpuprov.gpu.models import MigInstance
from gpuprov.machine.local import LocalHost
from gpuprov.machine.survey import ANSWER_S
from gpuprov.roles.registry import ROLES
from gpuprov.shapes.cluster_spec import ClusterSpec
from gpuprov.shapes.verify import Check, NodeReport
from gpuprov.verify.probe import look_at_driver
from tests.fakes.doors import door_of
from tests.fakes.driver import FakeDriver
from tests.fakes.engine import FakeEngine, FakeImage
from tests.fakes.host import FakeHost
from tests.schemas import validate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpuprov.gpu.models import HostGpus

PART = Part(name="one", title="One", argv=("one",), limit_s=30.0)


def nothing(_: str) -> bool:
    return False


def anything(_: str) -> bool:
    return True


def test_a_machine_with_everything_runs_every_part() -> None:
    parts = plan_parts(Place(is_root=True, has=anything, finds=anything))
    assert [part.name for part in parts if part.lacks] == []
    assert sum(part.limit_s for part in parts) > program.BUDGET_S, "the budget, not the limits, keeps the promise"
    assert program.BUDGET_S < 8 * 60
    assert all("--simulate" not in part.argv for part in parts)


def test_each_part_that_cannot_run_says_what_it_lacks() -> None:
    parts = {part.name: part for part in plan_parts(Place(is_root=False, has=nothing, finds=nothing))}
    assert [name for name, part in parts.items() if not part.lacks] == []
    assert {parts[name].lacks for name in ("record", "host", "doctor", "watch")} == {"Python finds no msgspec"}
    assert "numba" in parts["kernels"].lacks
    assert "root" in parts["container"].lacks
    assert "engine" in parts["node"].lacks
    assert "pytest" in parts["tests"].lacks
    bare = {part.name: part for part in plan_parts(Place(has=nothing, finds=anything))}
    assert "click" in bare["node"].lacks


@pytest.mark.parametrize(
    ("packages", "driver", "told"),
    [
        ("13.5.0", "550.90.07", "for CUDA 13, which needs driver 580.65; this is 550.90.07"),
        ("13.5.0", "580.95.05", ""),
        ("12.9.1", "550.90.07", ""),
        ("", "550.90.07", ""),
        ("13.5.0", "", ""),
        ("99.0", "550.90.07", ""),
    ],
)
def test_packages_that_the_driver_cannot_run_are_told(packages: str, driver: str, told: str) -> None:
    why = explain_major(packages, driver)
    assert (told in why, bool(why)) == (True, bool(told))
    parts = plan_parts(Place(is_root=True, has=anything, finds=anything, too_new=why))
    lacking = ["kernels", "loaded", "cublas", "independent", "one-replica", "container", "tests"] if told else []
    assert [part.name for part in parts if part.lacks] == lacking


def test_the_simulator_measures_nothing_and_says_so() -> None:
    parts = {part.name: part for part in plan_parts(Place(is_root=True, has=anything, finds=anything, simulated=True))}
    assert [name for name, part in parts.items() if part.lacks] == ["loaded", "cublas", "node", "tests"]
    assert all("--simulate" in part.argv for part in parts.values() if not part.lacks)


@pytest.mark.parametrize(("gpus", "seconds", "least_s"), [(1, "10", 30), (3, "10", 90), (8, "3.75", 90)])
def test_the_kernels_of_many_gpus_fit_into_the_limits(gpus: int, seconds: str, least_s: float) -> None:
    parts = {part.name: part for part in plan_parts(Place(is_root=True, gpus=gpus, has=anything, finds=anything))}
    kernels, tests = parts["kernels"], parts["tests"]
    assert kernels.argv[kernels.argv.index("--seconds") + 1] == seconds
    assert kernels.limit_s >= least_s + 60 + 10 * (gpus - 1)
    assert kernels.limit_s < program.BUDGET_S
    assert float(tests.argv[-1]) < tests.limit_s
    assert tests.limit_s == 245 + 10 * (gpus - 1)


def test_gpus_are_counted_that_the_driver_lists_and_that_have_a_device_node(tmp_path: Path) -> None:
    assert count_gpus(tmp_path) == 1
    for number in range(4):
        (tmp_path / f"proc/driver/nvidia/gpus/0000:{number}a:00.0").mkdir(parents=True)
    assert count_gpus(tmp_path) == 4, "before the first program, /dev may have no node at all"
    (tmp_path / "dev").mkdir()
    for name in ("nvidiactl", "nvidia-uvm", "nvidia2"):
        (tmp_path / "dev" / name).touch()
    assert count_gpus(tmp_path) == 1, "a container that was given one of them"


def finished(stdout: str = "", *, exit_code: int = 0, stderr: str = "") -> Completed:
    return Completed(argv=("one",), exit_code=exit_code, stdout=stdout, stderr=stderr, seconds=1.0)


def run_one(answer: Completed | Exception, part: Part = PART, **more: Any) -> tuple[Result, list[float]]:
    limits: list[float] = []

    def execute(argv: Sequence[str], *, timeout_s: float, **_: object) -> Completed:
        assert argv == part.argv
        limits.append(timeout_s)
        if isinstance(answer, Exception):
            raise answer
        return answer

    (result,) = run_parts([part], budget_s=100.0, tell=lambda _: None, execute=execute, now_s=lambda: 0.0, **more)
    return result, limits


@pytest.mark.parametrize(
    ("answer", "status", "why"),
    [
        (finished('noise\n{"passed": true}\n'), "passed", ""),
        (finished('{"passed": false, "why": "a digest is wrong"}', exit_code=1), "failed", "a digest is wrong"),
        (finished('{"passed": true}', exit_code=1), "failed", "exit status 1"),
        (finished('{"passed": null, "why": "no image"}'), "not run", "no image"),
        (finished('{"passed": null, "why": "no log", "verdict": "unknown"}'), "unknown", "no log"),
        (finished("", exit_code=139, stderr="Segmentation fault"), "failed", "exit status 139: Segmentation fault"),
        (finished("[1]"), "failed", "no result, exit status 0: [1]"),
        (finished('{"results": []}'), "failed", "no result"),
        (TimedOut("one did not end", evidence="within 30 s", fix="x"), "failed", "one did not end: within 30 s"),
    ],
)
def test_a_part_ends_in_one_of_four_ways(answer: Completed | Exception, status: str, why: str) -> None:
    result, limits = run_one(answer)
    assert result.status == status
    assert why in result.why
    assert limits == [30.0]


def test_what_is_lacking_is_not_run() -> None:
    result, limits = run_one(finished('{"passed": true}'), replace(PART, lacks="no root"))
    assert (result.status, result.why, limits) == ("not run", "no root", [])


def run_with_budget(
    budget_s: float, parts: Sequence[Part], takes: Callable[[float], float]
) -> tuple[list[Result], dict[str, float], list[str]]:
    """Run parts that each take so many seconds, or are ended; gives the limits and what was told, too."""
    now = 0.0
    limits: dict[str, float] = {}
    told: list[str] = []

    def execute(argv: Sequence[str], *, timeout_s: float, **_: object) -> Completed:
        nonlocal now
        limits[argv[0]] = timeout_s
        wanted = takes(timeout_s)
        now += min(wanted, timeout_s)
        if wanted > timeout_s:
            raise TimedOut(f"{argv[0]} did not end", evidence=f"within {timeout_s:g} s", fix="x")
        return finished('{"passed": true}')

    results = list(run_parts(parts, budget_s=budget_s, tell=told.append, execute=execute, now_s=lambda: now))
    return results, limits, told


def parts_of(*names: str, **more: Any) -> list[Part]:
    return [replace(PART, name=name, argv=(name,), **more) for name in names]


def test_parts_share_a_budget() -> None:
    results, limits, told = run_with_budget(40.0, parts_of("first", "second", "third"), lambda _: 19.0)
    assert limits == {"first": 30.0, "second": 21.0}
    assert [result.status for result in results] == ["passed", "passed", "not run"]
    assert results[2].why == "the 40 s of this proof are spent; to run it alone: --only third"
    assert told[-1] == "third: not run: the 40 s of this proof are spent; to run it alone: --only third"


def test_a_part_fails_by_its_own_limit_only() -> None:
    results, limits, _ = run_with_budget(40.0, parts_of("first", "second"), lambda limit_s: limit_s + 1)
    assert limits == {"first": 30.0, "second": 10.0}
    assert [result.status for result in results] == ["failed", "not run"]
    assert results[1].why == "ended after 10 s: the 40 s of this proof are spent; to run it alone: --only second"


def test_a_part_is_not_started_without_the_time_that_it_needs() -> None:
    parts = [*parts_of("first"), *parts_of("whole", least_s=30.0), *parts_of("short")]
    results, limits, _ = run_with_budget(40.0, parts, lambda _: 12.0)
    assert [result.status for result in results] == ["passed", "not run", "passed"]
    assert limits == {"first": 30.0, "short": 28.0}


def test_parts_that_start_programs_of_their_own_are_never_cut_off() -> None:
    parts = plan_parts(Place(is_root=True, gpus=8, has=anything, finds=anything))
    whole = [part.name for part in parts if part.least_s == part.limit_s]
    assert whole == ["container", "node", "tests"]
    assert [part.name for part in parts][-3:] == ["doctor", "watch", "tests"]


DIGEST = {"name": "digest", "passed": True, "evidence": "a|b"}
TURING = {"name": "tensor-cores", "passed": True, "evidence": "not asked: compute capability 7.5, not 8.0"}
KERNELS: dict[str, Any] = {
    "passed": True,
    "devices": [{"uuid": "GPU-1", "name": "NVIDIA Test", "driver_version": "580.95.05"}],
    "results": [
        {
            "gpu": "GPU-1", "kernel": "matmul", "passed": True, "parameters": {"size": 4096, "batch": 3},
            "proof": {"digest": "2aa77726276af8b6", "checks": [DIGEST, TURING]},
            "rate": {"median": 41234.5, "unit": "GFLOP/s", "samples": [1.0, 2.0], "known_good": {"fraction": 1.05}},
            "seconds": {"prepare": 0.25}, "error": None,
        },
        {
            "gpu": "GPU-1", "kernel": "membw", "passed": True, "parameters": {},
            "proof": {"digest": "ab", "checks": []},
            "rate": {"median": 4300.0, "unit": "GB/s", "samples": [1.0], "known_good": None},
            "seconds": {}, "error": None,
        },
        {
            "gpu": "GPU-1", "kernel": "anneal", "passed": False, "parameters": {}, "proof": None, "rate": None,
            "seconds": {}, "error": {"what": "x"},
        },
    ],
}  # fmt: skip
CHECKS: dict[str, Any] = {
    "passed": False,
    "verdict": "fail",
    "counts": {"fail": 1},
    "checks": [{"id": "nvml-remap-pending", "status": "fail", "evidence": "GPU 0: a row", "fix": "reset it"}],
}
OTHER: dict[str, Any] = {
    "schema": "gpuprov.other/v1",
    "passed": True,
    "deep": {"list": [{"x": 7.25}, {"x": 8}], "flat": [1, 2], "none": {}},
}


def results_of(**documents: dict[str, Any] | None) -> list[Result]:
    return [
        Result(
            part=replace(PART, name=name, title=f"Part {name}"),
            status="not run" if document is None else "passed" if document["passed"] else "failed",
            why="no root" if document is None else "",
            seconds=1.25,
            document=document,
        )
        for name, document in documents.items()
    ]


def test_the_page_has_every_number_and_what_was_not_run() -> None:
    results = results_of(kernels=KERNELS, host=CHECKS, other=OTHER, container=None)
    proof = proof_document(results, simulated=False, seconds=12.34)
    assert (proof["schema"], proof["passed"], proof["simulated"]) == ("gpuprov.gpu-proof/v1", False, False)
    assert proof["not_run"] == {"container": "no root"}
    assert json.loads(json.dumps(proof)) == proof
    page = render_page(proof)
    assert "SIMULATED" not in page
    assert "**FAILED** in 12.3 s; 3 of 4 parts were run." in page
    assert "| Part container | not run | 1.2 | no root |" in page
    assert "NVIDIA Test, driver 580.95.05: GPU-1" in page
    assert "| GPU-1 | matmul | size 4096, batch 3 | 4.123e+04 | GFLOP/s | 2 | 1.05 | 2aa77726276af8b6 | yes |" in page
    assert "| GPU-1 | matmul | digest | pass | a\\|b |" in page
    assert "| GPU-1 | matmul | tensor-cores | not asked | not asked: compute capability 7.5, not 8.0 |" in page
    assert "| GPU-1 | membw |  | 4300 | GB/s | 1 | no expectation | ab | yes |" in page
    assert "| GPU-1 | anneal |  |  |  | 0 |  |  | NO |" in page
    assert "| nvml-remap-pending | fail | GPU 0: a row | reset it |" in page
    assert "| deep.list[0].x | 7.25 |" in page
    assert "| deep.flat | 1, 2 |" in page
    assert "gpuprov.other/v1" not in page


def test_a_proof_of_nothing_has_not_passed_and_the_simulator_is_named_first() -> None:
    assert not proof_document([], simulated=False, seconds=0.0)["passed"]
    assert not proof_document(results_of(one=None), simulated=False, seconds=0.0)["passed"]
    page = render_page(proof_document(results_of(other=OTHER), simulated=True, seconds=0.0))
    assert page.splitlines()[2].startswith("**SIMULATED**")
    assert "**passed**" in page


def test_both_files_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    say = "import json, sys; print(json.dumps({'passed': sys.argv[1] == 'well', 'number': 4711}))"
    parts = tuple(
        replace(PART, name=name, title=name, argv=(sys.executable, "-c", say, name)) for name in ("well", "ill")
    )
    monkeypatch.setattr(program, "plan_parts", lambda *_, **__: parts)
    out = tmp_path / "new" / "folder"
    assert program.main([str(out), "--simulate", "--only", "well"]) == 0
    assert program.main([str(out), "--simulate"]) == 1
    proof = json.loads((out / "gpu-proof.json").read_text())
    assert [part["status"] for part in proof["parts"]] == ["passed", "failed"]
    assert (out / "gpu-proof.md").read_text().count("| number | 4711 |") == 2
    with pytest.raises(SystemExit):
        program.main([str(out), "--simulate", "--only", "nope"])


def test_without_a_driver_nothing_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(program, "DRIVER", tmp_path / "absent")
    assert program.main([str(tmp_path / "out")]) == program.NO_DRIVER
    assert capsys.readouterr().err.splitlines()[0] == "error: no NVIDIA driver is loaded"
    assert not (tmp_path / "out").exists()


def test_a_toolkit_is_found_by_its_nvvm(tmp_path: Path) -> None:
    assert program.find_toolkit(tmp_path) == ""
    (tmp_path / "usr/local/cuda-13.0/nvvm/lib64").mkdir(parents=True)
    assert program.find_toolkit(tmp_path) == ""
    (tmp_path / "usr/local/cuda-13.0/nvvm/lib64/libnvvm.so.4").touch()
    assert program.find_toolkit(tmp_path) == str(tmp_path / "usr/local/cuda-13.0")


def report(**statuses: str) -> NodeReport:
    checks = tuple(
        Check(id=name, layer="nvml", status=status, severity="critical", evidence=f"{name} {status}")  # type: ignore[arg-type]
        for name, status in statuses.items()
    )
    return NodeReport(node="host", access="raw", gpus=("GPU-1",), checks=checks, duration_s=0.1)


class Clock:
    """Time passes while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 100.0

    def now_s(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


WELL, ILL, DARK = report(ecc="pass"), report(ecc="fail"), report(ecc="unknown")
AWAY = RuntimeError("NVML is gone")


@pytest.mark.parametrize(
    ("looks", "passed", "why", "changes"),
    [
        ({}, True, "", []),
        ({4: ILL}, False, "2 changes", ["fail", "pass"]),
        ({11: ILL}, False, "1 changes", ["fail"]),
        ({4: AWAY}, False, "2 changes", ["error", "ok"]),
        (dict.fromkeys(range(12), ILL), False, "the first look said fail", []),
        (dict.fromkeys(range(12), DARK), None, "the first look said unknown", []),
        ({0: DARK}, False, "1 changes", ["pass"]),
    ],
)
def test_a_watch_passes_where_all_is_well_and_nothing_changes(
    looks: dict[int, NodeReport | Exception], passed: bool | None, why: str, changes: list[str]
) -> None:
    done = 0

    def look() -> NodeReport:
        nonlocal done
        done += 1
        found = looks.get(done - 1, WELL)
        if isinstance(found, Exception):
            raise found
        return found

    seen = host.watch_for(60.0, look, clock=Clock())
    assert (seen["passed"], seen["why"], done) == (passed, why, 12)
    assert [change["after"] for change in seen["changes"]] == changes


def test_the_hosts_checks_are_those_of_verify_on_a_simulated_gpu() -> None:
    document = host.check(simulated=True)
    assert (document["passed"], document["access"]) == (True, "simulated")
    asked = {check["id"]: check["status"] for check in document["checks"]}
    assert asked["host-nvml"] == asked["nvml-ecc-uncorrected"] == asked["nvml-pcie-width"] == "pass"


def test_what_could_not_be_judged_is_told_apart_from_what_failed() -> None:
    document = host.report_document(report(log="unknown", ecc="pass", services="unknown"))
    assert (document["passed"], document["verdict"]) == (None, "unknown")
    assert document["why"] == "log, services could not be judged; log: log unknown"
    assert host.report_document(report(log="unknown", ecc="fail"))["passed"] is False
    well, dark = results_of(other=OTHER), results_of(host={**document, "passed": None})
    proof = proof_document([*well, replace(dark[0], status="unknown", why=document["why"])], simulated=False, seconds=1)
    assert proof["passed"]
    assert proof["unknown"] == {"host": document["why"]}
    page = render_page(proof)
    assert "2 of 2 parts were run, and 1 of them could not judge everything: host." in page
    assert "| log | unknown | log unknown |" in page


def test_a_machine_without_the_engines_packages_is_still_examined(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_: LocalHost, __: str) -> None:
        raise ModuleNotFoundError("No module named 'pylxd'", name="pylxd")

    monkeypatch.setattr(LocalHost, "open", missing)
    document = host.doctor()
    assert document["passed"]
    (engine,) = [finding for finding in document["doctor"]["findings"] if finding["id"] == "engine"]
    assert "pylxd" in engine["evidence"] + engine["fix"]


def test_a_record_lists_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def told(gpus: list[dict[str, str]]) -> Callable[[Path], dict[str, Any]]:
        return lambda _root: {"nvml": {"gpus": gpus}}

    monkeypatch.setattr(host, "take_record", told([{"uuid": "GPU-1"}]))
    assert host.record(simulated=False)["passed"]
    assert host.record(simulated=False)["machine"]["packages"]["numpy"]
    for gpus, why in (([], "NVML lists no GPU"), ([{"uuid": "x"}], "a UUID does not begin with GPU-")):
        monkeypatch.setattr(host, "take_record", told(gpus))
        document = host.record(simulated=False)
        assert (document["passed"], document["why"]) == (False, why)


@pytest.mark.parametrize(
    ("output", "exit_code", "passed", "counts"),
    [
        ("..s\nSKIPPED [1] x.py:3: no rate\n8 passed, 1 skipped in 60.1s", 0, True, {"passed": 8, "skipped": 1}),
        ("XFAIL x.py::y - 39e3\n8 passed, 1 xfailed in 60.1s", 0, True, {"passed": 8, "xfailed": 1}),
        ("F\nFAILED x.py::test_y - assert 1\n1 failed, 7 passed in 3s", 1, False, {"failed": 1, "passed": 7}),
        ("NOT RUN: 9 tests\n9 deselected in 0.1s", 5, False, {}),
        ("1 skipped in 0.1s", 0, False, {"skipped": 1}),
        ("", 4, False, {}),
    ],
)
def test_the_last_line_of_pytest_is_counted(output: str, exit_code: int, passed: bool, counts: dict[str, int]) -> None:
    summary = read_summary(output, exit_code=exit_code)
    assert (summary["passed"], summary["counts"]) == (passed, counts)
    assert bool(summary["why"]) != passed


def test_tests_that_take_too_long_are_told_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def late(*_: object, **options: Any) -> None:
        assert options["environment"] == {"COLUMNS": "400"}
        raise TimedOut("python did not finish within 260 s", evidence="python -m pytest tests/gpu ..F", fix="x")

    monkeypatch.setattr(gpu_tests, "run", late)
    assert run_tests(limit_s=260.0) == {
        "passed": False,
        "why": "python did not finish within 260 s: python -m pytest tests/gpu ..F",
        "counts": {},
        "said": [],
    }


IMAGE = NodeImage(engine="docker", role="plain")
UP, VERIFY, DOWN = "cluster up", "verify --cluster", "cluster down"
LATE = TimedOut("python did not end", evidence="within 60 s", fix="x")


def node_said(verdict: str, *, simulated: bool = False) -> Completed:
    node = {"verdict": verdict, "checks": [{"id": "x"}], "measured": 1}
    return finished(json.dumps({"passed": False, "simulated": simulated, "nodes": [node]}), stderr="host-xid: old")


class Typed:
    """What the part `node` types, each of which the command line must know."""

    def __init__(self, **answers: Completed | Exception) -> None:
        self.answers = {UP: finished('{"phases": {}}'), VERIFY: node_said("pass"), DOWN: finished(), **answers}
        self.asked: list[str] = []

    def __call__(self, *arguments: str, timeout_s: float) -> Completed:
        assert timeout_s > 0
        understood(arguments)
        self.asked.append(" ".join(arguments[:2]))
        answer = self.answers[self.asked[-1]]
        if isinstance(answer, Exception):
            raise answer
        return answer


def understood(argv: Sequence[str]) -> None:
    """What the command line makes of it; raises where an option is unknown."""
    command: click.Command | None = root()
    context = click.Context(root())
    while isinstance(command, click.Group):
        command, argv = command.get_command(context, argv[0]), argv[1:]
    assert command is not None
    command.make_context("gpuprov", list(argv), obj=Session())


@pytest.mark.parametrize(
    ("answers", "passed", "why"),
    [
        ({}, True, ""),
        ({VERIFY: node_said("warn")}, True, ""),
        ({VERIFY: node_said("fail")}, False, "host-xid: old"),
        ({VERIFY: node_said("unknown")}, None, "host-xid: old"),
        ({VERIFY: node_said("pass", simulated=True)}, False, "host-xid: old"),
        ({VERIFY: finished("", exit_code=70, stderr="error: a bug")}, False, "error: a bug"),
        ({VERIFY: LATE}, False, "python did not end: within 60 s"),
        ({UP: finished(exit_code=4, stderr="error: no room")}, False, "cluster up: error: no room"),
        ({UP: LATE}, False, "python did not end: within 60 s"),
        ({DOWN: finished(exit_code=1, stderr="error: busy")}, False, "may be left, with a GPU (error: busy)"),
        ({UP: LATE, DOWN: LATE}, False, "did not end: within 60 s; the cluster may be left, with a GPU (python did"),
    ],
)
def test_a_node_is_created_verified_and_always_removed(
    answers: dict[str, Completed | Exception], passed: bool | None, why: str
) -> None:
    typed = Typed(**answers)
    document = verify_node(command=typed, find=lambda: IMAGE)
    assert (document["passed"], bool(document["why"])) == (passed, bool(why))
    assert why in document["why"]
    assert typed.asked in ([UP, VERIFY, DOWN], [UP, DOWN])
    assert (document["engine"], document["role"]) == ("docker", "plain")
    assert document["checks"] == [] or VERIFY in typed.asked


def test_without_an_image_or_gpus_no_node_is_created() -> None:
    typed = Typed()
    assert verify_node(command=typed, find=lambda: None)["passed"] is None

    def refuse() -> None:
        raise HostNotReady("NVML does not work", evidence="code 999", fix="x")

    document = verify_node(command=typed, find=refuse)
    assert (document["passed"], document["why"], typed.asked) == (False, "NVML does not work: code 999", [])


def test_the_limits_of_a_node_fit_into_that_of_its_part() -> None:
    (part,) = (part for part in plan_parts(Place()) if part.name == "node")
    assert part.limit_s > UP_S + VERIFY_S + DOWN_S + 2 * (GRACE_S + KILLED_S) + ANSWER_S


def test_an_image_for_simulated_gpus_is_no_image_for_real_ones(tmp_path: Path) -> None:
    simulated = LocalHost().gpus("simulated")
    real = replace(simulated, simulated=False, driver_version="580.95.05", document=None)
    driver = FakeDriver(FakeEngine())
    made_on = FakeHost(folder=tmp_path, observe=lambda _: real, engines=(door_of(driver),))
    spec = ClusterSpec()

    def build(role: str, gpus: HostGpus) -> None:
        recipe = node_recipe(spec, ROLES[role].recipe, gpus, init=init_of(driver))
        driver.engine.images[role] = FakeImage(id=role, name=role, labels={LABEL_FINGERPRINT: recipe.fingerprint})

    build("slurm", simulated)
    assert find_image(made_on) is None
    build("plain", real)
    assert find_image(made_on) == NodeImage(engine="fake", role="plain")
    build("slurm", real)
    assert find_image(made_on) == NodeImage(engine="fake", role="slurm")


def test_the_container_has_the_first_gpu_and_no_other() -> None:
    gpus = LocalHost().gpus("simulated")
    expected = container.expect_container(gpus)
    assert expected.gpus == (gpus.gpus[0].uuid,)
    assert expected.access == "simulated"
    assert gpus.gpus[0].minor not in expected.denied
    assert set(expected.denied) >= {gpu.minor for gpu in gpus.gpus[1:]}


def test_of_a_split_gpu_the_container_has_an_instance() -> None:
    simulated = LocalHost().gpus("simulated")
    part = MigInstance(index=0, uuid="MIG-1", gpu_instance=1, compute_instance=0)
    split = replace(simulated, gpus=(replace(simulated.gpus[0], mig_enabled=True, mig=(part,)),))
    assert container.expect_container(split).gpus == ("MIG-1",)


HOSTS = Path(__file__).parents[2] / "data" / "hosts"


@pytest.mark.parametrize(
    ("name", "folder", "version"),
    [
        ("one-gpu", "/usr/lib/x86_64-linux-gnu/nvidia/current", "550.90.07"),
        ("uvm-missing", "/usr/lib64", "535.183.01"),
        ("h100-vm", "/usr/local/nvidia/lib64", "580.159.04"),
        ("h200-vm", "/usr/local/nvidia/lib64", "580.159.04"),
    ],
)
def test_the_container_finds_the_drivers_libraries_wherever_they_lie(
    name: str, folder: str, version: str, tmp_path: Path
) -> None:
    driver = read_driver_files(HOSTS / name / "root")
    assert driver is not None
    links = dict(container.driver_links(driver))
    assert links["libcuda.so.1"] == links[f"libcuda.so.{version}"] == f"{folder}/libcuda.so.{version}"
    assert "nvidia-smi" not in links
    for link in links:
        (tmp_path / link).touch()
    assert look_at_driver([str(tmp_path)])["libraries"] == {"libcuda.so": [version], "libnvidia-ml.so": [version]}


def test_a_machine_without_control_groups_runs_no_container(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(container, "_look", refuse)
    document = container.verify_container(simulated=True)
    assert document["passed"] is None
    assert "Operation not permitted" in document["why"]


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="namespaces and device rules need root")
def test_the_whole_proof_on_the_simulator(tmp_path: Path) -> None:
    assert program.main([str(tmp_path), "--simulate", "--watch", "1"]) == 0
    proof = json.loads((tmp_path / "gpu-proof.json").read_text())
    assert validate(proof) == "gpuprov.gpu-proof/v1"
    assert proof["simulated"]
    assert list(proof["not_run"]) == ["loaded", "cublas", "node", "tests"]
    parts = {part["name"]: part["document"] for part in proof["parts"]}
    asked = {check["id"]: check["status"] for check in parts["container"]["checks"]}
    assert {asked[name] for name in ("device-nodes", "device-open", "device-strangers", "device-mknod")} == {"pass"}
    assert asked["kernel-matmul"] == asked["kernel-anneal"] == asked["kernel-membw"] == "pass"
    assert [result["parameters"]["replicas"] for result in parts["one-replica"]["results"]] == [1]
    assert parts["watch"]["rounds"] == 2
