"""What verify looks at on the host: recorded hosts, and NVML in a process that may hang or die."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.cluster.expected_nodes import expect_host
from gpuprov.core.errors import TimedOut
from gpuprov.core.execution import Completed, run
from gpuprov.gpu.observe import observe
from gpuprov.machine import look as host_look
from gpuprov.machine.look import look_at_host
from gpuprov.verify.chain import HOST_CHAIN, judge_host
from gpuprov.verify.models import Expectation
from tests.fakes.places import NOWHERE
from tests.unit.gpu.conftest import RecordedHost, hung  # noqa: F401 - a fixture
from tests.unit.machine.hosts import simulated_nvml

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpuprov.shapes.verify import NodeReport

REAL = Expectation(node="c000", status="running", access="raw", gpus=("GPU-x",))


def answering(nvml: object) -> Callable[..., Completed]:
    def execute(argv: Sequence[str], **_: Any) -> Completed:
        return Completed(argv=tuple(argv), exit_code=0, stdout=json.dumps({"nvml": nvml}), stderr="", seconds=0.1)

    return execute


def judge(name: str, monkeypatch: pytest.MonkeyPatch, *nodes: Expectation) -> NodeReport:
    host = RecordedHost(name)
    has_nvml = (host.root.parent / "nvml.json").exists()
    monkeypatch.setattr(host_look, "stat_nodes", lambda _root, _devices: host.device_stats)
    nvml = simulated_nvml(host.document) if has_nvml else {"missing": "no library"}
    seen = look_at_host(None, root=host.root, execute=answering(nvml), links=lambda: ())
    return judge_host(expect_host(nodes or [REAL], seen, name="here", gateway=None), seen)


def problems(report: NodeReport) -> dict[str, str]:
    ignored = {rule.id for rule in HOST_CHAIN if rule.fact == "log"}  # the recorded hosts have no kernel log
    return {
        check.id: check.status
        for check in report.checks
        if check.status in ("fail", "unknown") and check.id not in ignored
    }


@pytest.mark.parametrize("name", ["one-gpu", "eight-gpu", "mig"])
def test_a_recorded_healthy_host_has_no_problem(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    report = judge(name, monkeypatch)
    assert problems(report) == {}
    assert {check.id: check.status for check in report.checks}["host-nvml"] == "pass"
    assert not report.simulated


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("no-gpu", "host-module"),
        ("driver-not-loaded", "host-module"),
        ("card-without-driver", "host-module"),
        ("uvm-missing", "host-uvm"),
        ("driver-mismatch", "host-libraries"),
    ],
)
def test_a_recorded_broken_host_names_its_first_layer(name: str, first: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = problems(judge(name, monkeypatch))
    assert next(iter(found)) == first, found


def test_an_unreadable_log_is_unknown_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    checks = {check.id: check for check in judge("one-gpu", monkeypatch).checks}
    assert checks["host-xid"].status == "unknown"
    assert "/dev/kmsg" in checks["host-xid"].evidence


def test_the_simulated_nvml_is_asked_in_a_process_of_its_own() -> None:
    document = observe(root=NOWHERE, mode="simulated").document
    facts = look_at_host(document, root=Path("/nonexistent"), execute=run, links=lambda: None).facts
    assert facts is not None
    assert [gpu["uuid"] for gpu in facts["nvml"]["gpus"]] == [gpu["uuid"] for gpu in (document or {})["gpus"]]
    assert facts["addresses"] is None


def test_nvml_is_not_asked_where_there_is_none() -> None:
    def never(*_: object, **__: object) -> Completed:
        raise AssertionError

    facts = look_at_host(None, root=Path("/nonexistent"), execute=never, links=lambda: ()).facts
    assert facts is not None
    assert facts["nvml"] is None


@pytest.mark.parametrize(
    ("execute", "says"),
    [
        (lambda *_, **__: run([sys.executable, "-c", "print('?')"], timeout_s=5), "did not respond"),
        (
            lambda *_, **__: run([sys.executable, "-c", "import os; os.abort()"], timeout_s=5, check=False),
            "did not respond",
        ),
        (answering({"error": "OSError: x"}), "OSError"),
    ],
)
def test_an_nvml_that_dies_is_unknown(execute: Any, says: str) -> None:
    document = observe(root=NOWHERE, mode="simulated").document
    seen = look_at_host(document, root=Path("/nonexistent"), execute=execute, links=lambda: ())
    expected = Expectation(node="host", status="running", access="simulated")
    check = next(check for check in judge_host(expected, seen).checks if check.id == "host-nvml")
    assert check.status == "unknown"
    assert says in check.evidence
    assert "SIMULATED" in check.evidence


def test_an_nvml_that_hangs_is_unknown_after_its_time() -> None:
    def hang(*_: object, timeout_s: float, **__: Any) -> Completed:
        raise TimedOut(f"it did not finish within {timeout_s:g} s", evidence="")

    document = observe(root=NOWHERE, mode="simulated").document
    seen = look_at_host(document, root=Path("/nonexistent"), execute=hang, links=lambda: ())
    assert "45 s" in (seen.facts or {})["nvml"]["unanswered"]


def test_a_driver_that_hangs_is_unknown_and_nvml_is_not_asked(hung: Path) -> None:  # noqa: F811 - the fixture
    def never(*_: object, **__: object) -> Completed:
        raise AssertionError

    seen = look_at_host(None, root=hung, execute=never, links=lambda: ())
    assert (seen.facts or {})["nvml"] == {
        "unanswered": "/proc/driver/nvidia/gpus: no response within 0.3 s; NVML was not queried"
    }
    report = judge_host(expect_host([REAL], seen, name="here", gateway=None), seen)
    checks = {check.id: check for check in report.checks}
    assert checks["host-module"].evidence == "module 580.95.05, which does not respond"
    assert checks["host-gpus"].status == "unknown"
    assert "if a GPU hangs: reboot" in (checks["host-gpus"].fix or "")
