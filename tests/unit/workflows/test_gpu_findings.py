from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuprov.core.errors import GpuprovError
from gpuprov.gpu.driver_files import find_nvidia_cards
from gpuprov.gpu.host_nodes import NodeStat
from gpuprov.gpu.inventory import observe
from gpuprov.gpu.nvml import read_nvml
from gpuprov.gpu.simulate import SimulatedNvml
from gpuprov.workflows.gpu_findings import judge_gpus
from gpuprov.workflows.host_facts import EngineView, HostFacts

SOUND = dict.fromkeys(("nvidia-driver", "gpu-devices", "uvm", "libraries", "gpu-access"), "ok")
HOSTS = Path(__file__).parents[2] / "data" / "hosts"


def facts_of(host: str) -> HostFacts:
    folder = HOSTS / host
    devices = json.loads((folder / "dev.json").read_text()) if (folder / "dev.json").exists() else {}
    found = {path: NodeStat(kind=kind, major=major, minor=minor) for path, (kind, major, minor) in devices.items()}
    gpus, error = None, None
    try:
        gpus = observe(
            root=folder / "root",
            mode="auto",
            read=lambda: read_nvml(SimulatedNvml(json.loads((folder / "nvml.json").read_text()))),
        )
    except GpuprovError as caught:
        error = caught
    return HostFacts(
        kernel="6.1.0",
        cgroup="v2",
        uid=0,
        engine=EngineView(),
        gpus=gpus,
        gpu_error=error,
        gpu_cards=find_nvidia_cards(folder / "root"),
        gpu_nodes=found,
    )


@pytest.mark.parametrize(
    ("host", "statuses"),
    [
        ("no-gpu", {"nvidia-driver": "info"}),
        ("card-without-driver", {"nvidia-driver": "warn"}),
        ("driver-not-loaded", {"nvidia-driver": "fail"}),
        ("driver-mismatch", {"nvidia-driver": "fail"}),
        ("one-gpu", SOUND),
        ("eight-gpu", SOUND),
        ("mig", SOUND),
        ("uvm-missing", {"nvidia-driver": "ok", "uvm": "fail", "libraries": "ok", "gpu-access": "fail"}),
    ],
)
def test_recorded_hosts(host: str, statuses: dict[str, str]) -> None:
    findings = list(judge_gpus(facts_of(host)))
    assert {finding.id: finding.status for finding in findings} == statuses
    assert all(finding.fix for finding in findings if finding.status in {"warn", "fail"})


def test_simulation_is_never_silent() -> None:
    (finding,) = judge_gpus(facts_of("no-gpu"))
    assert "SIMULATED" in finding.evidence


def test_a_device_node_that_is_missing_or_of_an_earlier_boot_is_named() -> None:
    facts = facts_of("one-gpu")
    nodes = dict(facts.gpu_nodes)
    del nodes["/dev/nvidia0"]
    nodes["/dev/nvidia-uvm"] = NodeStat(kind="char", major=240, minor=0)
    changed = HostFacts(**{**vars(facts), "gpu_nodes": nodes})
    found = {finding.id: finding for finding in judge_gpus(changed)}
    assert (found["gpu-devices"].status, found["uvm"].status) == ("fail", "fail")
    assert "/dev/nvidia0" in found["gpu-devices"].evidence
    assert "-c 0" in found["gpu-devices"].fix
    assert "240:0" in found["uvm"].evidence
