from __future__ import annotations

import shutil
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
    from gpuprov.shapes.choices import GpuMode

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
        ("h200-vm", "580.159.04", 13000, (9, 0)),
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
    host = recorded("eight-gpu").observe(read=lambda: read_nvml(SimulatedNvml(document)))
    assert [gpu.index for gpu in host.gpus] == [0, 1, 2, 4, 5, 6, 7]
    assert [(gpu.index, gpu.minor, gpu.pci, gpu.uuid, gpu.code) for gpu in host.lost] == [
        (3, 1, "0000:5d:00.0", document["gpus"][3]["uuid"], 15)
    ]
    assert "the handle of GPU 3" in host.lost[0].why
    assert not {gpu.uuid for gpu in host.units} & {host.lost[0].uuid}


def test_a_driver_whose_only_gpu_is_lost_says_what_helps(recorded: Recorded) -> None:
    document = recorded("one-gpu").document
    document["gpus"][0]["errors"] = {"*": 15}
    with pytest.raises(HostNotReady, match="none of its GPUs can be used") as caught:
        recorded("one-gpu").observe(read=lambda: read_nvml(SimulatedNvml(document)))
    assert "1 of 1 GPUs is lost: GPU 0 at 0000:01:00.0" in caught.value.evidence
    assert "--gpu-reset" in caught.value.fix


def host_with_dev(recorded: Recorded, folder: Path) -> Path:
    """The host with eight GPUs in a folder that may be changed, with its device nodes as files."""
    root = folder / "root"
    shutil.copytree(recorded("eight-gpu").root, root, symlinks=True)
    (root / "dev").mkdir(exist_ok=True)
    for minor in range(8):
        (root / f"dev/nvidia{minor}").touch()
    return root


@pytest.mark.parametrize("code", [4, 10, 15, 999])
@pytest.mark.parametrize("call", ["*", "UUID", "HandleByIndex", "MinorNumber"])
def test_whatever_one_gpu_answers_costs_that_one(recorded: Recorded, code: int, call: str) -> None:
    document = recorded("eight-gpu").document
    document["gpus"][5]["errors"] = {call: code}
    host = recorded("eight-gpu").observe(read=lambda: read_nvml(SimulatedNvml(document)))
    assert len(host.gpus) == 7
    assert [(gpu.index, gpu.pci, gpu.code) for gpu in host.lost] == [(5, document["gpus"][5]["pci"].lower(), code)]


@pytest.mark.parametrize("by_nvml", ["listed", "not listed"])
def test_a_gpu_that_the_driver_has_not_initialised_costs_that_one(
    recorded: Recorded, tmp_path: Path, by_nvml: str
) -> None:
    root, document = host_with_dev(recorded, tmp_path), recorded("eight-gpu").document
    place = root / "proc/driver/nvidia/gpus/0000:5d:00.0/information"
    unknown = "GPU-????????-????-????-????-????????????"
    text = place.read_text().replace(document["gpus"][3]["uuid"], unknown).replace("NVIDIA H100 80GB HBM3", "Unknown")
    place.write_text(text)
    if by_nvml == "not listed":
        del document["gpus"][3]
    host = observe(root=root, mode="real", read=lambda: read_nvml(SimulatedNvml(document)))
    assert len(host.gpus) == (8 if by_nvml == "listed" else 7)
    told = [(gpu.pci, gpu.minor) for gpu in host.lost]
    assert told == ([] if by_nvml == "listed" else [("0000:5d:00.0", 1)])
    assert all(unknown in gpu.why for gpu in host.lost)


def test_what_a_container_was_not_given_is_not_lost(recorded: Recorded, tmp_path: Path) -> None:
    root, document = host_with_dev(recorded, tmp_path), recorded("eight-gpu").document
    del document["gpus"][1:]
    for minor in (0, 1, 3, 4, 5, 6, 7):
        (root / f"dev/nvidia{minor}").unlink()
    host = observe(root=root, mode="real", read=lambda: read_nvml(SimulatedNvml(document)))
    assert (len(host.gpus), host.lost) == (1, ())


def test_a_gpu_that_the_driver_could_not_start_at_all_is_told_by_its_address(
    recorded: Recorded, tmp_path: Path
) -> None:
    root, document = host_with_dev(recorded, tmp_path), recorded("eight-gpu").document
    shutil.rmtree(root / "proc/driver/nvidia/gpus/0000:5d:00.0")
    del document["gpus"][3]
    host = observe(root=root, mode="real", read=lambda: read_nvml(SimulatedNvml(document)))
    assert [str(gpu) for gpu in host.lost] == ["GPU at 0000:5d:00.0: it is on the PCI bus, but no driver has taken it"]


def test_two_that_are_lost_are_told_apart_by_the_order_of_their_addresses(recorded: Recorded) -> None:
    document = recorded("eight-gpu").document
    for number in (6, 1):
        document["gpus"][number]["errors"] = {"HandleByIndex": 999}
    host = recorded("eight-gpu").observe(read=lambda: read_nvml(SimulatedNvml(document)))
    assert [(gpu.index, gpu.uuid) for gpu in host.lost] == [(n, document["gpus"][n]["uuid"]) for n in (1, 6)]


def make(root: Path, **files: str) -> Path:
    for name, text in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({"dev__dxg": ""}, "this is WSL2"),
        ({"usr__lib__wsl__lib__libcuda.so.1": ""}, "this is WSL2"),
        ({"proc__device-tree__model": "NVIDIA Jetson AGX Orin Developer Kit\0"}, "this is NVIDIA Jetson AGX Orin"),
        ({"proc__device-tree__compatible": "nvidia,p3737\0nvidia,tegra234\0"}, "this is a Tegra"),
    ],
)
def test_hosts_of_another_kind_are_told_as_what_they_are(tmp_path: Path, files: dict[str, str], says: str) -> None:
    root = make(tmp_path, **files)
    assert says in observe(root=root, mode="auto", read=never).reason
    with pytest.raises(HostNotReady, match="no NVIDIA driver is loaded") as caught:
        observe(root=root, mode="real", read=never)
    assert says in caught.value.evidence
    assert "use a machine" in caught.value.fix


def test_a_gpu_that_nouveau_has_is_told(recorded: Recorded, tmp_path: Path) -> None:
    root = tmp_path / "root"
    shutil.copytree(recorded("card-without-driver").root, root)
    (root / "sys/bus/pci/devices/0000:01:00.0/driver").symlink_to("../../drivers/nouveau")
    assert "the GPU at 0000:01:00.0 is bound to nouveau" in observe(root=root, mode="auto", read=never).reason


@pytest.mark.parametrize("model", ["GRID T4-4Q", "NVIDIA A40-8Q", "GRID V100D-16C"])
def test_a_guest_with_virtual_gpus_is_told(recorded: Recorded, model: str) -> None:
    document = recorded("one-gpu").document
    document["gpus"][0]["model"] = model
    host = recorded("one-gpu").observe(read=lambda: read_nvml(SimulatedNvml(document)))
    assert f"this is a guest with virtual GPUs (vGPU): {model}" in host.reason
    assert "vGPU" not in recorded("one-gpu").observe().reason


def test_a_driver_that_sees_no_gpu_is_never_simulated(recorded: Recorded) -> None:
    document = {**recorded("one-gpu").document, "gpus": []}
    with pytest.raises(HostNotReady, match="sees no GPU"):
        recorded("one-gpu").observe(read=lambda: read_nvml(SimulatedNvml(document)))


def test_a_gpu_whose_identity_is_contradicted_is_not_used(recorded: Recorded) -> None:
    document = recorded("mig").document
    document["gpus"][0].update(minor=7)
    host = recorded("mig").observe(read=lambda: read_nvml(SimulatedNvml(document)))
    assert [gpu.index for gpu in host.gpus] == [1]
    assert "which GPU is which: minor 7 in NVML, 1 in /proc" in host.lost[0].why


def test_a_gpu_with_the_minor_of_another_one_is_not_used(recorded: Recorded) -> None:
    document = recorded("mig").document
    taken = document["gpus"][0]["minor"]
    document["gpus"][0].update(minor=7)
    document["gpus"][1].update(uuid="GPU-77777777-0000-4000-8000-000000000000", minor=taken)
    with pytest.raises(HostNotReady, match="none of its GPUs can be used"):
        recorded("mig").observe(read=lambda: read_nvml(SimulatedNvml(document)))


def test_gpus_that_say_to_be_the_same_are_refused(recorded: Recorded) -> None:
    document = recorded("mig").document
    document["gpus"][0].update(uuid="GPU-1c7a7d0e-41c2-8a3d-6b5e-0f9d8c7b6a59")
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
