"""Every check of the host, where it fires and where it does not; and what it explains in nodes."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.cluster.expected_nodes import expect_host
from gpuprov.shapes.verify import Report
from gpuprov.verify.chain import HOST_CHAIN, judge_host
from gpuprov.verify.models import Expectation
from gpuprov.verify.report import problem_lines, summary, table_rows
from tests.fakes.chain import CHAIN, judge_node
from tests.fakes.places import NOWHERE
from tests.unit.machine.hosts import GATEWAY, NOTHING, RUNNING, SERVICES, see_host, see_real_host

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuprov.shapes.verify import Check, NodeReport
    from gpuprov.verify.models import Observation

    Build = Callable[[dict[str, Any]], tuple[Expectation, Observation]]

REAL = Expectation(node="host", status="running", access="raw", gateway=GATEWAY)
NO_DRIVER: dict[str, Any] = {"version": None, "gpus": [], "cards": {"0000:51:00.0": None}, "problem": "", "fix": ""}
DRIVER = see_real_host().facts["driver"]  # type: ignore[index]
TWO_CARDS = {"0000:51:00.0": "nvidia", "0000:52:00.0": "nvidia"}
BOTH = {"0000:51:00.0": "nvidia", "0000:53:00.0": "nvidia"}
BOTH_KNOWN = {**DRIVER["pci"], "GPU-lost": "0000:53:00.0"}
HELD: dict[str, Any] = json.loads(json.dumps(see_real_host().facts["nvml"]))  # type: ignore[index]
HELD["gpus"][0]["readings"]["processes"]["value"] = [{"pid": 4711, "here": True}, {"pid": 4712, "here": True}]
LOST_ONE = {"text": "GPU 3 at 0000:52:00.0: lost", "code": 15, "uuid": "GPU-lost"}
MISMATCH = {"failed": {"call": "nvmlInit", "text": "mismatch", "code": 18}}
BROKEN = {"wrong": ["/dev/nvidia-uvm is missing"], "right": "", "fix": ""}


def services(name: str, *, version: str | None = None, **unit: str) -> dict[str, Any]:
    """A host on which one service is not as it must be."""
    versions = {**SERVICES["versions"], **({name: version} if version else {})}
    running = [other for other in SERVICES["processes"] if other != name]
    return {**SERVICES, "units": {**SERVICES["units"], name: {**RUNNING, **unit}}, "processes": running} | {
        "versions": versions
    }


def stuck(*waiting: str, hidden: int = 0) -> dict[str, Any]:
    return {"waiting": list(waiting), "hidden": hidden, "watched_s": 30.0}


def without_manager(problem: str) -> dict[str, Any]:
    units = {"nvidia-persistenced": RUNNING}
    return {"units": units, "asked_s": 90_000.0, "processes": [], "versions": {}, "problem": problem}


MANAGER, PERSISTENCED = "nvidia-fabricmanager", "nvidia-persistenced"
RESTARTED = {"NRestarts": "7", "ActiveEnterTimestampMonotonic": "89900000000"}
CRASHING = {"NRestarts": "50", "ActiveState": "activating", "ActiveEnterTimestampMonotonic": "0"}
QUIET: dict[str, Any] = {
    "switches": [],
    "lost": [],
    "loaded_s": 5.0,
    "returned": [],
    "source": "the journal",
    "problem": "",
    "xids": [],
}
LOG_CHECKS = {"host-bus", "host-switch", "host-xid", "host-xid-jobs", "host-xid-program"}
SWITCH = "nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 30"
OFF = "NVRM: GPU 0000:52:00.0: GPU has fallen off the bus."
NO_START = "NVRM: GPU 0000:51:00.0: RmInitAdapter failed! (0x26:0x65:1477)"
NO_START_EITHER = "NVRM: RmInitAdapter failed! (0x26:0x65:1477)"


def xid(number: int, seconds: float = 6.0, *, pci: str = "0000:52:00") -> dict[str, Any]:
    text = f"NVRM: Xid (PCI:{pci}): {number}, something"
    return {**QUIET, "xids": [{"number": number, "pci": pci, "text": text, "seconds": seconds}]}


def faults(*programs: str) -> dict[str, Any]:
    """Each program had a page fault on the same GPU."""
    pci = "0000:52:00"
    rows = [
        {"number": 31, "pci": pci, "text": f"NVRM: Xid (PCI:{pci}): 31, pid={pid}, name={name}, Ch 8", "seconds": 6.0}
        for pid, name in enumerate(programs)
    ]
    return {**QUIET, "xids": rows}


def linked(*gpus: list[int], name: str = "NVIDIA H200", mig: int = 0) -> dict[str, Any]:
    """The first GPUs of the host are of this model and have these NVLinks."""
    nvml: dict[str, Any] = json.loads(json.dumps(see_real_host().facts["nvml"]))  # type: ignore[index]
    for number, links in enumerate(gpus):
        nvml["gpus"][number]["name"] = name
        nvml["gpus"][number]["readings"] |= {"nvlinks": {"value": links}, "mig_mode": {"value": [mig, mig]}}
    return nvml


def read(number: int = 0, **readings: object) -> dict[str, Any]:
    """One GPU of the host has these readings; by default the first, the one at 0000:51:00.0."""
    nvml: dict[str, Any] = json.loads(json.dumps(see_real_host().facts["nvml"]))  # type: ignore[index]
    nvml["gpus"][number]["readings"] |= readings
    return nvml


def of_old_driver() -> dict[str, Any]:
    """NVML of a driver that has no recovery actions."""
    nvml: dict[str, Any] = json.loads(json.dumps(see_real_host().facts["nvml"]))  # type: ignore[index]
    for gpu in nvml["gpus"]:
        gpu["readings"]["recovery_action"] = {"code": 3, "text": "Not Supported"}
    return nvml


FIRING: list[tuple[str, str, str, dict[str, Any]]] = [
    ("host-kernel", "fail", "older than 5.4", {"kernel": "4.18.0-553"}),
    ("host-network", "fail", GATEWAY, {"addresses": {"192.0.2.1": "eth0"}}),
    ("host-network", "unknown", "`ip`", {"addresses": None}),
    ("host-module", "fail", "there is a GPU at 0000:51:00.0", {"driver": NO_DRIVER}),
    ("host-module", "fail", "no NVIDIA GPU", {"driver": {**NO_DRIVER, "cards": {}}}),
    ("host-module", "fail", "says no version", {"driver": {**NO_DRIVER, "problem": "says no version", "fix": "dmesg"}}),
    ("host-nouveau", "fail", "0000:51:00.0 by nouveau", {"driver": {**DRIVER, "cards": {"0000:51:00.0": "nouveau"}}}),
    ("host-gpus", "fail", "0000:52:00.0 is on the PCI bus", {"driver": {**DRIVER, "cards": TWO_CARDS}}),
    ("host-gpus", "fail", "a GPU at 0000:51:00.0, but", {"driver": {**DRIVER, "cards": {"0000:52:00.0": None}}}),
    ("host-gpus", "unknown", "no response within", {"driver": {**DRIVER, "silent": "no response within 30 s"}}),
    (
        "host-libraries",
        "fail",
        "missing",
        {"libraries": {**BROKEN, "fix": "reboot"}},
    ),
    ("host-devices", "fail", "missing", {"devices": BROKEN}),
    ("host-uvm", "fail", "missing", {"uvm": BROKEN}),
    ("host-nvml", "fail", "code 18", {"nvml": MISMATCH}),
    ("host-nvml", "fail", "/proc/driver/nvidia/gpus", {"driver": {**DRIVER, "gpus": DRIVER["gpus"][:3]}}),
    (
        "host-nvml",
        "fail",
        "NVML lacks GPU-lost at 0000:53:00.0",
        {"driver": {**DRIVER, "gpus": [*DRIVER["gpus"], "GPU-lost"], "cards": BOTH, "pci": BOTH_KNOWN}},
    ),
    ("host-lost", "fail", " GPUs: GPU 3 at 0000:52:00.0: lost", {"lost": [LOST_ONE]}),
    ("host-nvml", "unknown", "pynvml", {"nvml": {"missing": "pynvml: no module"}}),
    ("host-nvml", "unknown", "45 s", {"nvml": {"unanswered": "did not respond within 45 s"}}),
    ("host-nvlink", "fail", "has all 18 NVLinks down", {"nvml": linked([1] * 18, [0] * 18)}),
    ("host-nvlink", "fail", "has 16 of 18 NVLinks", {"nvml": linked([1] * 18, [1] * 16)}),
    (
        "host-stuck",
        "fail",
        "python3 (4711) in os_acquire_mutex",
        {"stuck": stuck("python3 (4711) in os_acquire_mutex")},
    ),
    ("host-stuck", "unknown", "only root", {"stuck": stuck(hidden=2)}),
    ("host-zombies", "warn", "python3 (4711) holds GPU-", {"nvml": HELD, "zombies": {"ended": {"4711": "python3"}}}),
    ("host-fabric-manager", "fail", "is failed; 1 NVSwitches", {"services": services(MANAGER, ActiveState="failed")}),
    ("host-fabric-manager", "fail", "is inactive", {"services": services(MANAGER, ActiveState="inactive")}),
    ("host-fabric-manager", "fail", "not installed", {"services": without_manager("")}),
    (
        "host-fabric-manager",
        "unknown",
        "systemd is not running",
        {"services": without_manager("systemd is not running")},
    ),
    ("host-fabric-manager", "fail", "version 570.1.2", {"services": services(MANAGER, version="570.1.2")}),
    ("host-fabric-manager", "warn", "restart it 7 times", {"services": services(MANAGER, **RESTARTED)}),
    (
        "host-fabric-manager",
        "fail",
        "activating, restarted 50 times; 1 NVSwitches",
        {"services": services(MANAGER, **CRASHING) | {"processes": SERVICES["processes"]}},
    ),
    ("host-fabric-manager", "fail", "needs nvlsm for NVLink 5", {"nvml": linked([1] * 18, name="NVIDIA B200")}),
    ("host-services", "warn", "persistenced is failed", {"services": services(PERSISTENCED, ActiveState="failed")}),
    ("host-services", "warn", "persistenced has version 570", {"services": services(PERSISTENCED, version="570.1.2")}),
    ("host-services", "warn", "imex is inactive", {"services": services("nvidia-imex", ActiveState="inactive")}),
    ("host-services", "warn", "is activating, restarted 50", {"services": services("nvidia-imex", **CRASHING)}),
    ("host-services", "warn", "restart it 7 times", {"services": services("nvidia-dcgm", **RESTARTED)}),
    (
        "host-services",
        "warn",
        "persistenced is failed",
        {"services": services(PERSISTENCED, ActiveState="failed", UnitFileState="static")},
    ),
    ("host-xid", "fail", "): 79,", {"log": xid(79)}),
    ("host-xid", "fail", "reset the GPU: NVRM: Xid (PCI:0000:52:00): 48,", {"log": xid(48)}),
    ("host-xid", "fail", "inspect the GPU", {"log": xid(54)}),
    ("host-xid", "fail", "two boots before", {"log": {**xid(79), "returned": [[79, "0000:52:00"]]}}),
    ("host-bus", "fail", OFF, {"log": {**QUIET, "lost": [OFF]}}),
    ("host-switch", "fail", SWITCH, {"log": {**QUIET, "switches": [SWITCH]}, "nvml": of_old_driver()}),
    (
        "host-xid",
        "unknown",
        "not permitted",
        {"log": {**QUIET, "problem": "/dev/kmsg: not permitted"}},
    ),
    ("host-xid-jobs", "warn", "different jobs", {"log": faults("train", "infer")}),
    ("host-xid-program", "warn", "): 13,", {"log": xid(13)}),
    ("host-xid-program", "warn", "): 31,", {"log": xid(31)}),
    ("host-xid-program", "warn", "): 45,", {"log": xid(45)}),
]


def found(report: NodeReport) -> dict[str, Check]:
    return {check.id: check for check in report.checks}


def test_every_check_of_the_host_has_a_case_in_which_it_fires() -> None:
    assert {case[0] for case in FIRING} == {rule.id for rule in HOST_CHAIN}
    assert not {rule.id for rule in HOST_CHAIN} & {rule.id for rule in CHAIN}


def test_a_healthy_host_with_a_driver_passes_every_check() -> None:
    report = judge_host(REAL, see_real_host())
    assert {check.id: check.status for check in report.checks} == {rule.id: "pass" for rule in HOST_CHAIN}
    assert (report.verdict, report.simulated) == ("pass", False)


@pytest.mark.parametrize(("name", "status", "says", "changes"), FIRING, ids=[f"{c[0]}: {c[2]}" for c in FIRING])
def test_a_check_fires_with_its_evidence_and_a_fix(name: str, status: str, says: str, changes: dict[str, Any]) -> None:
    report = judge_host(REAL, see_real_host(**changes))
    check = found(report)[name]
    assert (check.status, says in check.evidence) == (status, True)
    assert check.fix
    others = {other.id for other in report.checks if other.status in ("fail", "unknown", "warn")} - {name}
    assert others <= (LOG_CHECKS if status == "unknown" else set())
    assert report.verdict == {"fail": "fail", "unknown": "unknown", "warn": "warn"}[status]


def test_a_program_is_not_blamed_on_the_gpu_and_the_other_way_round() -> None:
    assert found(judge_host(REAL, see_real_host(log=xid(13))))["host-xid"].status == "pass"
    assert found(judge_host(REAL, see_real_host(log=xid(79))))["host-xid-program"].status == "pass"


def test_the_links_of_a_switch_that_failed_are_no_second_failure() -> None:
    for number, status in ((74, "pass"), (145, "pass"), (48, "fail")):
        checks = found(judge_host(REAL, see_real_host(log={**xid(number), "switches": [SWITCH]}, nvml=of_old_driver())))
        assert (checks["host-switch"].status, checks["host-xid"].status) == ("fail", status), number


@pytest.mark.parametrize(
    "nvml",
    [
        linked([1] * 18, [1] * 18),
        linked([0] * 18, [0] * 18),  # as in a virtual machine with GPUs of several boards
        linked([1] * 18, [0] * 18, mig=1),
        linked([1] * 4, [0] * 4, name="NVIDIA A100-PCIE-40GB"),  # the one has a bridge
        linked([1] * 18, [1, 0] * 9),  # told of that GPU itself
    ],
)
def test_links_that_differ_for_a_reason_are_no_failure(nvml: dict[str, Any]) -> None:
    assert found(judge_host(REAL, see_real_host(nvml=nvml)))["host-nvlink"].status in ("pass", "skip")


def test_a_subnet_manager_is_missed_on_boards_of_nvlink_5_alone() -> None:
    with_both = {**SERVICES, "processes": [*SERVICES["processes"], "nvlsm"]}
    for name, services_seen in (("NVIDIA B200", with_both), ("NVIDIA GB200", SERVICES), ("NVIDIA H200", SERVICES)):
        seen = see_real_host(nvml=linked([1] * 18, name=name), services=services_seen)
        assert found(judge_host(REAL, seen))["host-fabric-manager"].status == "pass", name


def test_what_asks_for_nothing_or_was_cured_is_no_failure() -> None:
    for log in (xid(63), xid(43), xid(95, 4.0), {**xid(154), "xids": []}):
        assert judge_host(REAL, see_real_host(log=log)).verdict == "pass"


def without_switches(services: dict[str, Any], *, state: int) -> Observation:
    """A host with no NVSwitch on the PCI bus; NVML tells the state of its GPUs in a fabric."""
    seen = see_real_host(driver={**DRIVER, "switches": []}, services=services)
    for gpu in seen.facts["nvml"]["gpus"]:  # type: ignore[index]
        gpu["readings"]["fabric"] = {"value": {"state": state, "status": 0, "health": 0}}
    return seen


def test_services_that_nothing_needs_may_be_down() -> None:
    no_systemd = {"units": {}, "asked_s": 9.0, "processes": [], "versions": {}, "problem": "systemd is not running"}
    for name, changes in (
        ("host-fabric-manager", services(MANAGER, ActiveState="failed")),  # of an image for all kinds of machines
        ("host-fabric-manager", without_manager("")),
        ("host-services", services("nvidia-dcgm", ActiveState="inactive", UnitFileState="disabled")),
        ("host-services", services(PERSISTENCED, ActiveState="inactive", UnitFileState="static")),
        ("host-services", services("nvidia-imex", ActiveState="activating")),
        ("host-services", services("nvidia-dcgm", NRestarts="7")),  # in steady use ever since
        ("host-services", no_systemd),
    ):
        assert found(judge_host(REAL, without_switches(changes, state=0)))[name].status in ("pass", "skip"), name


def test_restarts_of_long_ago_are_no_warning() -> None:
    seen = see_real_host(services=services(MANAGER, NRestarts="7"))
    assert found(judge_host(REAL, seen))["host-fabric-manager"].status == "pass"


@pytest.mark.parametrize(
    ("restarts", "active_s", "status"),
    [("2", 60.0, "pass"), ("3", 60.0, "warn"), ("3", 3599.0, "warn"), ("3", 3600.0, "pass")],
)
def test_three_restarts_of_which_the_last_is_of_this_hour_are_told(restarts: str, active_s: float, status: str) -> None:
    since = str(int((SERVICES["asked_s"] - active_s) * 1e6))
    restarted = services(MANAGER, NRestarts=restarts, ActiveEnterTimestampMonotonic=since)
    assert found(judge_host(REAL, see_real_host(services=restarted)))["host-fabric-manager"].status == status


@pytest.mark.parametrize(("restarts", "status"), [("2", "pass"), ("3", "fail")])
def test_a_service_that_systemd_starts_for_the_fourth_time_does_not_come_up(restarts: str, status: str) -> None:
    starting = services(MANAGER, **{**CRASHING, "NRestarts": restarts}) | {"processes": SERVICES["processes"]}
    assert found(judge_host(REAL, see_real_host(services=starting)))["host-fabric-manager"].status == status


def test_a_service_that_is_starting_is_not_told_as_active() -> None:
    seen = see_real_host(services=services("nvidia-imex", ActiveState="activating"))
    check = found(judge_host(REAL, seen))["host-services"]
    assert (check.status, "nvidia-imex is activating" in check.evidence) == ("pass", True)


def test_without_switches_on_the_bus_a_fabric_tells_that_its_manager_is_missed() -> None:
    seen = without_switches(services(MANAGER, ActiveState="failed"), state=3)
    assert found(judge_host(REAL, seen))["host-fabric-manager"].status == "warn"


def test_a_gpu_that_was_left_out_on_purpose_or_given_to_a_guest_is_not_missed() -> None:
    for changes in ({"excluded": ["0000:52:00.0"]}, {"cards": {**TWO_CARDS, "0000:52:00.0": "vfio-pci"}}):
        seen = see_real_host(driver={**DRIVER, "cards": TWO_CARDS, **changes})
        assert found(judge_host(REAL, seen))["host-gpus"].status == "pass"


def test_a_gpu_that_no_place_lists_any_more_is_missed_by_what_its_nodes_were_created_with() -> None:
    """Gone from the bus, the driver and NVML alike; no node holds it."""
    seen = see_real_host()
    known = len(DRIVER["pci"])
    nodes = [replace(REAL, node="c000"), replace(REAL, node="c001", host_gpus=known + 1)]
    check = found(judge_host(expect_host(nodes, seen, name="here", gateway=GATEWAY), seen))["host-gpus"]
    assert check.status == "fail"
    assert f"this host had {known + 1} when its nodes were created" in check.evidence
    assert str(check.fix).startswith("sudo reboot")
    for count in (0, known):
        assert found(judge_host(replace(REAL, host_gpus=count), seen))["host-gpus"].status == "pass"
    taken = see_real_host(driver={**DRIVER, "cards": {**DRIVER["cards"], "0000:52:00.0": "vfio-pci"}})
    assert found(judge_host(replace(REAL, host_gpus=known + 1), taken))["host-gpus"].status == "pass"
    assert found(judge_host(replace(REAL, host_gpus=known + 2), taken))["host-gpus"].status == "fail", "hides no other"


def test_nvml_is_asked_whether_a_gpu_has_recovered() -> None:
    log = xid(95, pci="0000:51:00")
    cured = see_real_host(log=log)
    assert judge_host(REAL, cured).verdict == "pass"  # by NVML that GPU needs no recovery
    nvml = json.loads(json.dumps(cured.facts["nvml"]))  # type: ignore[index]
    nvml["gpus"][0]["readings"]["recovery_action"] = {"code": 3, "text": "not supported"}
    assert judge_host(REAL, see_real_host(log=log, nvml=nvml)).verdict == "fail"


LOST = {"code": 15, "text": "GPU is lost"}


@pytest.mark.parametrize(
    ("line", "nvml", "status"),
    [
        (NO_START, read(), "pass"),
        (NO_START, of_old_driver(), "pass"),
        (NO_START, read(recovery_action={"value": 1}), "fail"),
        (NO_START, read(recovery_action=LOST), "fail"),
        (NO_START, read(temperature_c=LOST), "fail"),
        (NO_START, {"missing": "pynvml: no module"}, "fail"),
        (NO_START_EITHER, read(), "pass"),
        (NO_START_EITHER, read(recovery_action=LOST), "fail"),
        (OFF, read(), "fail"),  # of a GPU that NVML does not list
    ],
)
def test_a_gpu_that_responds_again_is_not_lost(line: str, nvml: dict[str, Any], status: str) -> None:
    seen = see_real_host(log={**QUIET, "lost": [line]}, nvml=nvml)
    check = found(judge_host(REAL, seen))["host-bus"]
    assert check.status == status
    assert ("no longer" in check.evidence) == (status == "pass")


@pytest.mark.parametrize(
    ("nvml", "status"),
    [
        (read(), "pass"),
        (of_old_driver(), "fail"),
        ({"missing": "pynvml: no module"}, "fail"),
        (read(3, fabric={"value": {"state": 2, "status": 0, "health": 0}}), "fail"),
        (read(3, fabric={"value": {"state": 3, "status": 1, "health": 0}}), "fail"),
        (read(3, fabric={"value": {"state": 3, "status": 0, "health": 1}}), "fail"),
        (read(3, nvlinks={"value": [1] * 17 + [0]}), "fail"),
        (read(3, nvlinks={"code": 3, "text": "Not Supported"}), "fail"),
        (read(3, recovery_action={"value": 1}), "fail"),
    ],
)
def test_an_error_of_a_switch_is_over_when_all_gpus_are_well_in_its_fabric(nvml: dict[str, Any], status: str) -> None:
    seen = see_real_host(log={**QUIET, "switches": [SWITCH]}, nvml=nvml)
    assert found(judge_host(REAL, seen))["host-switch"].status == status


def test_a_driver_that_does_not_report_recoveries_is_told() -> None:
    says = "this driver does not report whether a reset has cured it"
    reset, recovery = xid(95), {"number": 154, "pci": "0000:52:00", "text": "to 0x1 (PF FLR)", "seconds": 7.0}
    for log, nvml, told in (
        (reset, of_old_driver(), True),
        (reset, read(), False),
        (reset, {"missing": "pynvml: no module"}, False),
        ({**reset, "xids": [*reset["xids"], recovery]}, of_old_driver(), False),
        (xid(79), of_old_driver(), False),
    ):
        check = found(judge_host(REAL, see_real_host(log=log, nvml=nvml)))["host-xid"]
        assert (check.status, says in check.evidence) == ("fail", told)


def test_the_fix_follows_what_the_error_asks_for() -> None:
    judged = {number: found(judge_host(REAL, see_real_host(log=xid(number))))["host-xid"] for number in (95, 79, 54)}
    fixes = {number: str(check.fix) for number, check in judged.items()}
    assert fixes[95].startswith("sudo nvidia-smi --gpu-reset -i 0000:52:00")
    assert fixes[79].startswith("sudo reboot")
    assert fixes[54].startswith("gpuprov explain xid-54")


A100 = "NVIDIA A100-SXM4-80GB"


@pytest.mark.parametrize(
    ("number", "model", "mig", "asks"),
    [
        (64, A100, 0, "reboot the host"),
        (64, A100, 1, "reboot the host"),
        (95, A100, 0, "reboot the host"),
        (95, A100, 1, "reset the GPU"),
        (48, A100, 0, "reset the GPU"),
        (64, "NVIDIA H200", 0, "reset the GPU"),
        (95, "NVIDIA H200", 0, "reset the GPU"),
    ],
)
def test_what_an_a100_asks_for_where_others_need_a_reset(number: int, model: str, mig: int, asks: str) -> None:
    nvml = linked([1] * 12, name=model, mig=mig)
    nvml["gpus"][0]["readings"]["recovery_action"] = {"code": 3, "text": "Not Supported"}
    check = found(judge_host(REAL, see_real_host(log=xid(number, pci="0000:51:00"), nvml=nvml)))["host-xid"]
    assert check.evidence.startswith(asks)
    fix = "sudo reboot" if "reboot" in asks else "sudo nvidia-smi --gpu-reset -i 0000:51:00"
    assert str(check.fix).startswith(fix)


def test_how_often_an_error_was_reported_is_told() -> None:
    for count, words in ((1, "48, something"), (2, "48, something (2 times)")):
        log = {**QUIET, "xids": xid(48)["xids"] * count}
        evidence = found(judge_host(REAL, see_real_host(log=log)))["host-xid"].evidence
        assert evidence == f"reset the GPU: NVRM: Xid (PCI:0000:52:00): {words}"


def test_an_error_that_reboots_did_not_cure_asks_for_a_person() -> None:
    log = {**xid(79), "returned": [(79, "0000:52:00")]}
    check = found(judge_host(REAL, see_real_host(log=log)))["host-xid"]
    assert check.evidence.startswith("inspect the GPU: ")
    assert str(check.fix).startswith("gpuprov explain xid-79")
    other = {**xid(79), "returned": [(79, "0000:51:00"), (95, "0000:52:00")]}
    assert str(found(judge_host(REAL, see_real_host(log=other)))["host-xid"].fix).startswith("sudo reboot")


def test_a_simulated_host_never_reads_like_real_hardware() -> None:
    from gpuprov.gpu.observe import observe

    document = observe(root=NOWHERE, mode="simulated").document
    seen = see_host(document)
    node = Expectation(node="c000", status="running", access="simulated", gpus=(document["gpus"][0]["uuid"],))  # type: ignore[index]
    expected = expect_host([node], seen, name="here", gateway=GATEWAY)
    assert len(expected.gpus) == 3
    report = judge_host(expected, seen)
    assert (report.verdict, report.simulated) == ("pass", True)
    gpu_checks = [check for check in report.checks if check.layer in ("driver", "devices", "nvml")]
    assert all("SIMULATED" in check.evidence or check.status == "skip" for check in gpu_checks)
    assert "SIMULATED" in table_rows(Report(cluster="lab", nodes=(report,), duration_s=1.0))[0][1]


def test_a_host_without_gpus_passes_by_what_can_be_asked() -> None:
    expected = expect_host([Expectation(node="c000", status="running")], see_host(None), name="here", gateway=GATEWAY)
    report = judge_host(expected, see_host(None))
    assert (expected.access, report.verdict) == ("none", "pass")
    assert {check.id for check in report.checks if check.status == "pass"} == {"host-kernel", "host-network"}


def test_a_card_without_driver_is_named_where_gpus_are_simulated() -> None:
    seen = see_host(None, driver=NO_DRIVER | {"cards": {"0000:51:00.0": "nouveau"}})
    report = judge_host(replace(REAL, access="simulated"), seen)
    assert "0000:51:00.0" in found(report)["host-module"].evidence
    assert found(report)["host-nouveau"].status == "warn"


def test_gpus_that_no_running_node_holds_are_asked_about_on_the_host() -> None:
    seen = see_real_host()
    uuids = tuple(gpu["uuid"] for gpu in seen.facts["nvml"]["gpus"])  # type: ignore[index]
    nodes = [
        Expectation(node="c000", status="running", access="raw", gpus=uuids[:1]),
        Expectation(node="c001", status="stopped", access="raw", gpus=uuids[1:2]),
    ]
    expected = expect_host(nodes, seen, name="here", gateway=None)
    assert expected.gpus == uuids[1:]
    seen.facts["nvml"]["gpus"][0]["readings"]["recovery_action"] = {"value": 2}  # type: ignore[index]
    assert found(judge_host(expected, seen))["nvml-recovery"].status == "pass"
    seen.facts["nvml"]["gpus"][1]["readings"]["recovery_action"] = {"value": 2}  # type: ignore[index]
    check = found(judge_host(expected, seen))["nvml-recovery"]
    assert (check.status, "GPU 1: " in check.evidence, str(check.fix).startswith("reboot")) == ("fail", True, True)
    assert not [c for c in judge_host(replace(expected, gpus=()), seen).checks if c.id == "nvml-recovery"]


@pytest.mark.parametrize(
    ("changes", "cause", "skipped"),
    [
        ({"driver": NO_DRIVER}, "host-module", {"node-lease", "driver-module", "kernels-run"}),
        ({"libraries": BROKEN}, "host-libraries", {"driver-libraries", "kernel-matmul"}),
        ({"uvm": BROKEN}, "host-uvm", {"node-lease", "cuda-init", "kernel-membw"}),
        (
            {"nvml": {"failed": {"call": "nvmlInit", "text": "x", "code": 18}}},
            "host-nvml",
            {"nvml-answers", "kernels-run"},
        ),
        ({"addresses": {}}, "host-network", {"network-gateway", "slurm-state", "slurm-job"}),
    ],
)
def test_what_the_host_explains_is_no_second_failure(
    changes: dict[str, Any], cause: str, skipped: set[str], build_case: Build
) -> None:
    host = judge_host(REAL, see_real_host(**changes))
    broken = {"facts": {"driver.version": None, "cuda.code": 999, "network.eth0.reached": []}, "base": "real"}
    node = judge_node(*build_case(broken if cause != "host-network" else {"base": "real"}), host=host)
    checks = found(node)
    assert {(checks[name].status, checks[name].cause) for name in skipped} == {("skip", cause)}
    assert node.verdict in ("unknown", "fail")
    if cause in ("host-module", "host-network"):
        assert not [check.id for check in node.checks if check.status == "fail"] or cause == "host-module"
    report = Report(cluster="lab", nodes=(node,), duration_s=1.0, host=host)
    assert report.verdict == "fail"
    assert problem_lines(report)[0].startswith("host: ")
    assert "host: fail" in summary(report)


@pytest.mark.parametrize("access", ["none", "simulated"])
def test_a_node_without_a_real_gpu_does_not_lean_on_the_driver(access: str, build_case: Build) -> None:
    host = judge_host(REAL, see_real_host(driver=NO_DRIVER))
    expected, seen = build_case({"base": "simulated"})
    if access == "none":
        expected = replace(expected, access="none", gpus=(), devices=(), simulation=None, role="plain")
    assert judge_node(expected, seen, host=host).verdict == "pass"


@pytest.mark.parametrize(
    "part", ["driver", "libraries", "devices", "uvm", "nvml", "stuck", "zombies", "services", "log", "addresses"]
)
@pytest.mark.parametrize("nonsense", [3, "x", [1], {"a": 1}])
def test_a_look_that_makes_no_sense_never_passes(part: str, nonsense: object) -> None:
    assert judge_host(REAL, see_real_host(**{part: nonsense})).verdict in ("fail", "unknown")


def test_nothing_compared_is_nothing_wrong() -> None:
    assert NOTHING["wrong"] == []
