from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuprov.core.errors import HostNotReady, UsageError
from gpuprov.gpu.nvml import NvmlFailed, read_nvml
from gpuprov.gpu.observe import observe
from gpuprov.gpu.simulate import SimulatedNvml

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any

    from gpuprov.gpu.nvml import NvmlReading
    from gpuprov.spec.models import GpuMode

    Recorded = Callable[[str], Any]


def never() -> NvmlReading:
    pytest.fail("NVML must not be asked here")


def failing(code: int) -> Callable[[], NvmlReading]:
    def read() -> NvmlReading:
        raise NvmlFailed(code=code, call="nvmlInit", text="recorded failure")

    return read


@pytest.mark.parametrize("name", ["no-gpu", "card-without-driver"])
def test_without_a_driver_auto_simulates_and_says_why(recorded: Recorded, name: str) -> None:
    host = recorded(name).observe(read=never)
    assert host.simulated
    assert host.driver is None
    assert "no NVIDIA driver on this host" in host.reason
    assert ("0000:01:00.0" in host.reason) == (name == "card-without-driver")
    assert len(host.gpus) == 4
    assert all(gpu.model.startswith("SIMULATED ") for gpu in host.gpus)


@pytest.mark.parametrize("name", ["no-gpu", "card-without-driver"])
def test_without_a_driver_real_refuses(recorded: Recorded, name: str) -> None:
    with pytest.raises(HostNotReady) as caught:
        recorded(name).observe("real", read=never)
    assert "/proc/driver/nvidia/version" in caught.value.evidence
    assert "--gpu-mode simulated" in caught.value.fix


@pytest.mark.parametrize("mode", ["auto", "real"])
def test_an_installed_driver_that_is_not_loaded_is_never_simulated(recorded: Recorded, mode: GpuMode) -> None:
    with pytest.raises(HostNotReady) as caught:
        recorded("driver-not-loaded").observe(mode, read=never)
    assert "installed but not loaded" in caught.value.what
    assert "modprobe nvidia" in caught.value.fix


def test_simulated_uuids_are_the_same_in_every_run(recorded: Recorded) -> None:
    host = recorded("no-gpu").observe(read=never)
    assert [gpu.uuid for gpu in host.gpus] == [f"GPU-51515151-5151-4151-8151-{n:012d}" for n in range(4)]
    assert [gpu.minor for gpu in host.gpus] == [0, 1, 2, 3]


def test_what_is_simulated_is_what_the_simulated_nvml_answers(recorded: Recorded) -> None:
    host = recorded("no-gpu").observe(read=never)
    reading = read_nvml(SimulatedNvml(host.document))
    assert reading.gpus == host.gpus
    assert reading.driver_version == host.driver_version
    assert reading.cuda_driver_version == host.cuda_driver_version


def test_beside_a_real_driver_simulated_minors_are_no_real_gpus(recorded: Recorded) -> None:
    host = recorded("eight-gpu").observe("simulated", read=never)
    assert host.simulated
    assert {gpu.minor for gpu in host.gpus}.isdisjoint(range(64))


@pytest.mark.parametrize("count", [0, -1, 65])
def test_a_senseless_number_of_simulated_gpus_is_refused(tmp_path: Path, count: int) -> None:
    with pytest.raises(UsageError, match=f"cannot simulate {count} GPUs"):
        observe(root=tmp_path, mode="auto", simulated_count=count)


@pytest.mark.parametrize(
    ("name", "version", "cuda", "capability"),
    [
        ("one-gpu", "550.90.07", 12040, (8, 9)),
        ("uvm-missing", "535.183.01", 12020, (7, 5)),
        ("h100-vm", "580.159.04", 13000, (9, 0)),
    ],
)
def test_one_gpu(recorded: Recorded, name: str, version: str, cuda: int, capability: tuple[int, int]) -> None:
    host = recorded(name).observe()
    assert not host.simulated
    assert host.document is None
    assert (host.driver_version, host.driver.version, host.cuda_driver_version) == (version, version, cuda)
    assert [gpu.compute_capability for gpu in host.gpus] == [capability]


def test_eight_gpus_keep_index_minor_and_address_apart(recorded: Recorded) -> None:
    host = recorded("eight-gpu").observe("real")
    assert [gpu.index for gpu in host.gpus] == list(range(8))
    assert [gpu.minor for gpu in host.gpus] == [2, 3, 0, 1, 6, 7, 4, 5]
    assert [gpu.pci for gpu in host.gpus][:2] == ["0000:18:00.0", "0000:2a:00.0"]
    assert host.gpus[0].uuid == "GPU-a1b0a1b0-7c4d-9e21-5b3f-84d2c06ef01a"
    assert host.gpus[0].memory_bytes == 81559 * 2**20


def test_without_the_library_proc_tells_the_same(recorded: Recorded) -> None:
    real = recorded("eight-gpu").observe()
    plain = recorded("eight-gpu").observe(read=failing(12))
    assert not plain.simulated
    assert plain.cuda_driver_version is None
    assert plain.driver_version == "580.95.05"
    for with_nvml, without in zip(real.gpus, plain.gpus, strict=True):
        assert (with_nvml.index, with_nvml.uuid, with_nvml.minor, with_nvml.pci, with_nvml.model) == (
            without.index,
            without.uuid,
            without.minor,
            without.pci,
            without.model,
        )


@pytest.mark.parametrize(
    ("code", "fix"),
    [
        (4, "root"),
        (9, "modprobe nvidia"),
        (10, "keeps hanging: reboot"),
        (15, "reboot"),
        (18, "reboot"),
        (999, "nvidia-modprobe -u -c0"),
        (2, "NVRM"),
    ],
)
@pytest.mark.parametrize("mode", ["auto", "real"])
def test_a_driver_with_a_broken_nvml_is_never_simulated(recorded: Recorded, mode: GpuMode, code: int, fix: str) -> None:
    with pytest.raises(HostNotReady) as caught:
        recorded("one-gpu").observe(mode, read=failing(code))
    assert f"NVML code {code}" in caught.value.evidence
    assert "kernel module 550.90.07" in caught.value.evidence
    assert fix in caught.value.fix


def test_an_upgraded_driver_shows_both_versions(recorded: Recorded) -> None:
    with pytest.raises(HostNotReady) as caught:
        recorded("driver-mismatch").observe()
    assert "NVML code 18" in caught.value.evidence
    assert "kernel module 550.90.07" in caught.value.evidence
    assert "libcuda.so.550.163.01" in caught.value.evidence
    assert "reboot" in caught.value.fix


def test_one_lost_gpu_is_named(recorded: Recorded) -> None:
    document = recorded("eight-gpu").document
    document["gpus"][3]["errors"] = {"*": 15}
    with pytest.raises(HostNotReady, match="NVML does not work") as caught:
        recorded("eight-gpu").observe(read=lambda: read_nvml(SimulatedNvml(document)))
    assert "GPU 3" in caught.value.evidence


def test_a_driver_that_sees_no_gpu_is_never_simulated(recorded: Recorded) -> None:
    document = {**recorded("one-gpu").document, "gpus": []}
    with pytest.raises(HostNotReady, match="sees no GPU"):
        recorded("one-gpu").observe(read=lambda: read_nvml(SimulatedNvml(document)))


@pytest.mark.parametrize("change", [{"minor": 7}, {"uuid": "GPU-1c7a7d0e-41c2-8a3d-6b5e-0f9d8c7b6a59"}])
def test_identities_that_contradict_each_other_are_refused(recorded: Recorded, change: dict[str, Any]) -> None:
    document = recorded("mig").document
    document["gpus"][0].update(change)
    with pytest.raises(HostNotReady, match="which GPU is which"):
        recorded("mig").observe(read=lambda: read_nvml(SimulatedNvml(document)))


def test_a_split_gpu_is_leased_by_its_instances(recorded: Recorded) -> None:
    host = recorded("mig").observe()
    assert [gpu.mig_enabled for gpu in host.gpus] == [True, False]
    assert [(unit.label, unit.minor, unit.uuid[:3]) for unit in host.units] == [
        ("0:0", 1, "MIG"),
        ("0:1", 1, "MIG"),
        ("1", 0, "GPU"),
    ]
    assert host.units[0].memory_bytes == 20937965568


@pytest.mark.parametrize("mode", ["auto", "real"])
def test_a_driver_that_hangs_is_told_in_time_and_nvml_is_not_asked(hung: Path, mode: GpuMode) -> None:
    with pytest.raises(HostNotReady, match="loaded but does not respond") as caught:
        observe(root=hung, mode=mode, read=never)
    assert caught.value.evidence == "/proc/driver/nvidia/gpus: no response within 0.3 s; kernel module 580.95.05"
    assert "if NVML keeps hanging: reboot" in caught.value.fix


def test_beside_a_driver_that_hangs_gpus_are_simulated_where_asked_for(hung: Path) -> None:
    assert observe(root=hung, mode="simulated", read=never).simulated
