from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from benchmarks import kernels
from benchmarks.gpu_proof.loaded import find_frames, judge_loaded, threads_of
from smoke_kernels.ptx import kernel_sources

if TYPE_CHECKING:
    from pathlib import Path

MEASURED: dict[str, Any] = {
    "device": {"name": "NVIDIA Test", "driver_version": "580.95.05"},
    "repeats": 10,
    "matmul": [
        {"size": 2048, "tflops": 40.0, "cublas_tflops": 50.0},
        {"size": 4096, "tflops": 41.26, "cublas_tflops": None},
    ],
    "copy": {"gb_per_s": 2900.4, "driver_gb_per_s": 2950.0},
    "anneal": [{"variant": "one replica", "flips_per_ns": 251.3}],
}


def test_nothing_is_measured_on_the_simulator(capsys: pytest.CaptureFixture[str]) -> None:
    assert kernels.main([]) == kernels.NO_DEVICE
    out, err = capsys.readouterr()
    assert out == ""
    assert "nothing was measured" in err


def test_every_rate_is_in_a_table() -> None:
    lines = kernels.render(MEASURED).splitlines()
    assert lines[0] == "NVIDIA Test, driver 580.95.05, medians of 10 batches"
    assert "| 2048 | 40.0 | 50.0 | 80% |" in lines
    assert "| 4096 | 41.3 | not there |  |" in lines
    assert "| read plus write | 2900 | 2950 |" in lines
    assert "| one replica | 251 |" in lines


def test_cublas_is_looked_for_where_it_may_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "TOOLKITS", tmp_path)
    assert kernels.find_cublas(lambda _: None) == kernels.LIBRARIES
    folder = tmp_path / "cuda-12.4/lib64"
    folder.mkdir(parents=True)
    (folder / "libcublas.so.12").touch()
    assert kernels.find_cublas(lambda _: None) == (str(folder / "libcublas.so.12"), *kernels.LIBRARIES)


LOADED = {
    name: {
        "registers": 40, "local_bytes": 0, "shared_bytes": 0, "most_threads": 1024, "cooperative": False,
        "blocks_at_once": 132,
    }
    for name in ("matmul", "anneal", "anneal-block")
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "said", "wrong"),
    [
        ("anneal", {}, []),
        ("anneal", {"local_bytes": 8}, ["anneal spills 8 bytes a thread"]),
        ("anneal", {"local_bytes": 8, "cooperative": True}, []),
        ("anneal", {"most_threads": 512}, []),
        ("anneal-block", {"most_threads": 512}, ["anneal-block cannot start blocks of 1024 threads"]),
        ("anneal", {"blocks_at_once": 0}, ["anneal cannot start blocks of 256 threads"]),
        ("matmul", {"registers": 128}, []),
        ("matmul", {"registers": 129}, ["matmul takes 129 registers, so that one block fills a multiprocessor"]),
    ],
)
def test_what_the_driver_loads_is_held_to_the_compile_gate(name: str, said: dict[str, int], wrong: list[str]) -> None:
    assert judge_loaded({**LOADED, name: {**LOADED[name], **said}}) == wrong


def test_a_stack_frame_of_the_barrier_is_told_and_is_no_failure() -> None:
    framed = {**LOADED["anneal"], "local_bytes": 8, "cooperative": True}
    assert find_frames({**LOADED, "matmul": {**LOADED["matmul"], "local_bytes": 8}}) == []
    (line,) = find_frames({**LOADED, "anneal": framed})
    assert line.startswith("anneal has 8 bytes of local memory a thread")


def test_every_kernel_of_a_block_is_known_by_its_name() -> None:
    assert {threads_of(name) for name in kernel_sources()} == {256, 1024}
