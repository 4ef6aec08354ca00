"""The parts of a run of a program: slices, tables, structures as bytes, results of a round, what a machine has."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from gpuprov.shapes.base import as_values, read, write
from gpuprov.shapes.hardware import Cpu, CudaDevice
from gpuprov.shapes.program_rounds import RoundShare, RowSlice, ShareAnswer, SliceResult
from gpuwork.errors import Refused, StoreError, TimedOut
from gpuwork.hardware import NoCuda, ask_cuda_driver, look_at_hardware, read_cpu
from gpuwork.hardware_reader import read_devices
from gpuwork.programs.cli import _share
from gpuwork.programs.codec import address_of, copy_arrays, decode, encode, without_arrays
from gpuwork.programs.compiler import compile_sources
from gpuwork.programs.config import read_config
from gpuwork.programs.rounds import NotWhole, find_missing, follow_each_other, plan_shares, require_whole
from gpuwork.programs.slices import plan_slices
from gpuwork.programs.store import get_program, in_use, register, registered_programs, remove_registered
from gpuwork.programs.table import MappedFile, Table, check_table, write_table
from tests.fakes.programs import ROOT, write_program
from tests.schemas import validate

if TYPE_CHECKING:
    from pathlib import Path

    from gpuwork.programs.store import Registered


@pytest.mark.parametrize("rows", [1, 2, 3, 15, 16, 17, 1000, 999_983])
@pytest.mark.parametrize("rates", [(1,), (1, 1), (1, 1, 1), (1, 1, 1, 1, 1), (3, 1), (0.001, 1000, 7), (1e-9, 1)])
def test_no_row_is_lost_or_counted_twice(rows: int, rates: tuple[float, ...]) -> None:
    planned = [part for part in plan_slices(rows, rates) if part is not None]
    assert len(plan_slices(rows, rates)) == len(rates)
    assert [part.number for part in planned] == list(range(len(planned)))
    assert [row for part in planned for row in range(part.start, part.stop)] == list(range(rows))


def test_slices_follow_the_rates() -> None:
    sizes = [part.stop - part.start for part in plan_slices(1000, [132 * 1980, 132 * 1980, 20 * 1733]) if part]
    assert sizes == [469, 469, 62]
    sizes = [part.stop - part.start for part in plan_slices(16, [1, 1, 1]) if part]
    assert sorted(sizes) == [5, 5, 6], "the predecessor lost five of these rows"


@pytest.mark.parametrize(("rows", "rates"), [(0, [1]), (3, []), (3, [1, 0]), (3, [1, -1])])
def test_what_cannot_be_divided_is_refused(rows: int, rates: list[float]) -> None:
    with pytest.raises(ValueError, match="cannot be divided"):
        plan_slices(rows, rates)


def part(number: int, *slices: int) -> SliceResult:
    return SliceResult(round=number, numbers=slices, content=b"x")


def test_a_round_with_half_of_its_results_is_not_taken_for_whole() -> None:
    require_whole([part(4, 0, 1), part(4, 2)], 4, [0, 1, 2])
    for parts in (
        [],
        [part(4, 0, 1)],
        [part(4, 0, 1), part(4, 1, 2)],
        [part(4, 0, 1), part(3, 2)],
        [part(4, 0, 1, 2, 3)],
        [part(4, 0, 1, 2), part(4, 0, 1, 2)],
    ):
        with pytest.raises(NotWhole):
            require_whole(parts, 4, [0, 1, 2])


@pytest.mark.parametrize("count", [1, 2, 4, 5, 13, 40])
def test_a_tree_has_every_slice_once_and_keeps_their_order(count: int) -> None:
    holders = [(f"tls://{number}", [RowSlice(number=number, start=number, stop=number + 1)]) for number in range(count)]

    def walk(share: RoundShare) -> list[int]:
        return [one.number for one in share.slices] + [number for other in share.others for number in walk(other)]

    def depth(share: RoundShare) -> int:
        return 1 + max(map(depth, share.others), default=0)

    share = plan_shares(holders)
    assert walk(share) == list(range(count))
    assert depth(share) <= 1 + count.bit_length()
    assert read(RoundShare, as_values(share)) == share


def test_results_that_are_missing_are_found_and_neighbours_merged() -> None:
    slices = [RowSlice(number=number, start=number, stop=number + 1) for number in range(5)]
    parts = [part(0, 4), part(0, 0, 1)]
    assert [one.number for one in find_missing(parts, slices)] == [2, 3]
    assert [[one.numbers for one in group] for group in follow_each_other([*parts, part(0, 2)])] == [
        [(0, 1), (2,)],
        [(4,)],
    ]
    answer = ShareAnswer(parts=tuple(parts), lost=("tls://1",), failed=("a", "b", "c"))
    assert read(ShareAnswer, as_values(answer)) == answer


class Both(ctypes.Structure):
    """Two arrays and plain fields."""

    _fields_: ClassVar = [
        ("count", ctypes.c_int),
        ("numbers", ctypes.POINTER(ctypes.c_double)),
        ("width", ctypes.c_long),
        ("flags", ctypes.POINTER(ctypes.c_int8)),
    ]
    dynamic: ClassVar = {"numbers": ("count", "width"), "flags": ("count",)}


def both(count: int, width: int) -> Both:
    numbers = (ctypes.c_double * (count * width))(*range(count * width))
    return Both(count=count, numbers=numbers, width=width, flags=(ctypes.c_int8 * count)(*range(count)))


@pytest.mark.parametrize(("count", "width"), [(1, 1), (3, 5), (9, 0)])
def test_a_structure_comes_back_from_its_bytes(count: int, width: int) -> None:
    encoded = encode(both(count, width))
    assert b"\xff" not in encoded, "no address is sent"
    found: Any = decode(Both, encoded, address_of(encoded))
    assert (found.count, found.width, found.flags[:count]) == (count, width, list(range(count)))
    assert found.numbers[: count * width] == list(map(float, range(count * width)))
    with pytest.raises(ValueError, match="are not a Both"):
        decode(Both, encoded[:-64], address_of(encoded))


def test_lengths_that_lie_are_refused() -> None:
    one = both(3, 2)
    other: Any = without_arrays(one)
    other.count = 4
    with pytest.raises(ValueError, match="changed its length"):
        copy_arrays(one, other)
    other.count = -1
    with pytest.raises(ValueError, match="is -1"):
        encode(other)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x,y\n1,2\n3\n", "t.csv:3: has 1 values (allowed: 2, as on the lines before)"),
        ("1,2\n3,4\n\n5,q\n", "t.csv:4: column 2 is 'q' (allowed: a finite number, such as 1.5e-3)"),
        ("1,2\n3,nan\n", "t.csv:2: column 2 is 'nan' (allowed: a finite number, such as 1.5e-3)"),
        ("1,2\n3,1_0\n", "t.csv:2: column 2 is '1_0' (allowed: a finite number, such as 1.5e-3)"),
        ("1,2\n" * 300_000 + "7\n", "t.csv:300001: has 1 values (allowed: 2, as on the lines before)"),
        ("", "t.csv: has no row of numbers (allowed: a CSV file: a row on each line)"),
        ("x,y\n", "t.csv: has no row of numbers (allowed: a CSV file: a row on each line)"),
    ],
)
def test_a_broken_row_is_told_with_its_line(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(text)
    assert [*map(str, check_table(tmp_path / "t.csv")[1])] == [said]
    write_table(tmp_path / "t.csv", tmp_path / "t.bin")
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


def test_a_pipe_is_no_table_and_nobody_waits_at_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "t.csv")
    with pytest.raises(OSError, match="not a regular file"):
        check_table(tmp_path / "t.csv")
    with pytest.raises(OSError, match="not a regular file"):
        write_table(tmp_path / "t.csv", tmp_path / "t.bin")


def test_a_table_is_what_was_written(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"\xef\xbb\xbf a , b\r\n1,2\r\n\n-3.5,4e2")
    shape, faults = write_table(tmp_path / "t.csv", tmp_path / "t.bin")
    assert (shape.rows, shape.columns, shape.names, faults) == (2, 2, ("a", "b"), [])
    mapped = MappedFile(tmp_path / "t.bin")
    table: Any = mapped.decoded(Table)
    assert (table.rows, table.columns, table.values[:4]) == (2, 2, [1.0, 2.0, -3.5, 400.0])


@pytest.mark.slow
def test_a_large_table_is_not_held(tmp_path: Path) -> None:
    with (tmp_path / "t.csv").open("w") as file:
        for _ in range(60):
            file.write("0.123456789,0.987654321\n" * 43_690)  # 1 MiB
    code = (
        "import resource, sys; from pathlib import Path; from gpuwork.programs.table import *\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "before = peak(); write_table(Path(sys.argv[1]), Path(sys.argv[2])); print(peak() - before)"
    )
    argv = [sys.executable, "-c", code, str(tmp_path / "t.csv"), str(tmp_path / "t.bin")]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True)
    assert int(done.stdout) < 24 * 1024, "KiB more than at the beginning"
    assert (tmp_path / "t.bin").stat().st_size > 39 * 1024**2


def registered(tmp_path: Path) -> Registered:
    program = write_program(tmp_path / "p")
    config, files, _ = read_config(program)
    assert config is not None
    return register(program, files, config, "ab" * 32, store=tmp_path / "store")


def test_registering_twice_is_registering_once(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    first, second = registered(tmp_path), registered(tmp_path)
    assert first == second
    assert registered_programs(tmp_path / "store") == [first]
    assert get_program(tmp_path / "store", "ababab") == first
    for text in ("ab", "cdcdcd", "../..", ""):
        with pytest.raises(Refused):
            get_program(tmp_path / "store", text)
    with in_use(first), in_use(first), pytest.raises(Refused, match="is in use"):
        remove_registered(first)
    remove_registered(first)
    assert registered_programs(tmp_path / "store") == []


def test_a_program_that_was_changed_is_not_run(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    program = registered(tmp_path)
    assert program.read_config().name == "columns"
    program.code.chmod(0o755)
    (program.code / "more.py").write_text("evil = 1\n")
    with pytest.raises(StoreError, match="frozen copy of the project was changed"):
        program.read_config()
    (program.folder / "program.json").write_text("{}")
    assert registered_programs(tmp_path / "store") == []
    with pytest.raises(StoreError, match="is not a registered program, or was changed"):
        get_program(tmp_path / "store", program.hash)


def test_a_compiler_that_never_ends_is_ended(tmp_path: Path) -> None:
    with pytest.raises(TimedOut, match=r"sleep did not end within 0\.2 s"):
        compile_sources(["sleep", "60"], folder=tmp_path, limit_s=0.2)


def test_all_gpus_of_a_machine_are_used_in_turn() -> None:
    assert _share(["GPU-a", "GPU-b"], 2) == ["GPU-a", "GPU-b"]
    assert _share(["GPU-a", "GPU-b"], 5) == ["GPU-a", "GPU-b", "GPU-a", "GPU-b", "GPU-a"]
    assert _share([], 3) == [None] * 3


def test_a_processor_with_two_colons_in_its_line_is_read() -> None:
    told = "processor\t: 0\nmodel name\t: Fancy: CPU : 3 GHz\n\nprocessor\t: 1\nmodel name\t: Fancy: CPU : 3 GHz\nodd\n"
    assert read_cpu(told) == Cpu(name="Fancy: CPU : 3 GHz", threads=2)
    assert read_cpu("").name == "unknown"


def block_size_hint(largest: int, threads: int, blocks: int) -> int:
    numbers = {"largest_block": largest, "threads_of_multiprocessor": threads, "blocks_of_multiprocessor": blocks}
    gpu = CudaDevice(
        uuid="GPU-1", name="x", memory_bytes=1, major=9, minor=0, multiprocessors=1, clock_khz=1, **numbers
    )
    return gpu.block_size_hint


def test_block_sizes_are_those_of_the_contract() -> None:
    assert block_size_hint(1024, 2048, 32) == 544  # a GTX 1080, and an H100
    assert block_size_hint(1024, 1024, 16) == 544
    assert block_size_hint(1, 1, 1) == 32


def test_a_machine_without_cuda_says_so() -> None:
    found = look_at_hardware()
    validate(write(found))
    if found.gpus:
        pytest.skip("there are GPUs here")
    assert "libcuda.so.1" in (found.reason or "")
    with pytest.raises(NoCuda, match="libcuda"):
        ask_cuda_driver()


class Cuda:
    """A library of CUDA's driver with two GPUs."""

    values: ClassVar = {1: 1024, 13: 1_980_000, 16: 132, 39: 2048, 75: 9, 76: 0, 106: 32}

    def cuInit(self, _: int) -> int:  # noqa: N802
        return 0

    def cuDeviceGetCount(self, count: Any) -> int:  # noqa: N802
        count._obj.value = 2
        return 0

    def cuDeviceGet(self, device: Any, index: int) -> int:  # noqa: N802
        device._obj.value = index
        return 0

    def cuDeviceGetName(self, name: Any, _size: int, device: Any) -> int:  # noqa: N802
        name.value = f"H100 number {device.value}".encode()
        return 0

    def cuDeviceGetUuid(self, unique: Any, device: Any) -> int:  # noqa: N802
        unique.raw = bytes(15) + bytes([device.value])
        return 0

    def cuDeviceTotalMem_v2(self, memory: Any, _device: Any) -> int:  # noqa: N802
        memory._obj.value = 80 * 2**30
        return 0

    def cuDeviceGetAttribute(self, value: Any, attribute: int, _device: Any) -> int:  # noqa: N802
        value._obj.value = self.values[attribute]
        return 0


def test_all_gpus_are_read() -> None:
    one, two = read_devices(Cuda())
    assert (one["name"], two["name"]) == ("H100 number 0", "H100 number 1")
    assert (one["multiprocessors"], one["major"], two["uuid"]) == (132, 9, "GPU-00000000-0000-0000-0000-000000000001")


def test_a_gpu_that_fails_costs_itself_alone() -> None:
    class Lost(Cuda):
        def cuDeviceGetName(self, name: Any, size: int, device: Any) -> int:  # noqa: N802
            return 999 if device.value == 0 else super().cuDeviceGetName(name, size, device)

    assert [gpu["name"] for gpu in read_devices(Lost())] == ["H100 number 1"]


def test_a_call_that_fails_is_named() -> None:
    class Broken(Cuda):
        def cuInit(self, _: int) -> int:  # noqa: N802
            return 100

    with pytest.raises(RuntimeError, match="cuInit failed with 100"):
        read_devices(Broken())
