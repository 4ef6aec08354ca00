"""Which cores are nearest to a GPU: as the kernel says it, and as a simulated host has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuprov.gpu.models import Gpu
from gpuprov.gpu.nearest_cores import (
    is_number_list,
    last_number,
    read_cores,
    spread_over_cores,
    with_nearest_cores,
)
from gpuprov.gpu.observe import observe

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

# Of each CPU its socket, and the CPUs of its core
FLAT = [(0, "0"), (0, "1"), (1, "2"), (1, "3")]
THREADS = [(0, "0,4"), (0, "1,5"), (1, "2,6"), (1, "3,7")] * 2
TURNS = [(0, "0"), (1, "1"), (0, "2"), (1, "3")]  # CPUs take turns between sockets


def gpu(number: int) -> Gpu:
    return Gpu(index=number, uuid=f"GPU-{number}", minor=number, pci=f"0000:{number:02x}:00.0", model="H100")


def make_cpus(root: Path, cpus: Sequence[tuple[int, str]]) -> None:
    for number, (socket, siblings) in enumerate(cpus):
        folder = root / f"sys/devices/system/cpu/cpu{number}/topology"
        folder.mkdir(parents=True)
        (folder / "physical_package_id").write_text(f"{socket}\n")
        (folder / "thread_siblings_list").write_text(f"{siblings}\n")
    (root / "sys/devices/system/cpu/cpuidle").mkdir()
    (root / "sys/devices/system/cpu/cpu99").mkdir()  # offline


def make_slots(root: Path, lists: Sequence[str]) -> None:
    for number, text in enumerate(lists):
        folder = root / f"sys/bus/pci/devices/0000:{number:02x}:00.0"
        folder.mkdir(parents=True)
        (folder / "local_cpulist").write_text(text)


@pytest.mark.parametrize(
    ("cpus", "slots", "cores"),
    [
        (FLAT, ["0-1\n", "2-3\n"], ["0-1", "2-3"]),
        (THREADS, ["0-1,4-5\n", "2-3,6-7\n"], ["0-1", "2-3"]),
        (TURNS, ["0,2\n", "1,3\n"], ["0-1", "2-3"]),
        (FLAT, ["", "0-1; rm\n"], ["", ""]),
        (FLAT, ["0-3", "70-80"], ["0-3", ""]),
        ([(0, "0"), (0, "none")], ["0\n", "1\n"], ["", ""]),
    ],
    ids=["cores", "threads", "turns", "nonsense", "others", "unknown"],
)
def test_the_kernel_says_it_of_each_slot(
    tmp_path: Path, cpus: Sequence[tuple[int, str]], slots: Sequence[str], cores: Sequence[str]
) -> None:
    make_cpus(tmp_path, cpus)
    make_slots(tmp_path, slots)
    seen = with_nearest_cores([gpu(number) for number in range(3)], tmp_path)
    assert [one.cores for one in seen] == [*cores, ""]


def test_simulated_gpus_are_spread_over_sockets(tmp_path: Path) -> None:
    gpus = [gpu(number) for number in range(4)]
    assert {one.cores for one in spread_over_cores(gpus, tmp_path, sockets=2)} == {""}
    make_cpus(tmp_path, THREADS)
    assert len(set(read_cores(tmp_path).values())) == 4
    assert [one.cores for one in spread_over_cores(gpus, tmp_path, sockets=2)] == ["0-1", "0-1", "2-3", "2-3"]
    assert {one.cores for one in spread_over_cores(gpus, tmp_path, sockets=1)} == {""}
    assert {one.cores for one in spread_over_cores(gpus, tmp_path, sockets=5)} == {""}


def test_a_profile_of_two_sockets_has_them_and_the_usual_host_has_one(tmp_path: Path) -> None:
    make_cpus(tmp_path, FLAT)
    lists = [one.cores for one in observe(root=tmp_path, mode="simulated", profile="h100x8").gpus]
    assert lists == ["0-1"] * 4 + ["2-3"] * 4
    assert {one.cores for one in observe(root=tmp_path, mode="simulated").gpus} == {""}


def test_a_list_is_one() -> None:
    assert is_number_list("0-15,32-47,64")
    assert last_number("0-15,32-47,3") == 47
    for text in ("", "a", "0-", "0,,1", "0-1\n", "1 2", "0," * 200 + "1"):
        assert not is_number_list(text)
