from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from gpuprov.core.errors import GpuprovError
from gpuprov.gpu.device_nodes import NodeStat
from gpuprov.gpu.driver_files import find_nvidia_cards
from gpuprov.gpu.nvml import read_nvml
from gpuprov.gpu.observe import observe
from gpuprov.gpu.simulate import SimulatedNvml
from gpuprov.machine.facts import EngineView, HostFacts
from gpuprov.machine.gpu_findings import judge_host_gpus
from gpuprov.shapes.base import changed
from gpuprov.shapes.engine import EngineFacts
from gpuprov.shapes.node import CharDevice

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
        ("h100-vm", SOUND),
        ("h200-vm", SOUND),
        ("mig", SOUND),
        ("uvm-missing", {"nvidia-driver": "ok", "uvm": "fail", "libraries": "ok", "gpu-access": "fail"}),
    ],
)
def test_recorded_hosts(host: str, statuses: dict[str, str]) -> None:
    findings = list(judge_host_gpus(facts_of(host)))
    assert {finding.id: finding.status for finding in findings} == statuses
    assert all(finding.fix for finding in findings if finding.status in {"warn", "fail"})


def test_simulation_is_never_silent() -> None:
    (finding,) = judge_host_gpus(facts_of("no-gpu"))
    assert "SIMULATED" in finding.evidence


def test_a_device_node_that_is_missing_or_of_an_earlier_boot_is_named() -> None:
    facts = facts_of("one-gpu")
    nodes = dict(facts.gpu_nodes)
    del nodes["/dev/nvidia0"]
    nodes["/dev/nvidia-uvm"] = NodeStat(kind="char", major=240, minor=0)
    changed = HostFacts(**{**vars(facts), "gpu_nodes": nodes})
    found = {finding.id: finding for finding in judge_host_gpus(changed)}
    assert (found["gpu-devices"].status, found["uvm"].status) == ("fail", "fail")
    assert "/dev/nvidia0" in found["gpu-devices"].evidence
    assert "-c 0" in found["gpu-devices"].fix
    assert "240:0" in found["uvm"].evidence


DOCKER = EngineFacts(
    name="docker",
    version="28.3",
    api="1.51",
    storage="/var/lib/docker (overlay2)",
    copy_on_write=True,
    cpus=2,
    memory_bytes=1 << 30,
    systemd_cgroups=True,
)


def test_a_cdi_file_of_an_earlier_driver_is_named_and_one_of_the_loaded_is_not() -> None:
    facts = facts_of("one-gpu")
    version = facts.gpus.driver_version if facts.gpus else ""
    for said, status in (("470.1.2", "warn"), (version, "ok")):
        files = {"/etc/cdi/nvidia.yaml": said}
        found = {finding.id: finding for finding in judge_host_gpus(replace(facts, cdi_versions=files))}["cdi"]
        assert (found.status, said in found.evidence) == (status, True)
        assert ("--output=/etc/cdi/nvidia.yaml" in found.fix) == (status == "warn")


def test_missing_links_matter_where_systemd_rules_over_devices() -> None:
    unlinked = (CharDevice(path="/dev/nvidia0", major=195, minor=0),)
    facts = replace(facts_of("one-gpu"), engine=EngineView(facts=DOCKER), gpu_unlinked=unlinked)
    found = {finding.id: finding for finding in judge_host_gpus(facts)}["char-links"]
    assert (found.status, "/dev/char/195:0" in found.evidence) == ("warn", True)
    assert "sudo ln -s /dev/nvidia0 /dev/char/195:0" in found.fix
    linked = {finding.id: finding.status for finding in judge_host_gpus(replace(facts, gpu_unlinked=()))}
    assert linked == {**SOUND, "char-links": "ok"}
    elsewhere = (
        replace(facts, cgroup="hybrid"),
        replace(facts, engine=EngineView(facts=changed(DOCKER, systemd_cgroups=False))),
    )
    assert all("char-links" not in {finding.id for finding in judge_host_gpus(other)} for other in elsewhere)


def test_a_lost_gpu_is_a_warning_that_names_it() -> None:
    document = json.loads((HOSTS / "eight-gpu" / "nvml.json").read_text())
    document["gpus"][3]["errors"] = {"*": 15}
    gpus = observe(root=HOSTS / "eight-gpu/root", mode="auto", read=lambda: read_nvml(SimulatedNvml(document)))
    found = next(judge_host_gpus(replace(facts_of("eight-gpu"), gpus=gpus)))
    assert (found.id, found.status) == ("nvidia-driver", "warn")
    assert "7 x NVIDIA H100" in found.evidence
    assert "1 of 8 GPUs is lost: GPU 3 at 0000:5d:00.0 (/dev/nvidia1): the handle of GPU 3" in found.evidence


def test_an_outdated_file_of_our_own_is_written_again_by_us() -> None:
    facts = replace(facts_of("one-gpu"), cdi_outdated=True, cdi_versions={"/etc/cdi/gpuprov.json": "1.0"})
    (found,) = [finding for finding in judge_host_gpus(facts) if finding.id == "cdi"]
    assert (found.status, found.fix.partition(" ")[2].partition("  ")[0]) == ("warn", "gpuprov cdi --write")
