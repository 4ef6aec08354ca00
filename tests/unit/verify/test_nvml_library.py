"""The probe asks a real shared library here, through pynvml and in a process of its own, as in a node with a GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sysconfig
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.gpu.kernel_log import parse_log
from gpuprov.machine import look as host_look
from gpuprov.verify.chain import judge_host
from gpuprov.verify.checks.driver import facts_of
from gpuprov.verify.models import Expectation
from tests.fakes.chain import judge_node
from tests.fakes.forked_programs import ForkedPrograms
from tests.unit.gpu.conftest import RecordedHost
from tests.unit.machine.hosts import see_real_host

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpuprov.shapes.verify import Check
    from gpuprov.verify.models import Observation

    Build = Callable[[dict[str, Any]], tuple[Expectation, Observation]]

STUB = Path(__file__).parents[2] / "native" / "nvml_stub.c"
GPUS = tuple(f"GPU-57ab57ab-0000-4000-8000-{number:012d}" for number in range(2))
PLACES = ("0000:41:00.0", "0000:42:00.0")
MANAGER = "nvidia-fabricmanager"
ASK = "tests.native.ask_nvml"


class Library:
    """libnvidia-ml.so.1 in a folder, and processes that load it when they are asked."""

    def __init__(self, folder: Path, python: str) -> None:
        self.folder = folder
        env = {"LD_LIBRARY_PATH": str(folder), "PYTHONPATH": sysconfig.get_path("purelib")}
        self._programs = ForkedPrograms(python, folder, imported=["gpuprov.verify.probe", "pynvml"], env=env)

    def ask(self, **faults: str) -> dict[str, Any]:
        """What the probe says in a process of its own."""
        done = self._programs.run([ASK], env={**os.environ, **faults}, stdin=b"", limit_s=60)
        assert done.returncode == 0, done.stderr.decode()
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    def finish(self) -> None:
        """No process stays."""
        self._programs.finish()


def compile_stub(folder: Path, *flags: str) -> Path:
    library = folder / "libnvidia-ml.so.1"
    command = ["gcc", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", *flags, "-o", str(library), str(STUB)]
    subprocess.run([*command, "-Wl,-soname,libnvidia-ml.so.1"], check=True, timeout=60)
    return folder


@pytest.fixture(scope="module")
def library(bare_python: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    made = Library(compile_stub(tmp_path_factory.mktemp("nvml")), bare_python)
    yield made
    made.finish()


@pytest.fixture(scope="module")
def older_library(bare_python: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    made = Library(compile_stub(tmp_path_factory.mktemp("older"), "-DBEFORE_R535"), bare_python)
    yield made
    made.finish()


def judge(build_case: Build, facts: dict[str, Any]) -> dict[str, Check]:
    """The checks of an otherwise healthy node with real GPUs, by id."""
    changes = {"nvml": facts["nvml"], "samples": facts["samples"]}
    document: dict[str, Any] = {"device.visible": list(GPUS)}
    for number, uuid in enumerate(GPUS):
        document[f"devices.{number}.uuid"] = uuid
        document |= {f"results.{3 * number + kernel}.gpu": uuid for kernel in range(3)}
    expected, seen = build_case({"base": "real", "facts": changes, "document": document})
    return {check.id: check for check in judge_node(replace(expected, gpus=GPUS), seen, "full").checks}


def problems(checks: dict[str, Check]) -> dict[str, str]:
    found = (check for check in checks.values() if check.layer == "nvml" or check.id.startswith("load-"))
    return {check.id: check.status for check in found if check.status not in ("pass", "skip")}


def test_a_healthy_library_has_no_problem(library: Library, build_case: Build) -> None:
    checks = judge(build_case, library.ask())
    assert problems(checks) == {}
    passed = {check_id for check_id, check in checks.items() if check.layer == "nvml" and check.status == "pass"}
    assert {"nvml-responds", "nvml-uuids", "nvml-ecc-uncorrected", "nvml-remap-pending", "nvml-recovery"} <= passed
    assert {"nvml-clocks-hardware", "nvml-p2p", "nvml-processes", "load-xid"} <= passed


@pytest.mark.parametrize("code", [9, 18, 999])
def test_init_that_fails_is_the_one_failure(library: Library, build_case: Build, code: int) -> None:
    checks = judge(build_case, library.ask(STUB_INIT=str(code)))
    assert problems(checks) == {"nvml-answers": "fail"}
    assert f"(code {code})" in checks["nvml-answers"].evidence
    assert checks["nvml-recovery"].cause == checks["load-xid"].cause == "nvml-answers"


def test_a_missing_library_is_a_failure(tmp_path: Path, bare_python: str, build_case: Build) -> None:
    # An empty file of that name is what a broken driver package leaves; without it a GPU host would load its own.
    (tmp_path / "libnvidia-ml.so.1").write_text("")
    broken = Library(tmp_path, bare_python)
    checks = judge(build_case, broken.ask())
    broken.finish()
    assert problems(checks) == {"nvml-answers": "fail"}
    assert "(code 12)" in checks["nvml-answers"].evidence
    assert checks["nvml-answers"].severity == "critical"


@pytest.mark.parametrize(
    ("faults", "found", "says"),
    [
        ({"STUB_LOST": "1"}, {"nvml-responds": "fail"}, "GPU 1: ecc_mode: GPU is lost (code 15)"),
        ({"STUB_COUNT": "1"}, {"nvml-uuids": "fail"}, f"missing: {GPUS[1]}"),
        ({"STUB_COUNT": "3"}, {"nvml-uuids": "fail"}, "not held: GPU-57ab57ab-0000-4000-8000-000000000002"),
        ({"STUB_COUNT": "0"}, {"nvml-uuids": "fail"}, "missing: GPU-57ab57ab"),
        ({"STUB_UUID": "GPU-another"}, {"nvml-uuids": "fail"}, "not held: GPU-another"),
        ({"STUB_ECC": "3"}, {"nvml-ecc-uncorrected": "fail"}, "GPU 0: 3 uncorrected"),
        ({"STUB_ECC_CORRECTED": "5"}, {"nvml-ecc-corrected": "warn"}, "GPU 0: 5 corrected"),
        ({"STUB_REMAP_PENDING": "1"}, {"nvml-remap-pending": "fail"}, "GPU 0: a row remapping is pending"),
        ({"STUB_REMAP_FAILURE": "1"}, {"nvml-remap-failure": "fail"}, "GPU 0: a row remapping failed"),
        ({"STUB_RECOVERY": "2"}, {"nvml-recovery": "fail"}, "reboot the host"),
        ({"STUB_INFOROM": "14"}, {"nvml-inforom": "fail"}, "(code 14)"),
        ({"STUB_WIDTH": "4"}, {"nvml-pcie-width": "fail"}, "GPU 0: PCIe x4 of x16"),
        ({"STUB_NVLINKS": "18", "STUB_NVLINKS_DOWN": "2"}, {"nvml-nvlink": "fail"}, "GPU 0: NVLink 0, 1 of 18 down"),
        ({"STUB_NVLINKS": "36", "STUB_NVLINKS_DOWN": "1"}, {"nvml-nvlink": "fail"}, "GPU 0: NVLink 0 of 36 down"),
        ({"STUB_FABRIC": "2"}, {"nvml-fabric": "fail"}, "GPU 0, 1: fabric in progress"),
        (
            {"STUB_FABRIC": "3", "STUB_FABRIC_HEALTH": "425"},
            {"nvml-fabric": "fail"},
            "bandwidth degraded",
        ),
        ({"STUB_XID": "79"}, {"load-xid": "fail"}, f"Xid 79 of {GPUS[0]}"),
        ({"STUB_XID": "31"}, {"load-xid-program": "warn"}, f"Xid 31 of {GPUS[0]}"),
    ],
)
def test_a_fault_is_found_and_nothing_else(
    library: Library, build_case: Build, faults: dict[str, str], found: dict[str, str], says: str
) -> None:
    checks = judge(build_case, library.ask(**faults))
    assert problems(checks) == found
    assert says in checks[next(iter(found))].evidence


def judge_on_host(facts: dict[str, Any], check_id: str, *log: str, **changes: object) -> Check:
    """One check of an otherwise healthy host with these GPUs, whose kernel's log has these lines."""
    driver = {**facts_of(see_real_host(), "driver"), "gpus": list(GPUS), "pci": dict(zip(GPUS, PLACES, strict=True))}
    said = asdict(parse_log("\n".join(log), source="the journal"))
    host = {"driver": driver, "log": said, "zombies": {"ended": {"4711": "python3"}}, **changes}
    seen = see_real_host(nvml=facts["nvml"], **host)
    report = judge_host(Expectation(node="host", status="running", access="raw"), seen)
    return next(check for check in report.checks if check.id == check_id)


@pytest.mark.parametrize(
    ("model", "down", "status"),
    [("NVIDIA H200", "18", "fail"), ("NVIDIA H200", "0", "pass"), ("NVIDIA H100 PCIe", "18", "skip")],
)
def test_a_gpu_that_has_lost_the_links_that_its_peers_have(
    library: Library, model: str, down: str, status: str
) -> None:
    facts = library.ask(STUB_MODEL=model, STUB_NVLINKS="18", STUB_NVLINKS_DOWN=down)
    check = judge_on_host(facts, "host-nvlink")
    assert check.status == status
    assert (f"{GPUS[0]} has all 18 NVLinks down" in check.evidence) == (status == "fail")


@pytest.mark.parametrize(("pid", "status"), [("4711", "warn"), ("4712", "pass")])
def test_a_process_that_holds_a_gpu_and_has_ended_is_told_on_the_host(library: Library, pid: str, status: str) -> None:
    check = judge_on_host(library.ask(STUB_PROCESS=pid), "host-zombies")
    assert check.status == status
    assert (f"python3 (4711) holds {GPUS[0]}" in check.evidence) == (status == "warn")


@pytest.mark.parametrize(
    ("check_id", "line", "faults", "status"),
    [
        ("host-nvml", "", {}, "pass"),
        ("host-nvml", "", {"STUB_COUNT": "1"}, "fail"),
        ("host-xid", "Xid (PCI:0000:41:00): 95, x", {}, "pass"),
        ("host-xid", "Xid (PCI:0000:41:00): 95, x", {"STUB_RECOVERY": "1"}, "fail"),
        ("host-xid", "Xid (PCI:0000:41:00): 79, x", {}, "fail"),
        ("host-bus", "GPU 0000:42:00.0: GPU has fallen off the bus.", {}, "pass"),
        ("host-bus", "GPU 0000:42:00.0: GPU has fallen off the bus.", {"STUB_LOST": "1"}, "fail"),
    ],
)
def test_what_the_kernel_s_log_says_is_compared_with_what_the_library_says_now(
    library: Library, check_id: str, line: str, faults: dict[str, str], status: str
) -> None:
    assert judge_on_host(library.ask(**faults), check_id, f"[    9.1] kernel: NVRM: {line}").status == status


IN_FABRIC = {"STUB_NVLINKS": "18", "STUB_FABRIC": "3"}


@pytest.mark.parametrize(
    ("faults", "status"),
    [
        (IN_FABRIC, "pass"),
        ({**IN_FABRIC, "STUB_FABRIC_HEALTH": "425"}, "fail"),
        ({**IN_FABRIC, "STUB_NVLINKS_DOWN": "1"}, "fail"),
        ({**IN_FABRIC, "STUB_RECOVERY": "1"}, "fail"),
        ({"STUB_NVLINKS": "18"}, "fail"),
    ],
)
def test_an_error_of_a_switch_is_over_where_the_library_says_so_of_every_gpu(
    library: Library, faults: dict[str, str], status: str
) -> None:
    line = "[    9.1] kernel: nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 30"
    assert judge_on_host(library.ask(**faults), "host-switch", line).status == status


@pytest.mark.parametrize(
    ("faults", "switches", "status"),
    [
        ({"STUB_FABRIC": "3"}, [], "warn"),  # the manager of a fabric that GPUs are part of is not there
        ({}, [], "skip"),
        ({"STUB_MODEL": "NVIDIA B200"}, ["0000:05:00.0"], "fail"),  # the manager is there, that of its subnet is not
        ({"STUB_MODEL": "NVIDIA H200"}, ["0000:05:00.0"], "pass"),
    ],
)
def test_the_library_tells_which_managers_a_fabric_needs(
    library: Library, faults: dict[str, str], switches: list[str], status: str
) -> None:
    services = facts_of(see_real_host(), "services")
    if not switches:
        units = {**services["units"], MANAGER: {**services["units"][MANAGER], "ActiveState": "inactive"}}
        services = {**services, "units": units, "processes": []}
    driver = {**facts_of(see_real_host(), "driver"), "gpus": list(GPUS), "switches": switches}
    facts = library.ask(**faults)
    assert judge_on_host(facts, "host-fabric-manager", services=services, driver=driver).status == status


def test_links_that_are_up_and_a_fabric_that_was_joined_are_no_problem(library: Library, build_case: Build) -> None:
    checks = judge(build_case, library.ask(STUB_NVLINKS="18", STUB_FABRIC="3"))
    assert problems(checks) == {}
    assert (checks["nvml-nvlink"].status, checks["nvml-fabric"].status) == ("pass", "pass")


@pytest.mark.parametrize("folder", ["library", "older_library"])
def test_throttling_is_found_whatever_the_library_calls_it(
    folder: str, build_case: Build, request: pytest.FixtureRequest
) -> None:
    checks = judge(build_case, request.getfixturevalue(folder).ask(STUB_REASONS=str(0x48)))
    assert problems(checks) == {"nvml-clocks-hardware": "fail", "load-clocks-hardware": "fail"}
    assert "hardware slowdown, hardware thermal slowdown" in checks["nvml-clocks-hardware"].evidence


@pytest.mark.parametrize(("code", "status"), [(3, "skip"), (13, "skip"), (4, "unknown"), (2, "unknown")])
def test_a_question_without_an_answer(library: Library, build_case: Build, code: int, status: str) -> None:
    faults = {"STUB_FAIL": "nvmlDeviceGetRemappedRows", "STUB_FAIL_CODE": str(code)}
    checks = judge(build_case, library.ask(**faults, STUB_FAIL_GPU="1"))
    expected = "pass" if status == "skip" else status  # the other GPU has an answer
    assert checks["nvml-remap-pending"].status == expected
    checks = judge(build_case, library.ask(**faults))
    assert checks["nvml-remap-pending"].status == status
    assert f"(code {code})" in checks["nvml-remap-pending"].evidence


@pytest.mark.slow
@pytest.mark.parametrize("code", [15, 16, 999])
def test_a_question_that_shows_that_the_gpu_is_gone(library: Library, build_case: Build, code: int) -> None:
    faults = {"STUB_FAIL": "nvmlDeviceGetPersistenceMode", "STUB_FAIL_CODE": str(code), "STUB_FAIL_GPU": "1"}
    checks = judge(build_case, library.ask(**faults))
    assert problems(checks) == {"nvml-responds": "fail"}
    assert "GPU 1: persistence" in checks["nvml-responds"].evidence
    assert checks["nvml-persistence"].cause == "nvml-responds"


@pytest.mark.slow
@pytest.mark.parametrize("function", ["nvmlInitWithFlags", "nvmlDeviceGetRemappedRows"])
def test_a_driver_that_hangs_is_unknown_on_the_host_and_the_rest_is_judged(
    library: Library, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    monkeypatch.setattr(host_look, "NVML_TIMEOUT_S", 0.5)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(library.folder))
    monkeypatch.setenv("STUB_HANG", function)
    seen = host_look.look_at_host(None, root=RecordedHost("one-gpu").root, links=lambda: ())
    report = judge_host(Expectation(node="host", status="running", access="raw"), seen)
    checks = {check.id: check for check in report.checks}
    assert checks["host-nvml"].status == "unknown"
    assert "did not respond within 0.5 s" in checks["host-nvml"].evidence
    assert checks["host-module"].status == checks["host-libraries"].status == "pass"
