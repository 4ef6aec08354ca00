from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from gpuprov.core.errors import HostNotReady, UsageError
from gpuprov.gpu.device_nodes import NodeStat
from gpuprov.gpu.lost import LostGpu
from gpuprov.gpu.models import Gpu
from gpuprov.gpu.nvml import NvmlFailed, NvmlReading, read_nvml
from gpuprov.gpu.observe import observe
from gpuprov.gpu.simulate import SimulatedNvml
from gpuprov.machine.facts import parse_cgroup
from gpuprov.machine.record import SCHEMA, take_record
from tests.fakes.replay import replay_devices, replay_nvml, write_tree
from tests.unit.gpu.conftest import hung  # noqa: F401 - a fixture

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuprov.gpu.models import HostGpus

DESCRIPTION = json.loads((Path(__file__).parents[3] / "docs" / "record.schema.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(DESCRIPTION)
HOSTS = Path(__file__).parents[2] / "data" / "hosts"
NAMES = sorted(path.name for path in HOSTS.iterdir() if path.is_dir())
WORKING = ["eight-gpu", "mig", "one-gpu", "uvm-missing"]


def no_library() -> NvmlReading:
    raise NvmlFailed(code=12, call="nvmlInit", text="NVML Shared Library Not Found")


def nvml_of(name: str) -> Callable[[], NvmlReading]:
    path = HOSTS / name / "nvml.json"
    return (lambda: read_nvml(SimulatedNvml(json.loads(path.read_text())))) if path.exists() else no_library


def look(root: Path, read: Callable[[], NvmlReading]) -> HostGpus | str:
    """What is seen, or the error in full."""
    try:
        return observe(root=root, mode="auto", read=read)
    except HostNotReady as error:
        return str(error)


def replayed(record: dict[str, Any], root: Path) -> HostGpus | str:
    through_text = json.loads(json.dumps(record))
    write_tree(through_text, root)
    return look(root, replay_nvml(through_text))


@pytest.mark.parametrize("name", NAMES)
def test_what_was_recorded_is_seen_again(name: str, tmp_path: Path) -> None:
    record = take_record(HOSTS / name / "root", read=nvml_of(name))
    seen = look(HOSTS / name / "root", nvml_of(name))
    assert replayed(record, tmp_path / "tree") == seen
    assert isinstance(seen, str) == (name in ("driver-not-loaded", "driver-mismatch"))


@pytest.mark.parametrize("name", NAMES)
def test_a_record_has_the_form_that_its_schema_describes(name: str) -> None:
    for read in (nvml_of(name), no_library):
        VALIDATOR.validate(take_record(HOSTS / name / "root", read=read))


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(DESCRIPTION)


@pytest.mark.parametrize(
    "changes", [{"schema": "x"}, {"files": {"etc/passwd": ""}}, {"cgroup": "v3"}, {"more": 1}, {"nvml": {"gpus": [{}]}}]
)
def test_the_schema_refuses_what_is_no_record(changes: dict[str, Any]) -> None:
    record = {**take_record(HOSTS / "one-gpu" / "root", read=nvml_of("one-gpu")), **changes}
    with pytest.raises(jsonschema.ValidationError):
        VALIDATOR.validate(record)


@pytest.mark.parametrize("name", WORKING)
def test_without_the_library_it_is_seen_again_from_proc(name: str, tmp_path: Path) -> None:
    record = take_record(HOSTS / name / "root", read=no_library)
    assert record["nvml"] is None
    assert replayed(record, tmp_path / "tree") == look(HOSTS / name / "root", no_library)


def test_a_record_of_a_replayed_host_is_the_same(tmp_path: Path) -> None:
    first = take_record(HOSTS / "one-gpu" / "root", read=nvml_of("one-gpu"))
    write_tree(first, tmp_path)
    assert take_record(tmp_path, read=replay_nvml(first)) == first
    assert first["nvidia_smi"] == "/usr/lib/nvidia/current/nvidia-smi"


def test_an_error_of_nvml_keeps_its_words() -> None:
    def fail() -> NvmlReading:
        raise NvmlFailed(code=999, call="the UUID of GPU 3", text="Unknown Error")

    record = take_record(HOSTS / "one-gpu" / "root", read=fail)
    assert record["nvml"] == {"error": {"code": 999, "call": "the UUID of GPU 3", "text": "Unknown Error"}}
    with pytest.raises(NvmlFailed, match="the UUID of GPU 3: Unknown Error") as caught:
        replay_nvml(record)()
    assert caught.value.code == 999


def test_what_nvml_does_not_know_stays_unknown() -> None:
    gpus = (
        Gpu(index=0, uuid="GPU-0", minor=1, pci="0000:01:00.0", model="A"),
        Gpu(index=1, uuid="GPU-1", minor=0, pci="0000:02:00.0", model="B", memory_bytes=4, mig_enabled=True),
    )
    reading = NvmlReading(driver_version="580.1", cuda_driver_version=13000, gpus=gpus)
    record = take_record(HOSTS / "no-gpu" / "root", read=lambda: reading)
    assert replay_nvml(json.loads(json.dumps(record)))() == reading


@pytest.mark.parametrize(
    ("mountinfo", "cgroup"),
    [
        ("30 1 0:26 / /sys/fs/cgroup rw shared:9 - cgroup2 cgroup2 rw", "v2"),
        ("30 1 0:26 / /sys/fs/cgroup/cpu rw shared:9 - cgroup cgroup rw", "v1"),
        (
            "30 1 0:26 / /sys/fs/cgroup/cpu rw - cgroup - rw\n31 1 0:27 / /sys/fs/cgroup/unified rw - cgroup2 - rw",
            "hybrid",
        ),
        ("", "none"),
    ],
)
def test_kernel_and_cgroup(tmp_path: Path, mountinfo: str, cgroup: str) -> None:
    root, tree = tmp_path / "root", tmp_path / "tree"
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/sys/kernel").mkdir(parents=True)
    (root / "proc/self/mountinfo").write_text(mountinfo)
    (root / "proc/sys/kernel/osrelease").write_text("6.1.0-30-amd64\n")
    record = take_record(root, read=no_library)
    assert (record["kernel"], record["cgroup"]) == ("6.1.0-30-amd64", cgroup)
    write_tree(record, tree)
    assert parse_cgroup((tree / "proc/self/mountinfo").read_text()) == cgroup
    assert (tree / "proc/sys/kernel/osrelease").read_text() == "6.1.0-30-amd64\n"


def test_device_nodes_with_numbers_and_mode(tmp_path: Path) -> None:
    (tmp_path / "dev/nvidia-caps").mkdir(parents=True)
    (tmp_path / "dev/nvidia0").symlink_to("/dev/null")
    (tmp_path / "dev/nvidiactl").touch(mode=0o640)
    (tmp_path / "dev/nvidia-uvm").symlink_to("nowhere")
    (tmp_path / "dev/sda").touch()
    record = take_record(tmp_path, read=no_library)
    assert set(record["devices"]) == {"/dev/nvidia0", "/dev/nvidiactl"}
    assert record["devices"]["/dev/nvidia0"] == {"kind": "char", "major": 1, "minor": 3, "mode": "0666"}
    assert record["devices"]["/dev/nvidiactl"]["kind"] == "file"
    assert replay_devices(record) == {
        "/dev/nvidia0": NodeStat(kind="char", major=1, minor=3),
        "/dev/nvidiactl": NodeStat(kind="other", major=0, minor=0),
    }


def test_nothing_personal_is_in_it(tmp_path: Path) -> None:
    version = tmp_path / "proc/driver/nvidia/version"
    version.parent.mkdir(parents=True)
    version.write_text(
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (carol@box7.example.com)  "
        "Tue Sep 23 10:11:16 UTC 2026\nGCC version:  gcc version 12.2.0 (Debian 12.2.0-14)\n"
    )
    for path in ("etc/hostname", "proc/sys/kernel/hostname", "etc/machine-id", "sys/class/dmi/id/product_serial"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("box7\n")
    text = json.dumps(take_record(tmp_path, read=no_library))
    assert "580.95.05  Release Build  (builder)  Tue" in text
    assert "(Debian 12.2.0-14)" in text
    assert "carol" not in text
    assert "box7" not in text


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "proc/../../x", ""])
@pytest.mark.parametrize("part", ["files", "libraries", "nvidia_smi"])
def test_a_record_does_not_write_outside_of_the_tree(tmp_path: Path, path: str, part: str) -> None:
    record = take_record(HOSTS / "one-gpu" / "root", read=no_library)
    record[part] = {"files": {**record["files"], path: "x"}, "libraries": [path], "nvidia_smi": path}[part]
    tree = tmp_path / "a" / "tree"
    if path.startswith("/") and part != "files":  # these are absolute, and meant below the tree
        write_tree(record, tree)
        assert (tree / "etc/passwd").exists()
        return
    with pytest.raises(UsageError, match="the record names"):
        write_tree(record, tree)
    assert list(tmp_path.rglob("*")) == []


@pytest.mark.parametrize(
    "change", [{"files": {"proc/devices": 3}}, {"modeset": "yes"}, {"cgroup": "v3"}, {"libraries": None}]
)
def test_a_damaged_record_is_refused_before_anything_is_written(tmp_path: Path, change: dict[str, Any]) -> None:
    record = {**take_record(HOSTS / "one-gpu" / "root", read=no_library), **change}
    with pytest.raises(UsageError, match="the record is damaged"):
        write_tree(record, tmp_path / "tree")
    assert not (tmp_path / "tree").exists()


@pytest.mark.parametrize(
    "record",
    [
        {},
        {"schema": "gpuprov.record/v9"},
        {"schema": SCHEMA},
        {"schema": SCHEMA, "files": 3},
        {"schema": SCHEMA, "files": {}, "libraries": [3], "cgroup": "v2"},
    ],
)
def test_what_is_no_record_is_refused(tmp_path: Path, record: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="record"):
        write_tree(record, tmp_path / "tree")
    assert not (tmp_path / "tree").exists()


def test_of_a_driver_that_hangs_the_rest_is_recorded(hung: Path) -> None:  # noqa: F811 - the fixture
    record = take_record(hung, read=no_library)
    assert list(record["files"]) == ["proc/driver/nvidia/version"]


def test_a_lost_gpu_is_recorded_with_its_place_and_its_words() -> None:
    gpus = (Gpu(index=1, uuid="GPU-1", minor=0, pci="0000:02:00.0", model="B", memory_bytes=4),)
    lost = (LostGpu(index=0, code=15, why="the handle of GPU 0: GPU is lost (NVML code 15)"),)
    reading = NvmlReading(driver_version="580.1", cuda_driver_version=13000, gpus=gpus, lost=lost)
    record = json.loads(json.dumps(take_record(HOSTS / "no-gpu" / "root", read=lambda: reading)))
    assert replay_nvml(record)() == reading
