from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from gpuprov.shapes.base import read
from gpuprov.shapes.smoke import Smoke
from smoke_kernels import device, golden, runners
from smoke_kernels.anneal.problem import build_problem
from smoke_kernels.cli import main
from smoke_kernels.options import Options

ROOT = Path(__file__).parents[3]
SCHEMA = json.loads((ROOT / "docs" / "smoke.schema.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
KERNELS = ("matmul", "anneal", "membw")


def run_program(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "smoke_kernels", *arguments],
        cwd=ROOT,
        env={**os.environ, "NUMBA_ENABLE_CUDASIM": "0", **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def assert_three_parts(text: str) -> None:
    first, second, third, *rest = text.splitlines()
    assert first.startswith("error: ")
    assert second.startswith("  evidence: ")
    assert third.startswith("  next:     ")
    assert rest == []
    assert "Traceback" not in text


def assert_shape(document: dict[str, Any]) -> None:
    """Every document has these fields, however the run ended: what docs/smoke-kernels.md and its schema promise."""
    VALIDATOR.validate(document)
    assert read(Smoke, document).passed == document["passed"]
    assert document["schema"] == "gpuprov.smoke/v1"
    assert list(document) == ["schema", "passed", "simulated", "device", "devices", "seconds", "results", "error"]
    for result in document["results"]:
        assert list(result) == [
            "kernel",
            "passed",
            "simulated",
            "parameters",
            "proof",
            "rate",
            "seconds",
            "error",
            "gpu",
        ]
        if result["error"] is None:
            assert list(result["proof"])[:4] == ["digest", "golden", "golden_source", "checks"]
            assert all(list(check) == ["name", "passed", "evidence"] for check in result["proof"]["checks"])


@pytest.mark.slow
def test_three_kernels_in_one_process_give_one_document() -> None:
    done = run_program(*KERNELS, "--json", "--quick", "--simulate")
    document = json.loads(done.stdout)
    assert_shape(document)
    assert (done.returncode, done.stderr) == (0, "")
    assert document["passed"]
    assert document["simulated"]
    assert [result["kernel"] for result in document["results"]] == list(KERNELS)
    assert all(result["passed"] and result["simulated"] for result in document["results"])
    assert all(result["rate"] is None for result in document["results"])
    assert all(result["proof"]["golden_source"] == "shipped" for result in document["results"])
    assert all(result["proof"]["digest"] == result["proof"]["golden"] for result in document["results"])


@pytest.mark.slow
def test_every_gpu_is_run_on_and_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["matmul", "membw", "--quick", "--json", "--all-devices", "--stand-for", "GPU-a,GPU-b"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert_shape(document)
    assert [(result["gpu"], result["kernel"]) for result in document["results"]] == [
        ("GPU-a", "matmul"), ("GPU-a", "membw"), ("GPU-b", "matmul"), ("GPU-b", "membw"),
    ]  # fmt: skip
    assert [(device["index"], device["uuid"]) for device in document["devices"]] == [(0, "GPU-a"), (1, "GPU-b")]
    assert document["device"] == document["devices"][0]
    assert main(["membw", "--quick", "--stand-for", "GPU-a,GPU-b"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[-1] for line in lines if line.startswith("device")] == ["GPU-a", "GPU-b"]


@pytest.mark.parametrize(
    "arguments",
    [["--stand-for", ""], ["--stand-for", "a,,b"], ["--stand-for", "a,a"], ["--device", "0", "--all-devices"]],
)
def test_gpus_that_cannot_be_named_so(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["membw", "--quick", *arguments]) == 2
    assert_three_parts(capsys.readouterr().err)


def test_all_gpus_of_cuda_are_taken_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    selected: list[int] = []

    def select(index: int) -> dict[str, Any]:
        selected.append(index)
        return {"index": index, "visible": ["GPU-a", "GPU-b", "GPU-c"]}

    monkeypatch.setattr(device, "SIMULATED", False)
    monkeypatch.setattr(device, "select_device", select)
    assert [facts["index"] for facts in device.each_device(Options(all_devices=True))] == [0, 1, 2]
    assert [facts["index"] for facts in device.each_device(Options(device=2))] == [2]
    assert selected == [0, 1, 2, 2]


@pytest.fixture(scope="module")
def right() -> str:
    """A document that is as it must be."""
    with redirect_stdout(StringIO()) as said:
        main(["membw", "--quick", "--json"])
    VALIDATOR.validate(json.loads(said.getvalue()))
    return said.getvalue()


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("passed",), None),
        (("device",), None),
        (("results", 0, "passed"), False),
        (("results", 0, "gpu"), 3),
        (("results", 0, "rate"), {"value": 1.0, "unit": "GB/s", "median": 1.0, "samples": [1.0], "known_good": None}),
        (("results", 0, "proof", "checks"), []),
        (("results", 0, "proof", "digest"), "x"),
        (("results", 0, "proof", "checks", 0, "passed"), False),
        (("results",), []),
        (("more",), 1),
    ],
)
def test_the_schema_refuses_what_is_none(path: tuple[Any, ...], value: object, right: str) -> None:
    document = json.loads(right)
    place = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(jsonschema.ValidationError):
        VALIDATOR.validate(document)
    with pytest.raises(ValueError, match=r"\$|pass|rate|field"):
        read(Smoke, document)


def test_text_says_simulated_loudly(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["membw", "--quick"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("SIMULATED")
    assert lines[2].startswith("membw    passed SIMULATED")
    assert lines[-1].startswith("passed (SIMULATED)")


@pytest.mark.slow
def test_without_a_gpu_the_error_has_three_parts_and_exit_code_3() -> None:
    # Hidden where there is one.
    done = run_program("matmul", "--json", CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 3
    assert_three_parts(done.stderr)
    document = json.loads(done.stdout)
    assert_shape(document)
    assert not document["passed"]
    assert set(document["error"]) == {"what", "evidence", "remedy"}


@pytest.mark.slow
def test_without_numba_the_error_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "numba").mkdir()
    (tmp_path / "numba" / "__init__.py").write_text("raise ModuleNotFoundError(\"No module named 'numba'\")\n")
    done = run_program("matmul", PYTHONPATH=str(tmp_path))
    assert (done.returncode, done.stdout) == (3, "")
    assert_three_parts(done.stderr)
    assert "pip install" in done.stderr


@pytest.mark.slow
def test_a_numpy_with_which_numba_cuda_fails_on_gpus_is_told_and_is_fine_on_the_simulator(tmp_path: Path) -> None:
    """Seen on an H100 with Python 3.12 and NumPy 2.5: each kernel failed for want of np.row_stack."""
    (tmp_path / "sitecustomize.py").write_text("import numpy\nvars(numpy).pop('row_stack', None)\n")
    done = run_program("matmul", PYTHONPATH=str(tmp_path))
    assert (done.returncode, done.stdout) == (3, "")
    assert_three_parts(done.stderr)
    assert "it needs numpy<2.5" in done.stderr
    assert run_program("matmul", "--quick", "--simulate", PYTHONPATH=str(tmp_path)).returncode == 0


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["nope"],
        ["matmul", "--size", "0"],
        ["matmul", "--size", "-5"],
        ["matmul", "--size", "8193"],
        ["matmul", "--size", "12x"],
        ["matmul", "--size", "9999999999999"],
        ["matmul", "anneal", "--size", "64"],
        ["anneal", "--size", "4"],
        ["anneal", "--size", "48"],
        ["anneal", "--size", "16384"],
        ["anneal", "--sweeps", "0"],
        ["anneal", "--sweeps", "100001"],
        ["matmul", "--sweeps", "5"],
        ["membw", "--independent"],
        ["membw", "--size", "1000"],
        ["membw", "--size", "16G"],
        ["matmul", "--seconds", "nan"],
        ["matmul", "--seconds", "-1"],
        ["matmul", "--seconds", "inf"],
        ["matmul", "--seconds", "soon"],
        ["matmul", "--tolerance", "nan"],
        ["matmul", "--tolerance", "-0.1"],
        ["matmul", "--tolerance", "1.5"],
        ["matmul", "--tolerance", "0.1"],
        ["matmul", "--repeats", "0"],
        ["matmul", "--repeats", "1.5"],
        ["matmul", "--seed", "-1"],
        ["matmul", "--seed", "4294967296"],
        ["matmul", "--device", "-1"],
        ["matmul", "--quic"],
    ],
)
def test_bad_arguments_are_an_error_with_three_parts(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    assert main(arguments) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert_three_parts(output.err)


def test_bad_arguments_give_json_to_who_asked_for_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["matmul", "--size", "nan", "--json"]) == 2
    output = capsys.readouterr()
    assert_shape(json.loads(output.out))
    assert_three_parts(output.err)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_wrong_result_is_exit_code_1(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, kernel: str
) -> None:
    entry = golden.find_golden(kernel, seed=1, size={"matmul": 64, "anneal": 8, "membw": 16384}[kernel])
    assert entry is not None
    monkeypatch.setitem(entry, "digest", "0123456789abcdef")
    build_problem.cache_clear()
    assert main([kernel, "--quick"]) == 1
    assert "FAIL digest" in capsys.readouterr().out
    build_problem.cache_clear()


def test_a_kernel_that_raises_fails_and_the_others_still_run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    original = runners.runner

    def raising(_options: object) -> None:
        message = "[700] Call to cuMemcpyDtoH results in CUDA_ERROR_ILLEGAL_ADDRESS"
        raise OSError(message)

    monkeypatch.setattr(runners, "runner", lambda kernel: raising if kernel == "matmul" else original(kernel))
    assert main(["matmul", "membw", "--quick", "--json"]) == 1
    output = capsys.readouterr()
    document = json.loads(output.out)
    assert_shape(document)
    assert [result["passed"] for result in document["results"]] == [False, True]
    assert "ILLEGAL_ADDRESS" in document["results"][0]["error"]["evidence"]
    assert_three_parts(output.err)


def test_an_interrupt_is_exit_code_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_kernel: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(runners, "runner", interrupted)
    assert main(["membw", "--quick"]) == 130
