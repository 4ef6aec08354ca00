"""What is wrong with a program is found before it runs, all at once."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from gpuprov.core.requirements import load_cuda
from gpuwork.programs.build import OLDEST_OF_NVCC
from gpuwork.programs.check import NOMINAL, examine_program
from gpuwork.programs.compiler import read_complaints
from gpuwork.programs.identity import canonical_json
from gpuwork.programs.kernels import Launch, find_launches
from gpuwork.programs.toolkit import Toolkit, find_toolkit
from tests.fakes.programs import CONFIG, CUDA, HEADER, LAUNCH, PYTHON, write_program

HERE = Toolkit(gxx=find_toolkit().gxx, nvcc=None)


def faults(folder: Path, toolkit: Toolkit = HERE, **settings: object) -> list[str]:
    _, found = examine_program(folder, toolkit, settings=settings)
    return [str(fault).partition(" (allowed")[0] for fault in found]


@pytest.mark.slow
def test_a_program_without_faults_has_a_name(tmp_path: Path) -> None:
    checked, found = examine_program(write_program(tmp_path / "one"), HERE)
    assert (found, checked is not None) == ([], True)
    other, _ = examine_program(write_program(tmp_path / "two", config=f"# the same\n{CONFIG}"), HERE)
    later, _ = examine_program(write_program(tmp_path / "three", config=CONFIG.replace("1.0", "1.1")), HERE)
    edited, _ = examine_program(write_program(tmp_path / "four", cuda=f"{CUDA}\n"), HERE)
    assert checked is not None
    assert other is not None
    assert checked.hash == other.hash, "how config.yaml is written does not count"
    assert len({checked.hash, getattr(later, "hash", None), getattr(edited, "hash", None)}) == 3


def test_the_oldest_gpu_of_nvcc_is_that_of_the_requirements() -> None:
    """The packages of nvcc in nodes are CUDA 13's; what nodes run cannot read gpuprov's table."""
    capability = load_cuda()[13].compute_capability
    assert ".".join(map(str, OLDEST_OF_NVCC)) == capability
    assert f"sm_{capability.replace('.', '')}" == NOMINAL


def test_json_has_one_form() -> None:
    assert canonical_json({"b": [1, "ü"], "a": None}) == b'{"a":null,"b":[1,"\\u00fc"]}'


def test_a_config_tells_all_its_faults(tmp_path: Path) -> None:
    config = "info: {name: a b, version: 1.0, py_c_extention: true, more: 1}\nsources: {python: x.py, cuda: y.c}\n"
    assert faults(write_program(tmp_path / "p", config=config)) == [
        "config.yaml:1: info.name: is 'a b'",
        "config.yaml:1: info.version: is 1.0 (use quotes if it is text)",
        "config.yaml:1: info.more: is not known",
        "config.yaml:2: sources.header: is missing",
        "config.yaml:1: info.py_c_extention: is true: only ctypes structures are supported",
        "config.yaml:2: sources.python: is 'x.py', which does not exist",
        "config.yaml:2: sources.cuda: is 'y.c'",
    ]
    assert faults(write_program(tmp_path / "q", config="info: {}\ninfo: {}\n")) == [
        "config.yaml:2: is not YAML: info is written twice"
    ]
    for key in ("? [a]\n: 1\n", "? {a: 1}\n: 1\n"):
        assert faults(write_program(tmp_path / "s", config=key)) == ["config.yaml:1: is not YAML: a key is not text"]
    digits = f"0x{'f' * 5000}"
    config = f"info: {{name: {digits}, version: {digits}, py_c_extention: {digits}}}\nsources: {{}}\n"
    assert "config.yaml:1: info.name: is int (use quotes if it is text)" in faults(
        write_program(tmp_path / "t", config=config)
    )
    (tmp_path / "r").mkdir()
    assert faults(tmp_path / "r") == ["config.yaml: is missing"]


@pytest.mark.slow
def test_a_header_that_lies_is_told_field_by_field(tmp_path: Path) -> None:
    lying = (
        HEADER.replace("{ long max_iterations; }", "{ int max_iterations; double tolerance; }")
        .replace("long rows; long columns; double *values", "long rows; long columns; float *values")
        .replace("long columns; long rows; double *sums", "long rows; long cols; double *sums")
        .replace("int free_dataset(Dataset *data);", "")
        .replace("int setup_dataset(Dataset *data)", "void setup_dataset(Dataset *data)")
    )
    found = faults(write_program(tmp_path / "p", header=lying))
    assert [line for line in found if line.startswith("columns.h:")] == [
        "columns.h: setup_dataset: has another signature",
        "columns.h: free_dataset: is not declared",
        "columns.h: AggregationResult.columns: is in columns.py, and the header does not have it",
        "columns.h: GlobalParams.max_iterations: has 4 bytes in the header and 8 in columns.py",
        "columns.h: GlobalParams: has 16 bytes in the header and 8 in columns.py",
        (
            "columns.h: Dataset.values: is a pointer to floating-point number of 4 in the header and a pointer to "
            "floating-point number of 8 in columns.py"
        ),
        "columns.h: AggregationResult.rows: begins at byte 0 in the header and 8 in columns.py",
    ]


@pytest.mark.sampled(3)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("static int it = (abort(), 1);", "SIGABRT"),
        ('static int it = printf("{}\\n");', "it prints"),
        ("static int it = sleep(60);", "it did not end within 1 s"),
    ],
)
def test_a_header_that_runs_something_is_told(
    code: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuwork.programs.probe._LIMIT_S", 1)
    header = f"#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\n{HEADER}{code}\n"
    (found,) = faults(write_program(tmp_path / "p", header=header))
    assert found.startswith("columns.h: the sizes of its structures cannot be found: ")
    assert said in found


@pytest.mark.slow
def test_a_module_tells_all_its_faults(tmp_path: Path) -> None:
    python = (
        PYTHON.replace('("done", c_int), ', "")
        .replace('dynamic = {"values": ("rows", "columns")}', 'dynamic = {"values": ("rows", "width")}')
        .replace("def aggregate(one, other)", "def aggregate(one)")
        .replace("def update_global_state", "def update")
    )
    found = faults(write_program(tmp_path / "p", python=python))
    assert [line for line in found if line.startswith("columns.py:")] == [
        "columns.py: Dataset.dynamic['values']: is ('rows', 'width')",
        "columns.py: GlobalState.done: is missing",
        "columns.py: aggregate: cannot be called with these: too many positional arguments",
        "columns.py: update_global_state: is missing",
    ]


@pytest.mark.sampled(4)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('dynamic = {"values": ("rows", "columns")}', 'dynamic = {"values": [["rows"]]}', "Dataset.dynamic['values']"),
        ('defaults = {"max_iterations": 1}', "defaults = 5", "GlobalParams.defaults: is not a dict"),
        ('defaults = {"max_iterations": 1}', "defaults = [[1]]", "GlobalParams.defaults: is not a dict"),
        ('("max_iterations", c_long)', '("max_iterations", c_long, 3)', "GlobalParams.max_iterations: is a bit field"),
    ],
)
def test_a_structure_that_is_odd_is_told(old: str, new: str, said: str, tmp_path: Path) -> None:
    assert old in PYTHON
    found = faults(write_program(tmp_path / "p", python=PYTHON.replace(old, new)), Toolkit(gxx=None, nvcc=None))
    assert [line.startswith(f"columns.py: {said}") for line in found] == [True], found


@pytest.mark.sampled(4)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("raise ValueError('no luck')", "ValueError: no luck"),
        ("import os; os._exit(3)", "exit status 3"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "SIGSEGV: Segmentation fault"),
        ("def broken(:", "SyntaxError"),
    ],
)
def test_a_module_that_cannot_be_imported_is_told(code: str, said: str, tmp_path: Path) -> None:
    (found,) = [line for line in faults(write_program(tmp_path / "p", python=code)) if line.startswith("columns.py")]
    assert "import its module" in found
    assert said in found


@pytest.mark.slow
def test_settings_are_those_of_the_parameters(tmp_path: Path) -> None:
    program = write_program(tmp_path / "p")
    assert faults(program, max_iterations=3) == []
    (found,) = faults(program, iterations=3)
    assert "there is no setting iterations; allowed: max_iterations" in found
    (found,) = faults(program, max_iterations="many")
    assert "max_iterations='many' do not fit into GlobalParams" in found
    (found,) = faults(program, max_iterations=2**64 + 3)
    assert "max_iterations=18446744073709551619 do not fit into GlobalParams: max_iterations would be 3" in found


@pytest.mark.slow
def test_functions_that_are_not_exported_are_named(tmp_path: Path) -> None:
    cuda = CUDA.replace('extern "C" int free_dataset(Dataset *d) { return cudaFree(d->values); }\n', "")
    assert faults(write_program(tmp_path / "p", cuda=cuda)) == ["columns.cu: free_dataset: is not exported"]


@pytest.mark.slow
def test_what_the_compiler_says_has_file_and_line(tmp_path: Path) -> None:
    cuda = CUDA.replace("result->rows += data->rows;", "result->rows += data->rowz;\n    lost();")
    first, second = faults(write_program(tmp_path / "p", cuda=cuda))
    assert first.startswith("columns.cu:8: ")
    assert "rowz" in first
    assert second.startswith("columns.cu:9: ")
    assert "lost" in second


def test_complaints_of_nvcc_are_read() -> None:
    said = (
        'columns.cu(12): error: identifier "foo" is undefined\n      foo();\n      ^\n\n'
        "columns.cu(14): error #20-D: expected a ;\n1 error detected in the compilation of columns.cu\n"
    )
    found = [(fault.line, fault.message) for fault in read_complaints(said, Path("/p"), "nvcc")]
    assert found == [(12, 'identifier "foo" is undefined'), (14, "expected a ;")]
    (linked,) = read_complaints("/usr/bin/ld: /tmp/x.o: undefined reference to `gone'\n", Path("/p"), "g++")
    assert linked.message == "undefined reference to `gone'"
    (odd,) = read_complaints("nvcc fatal   : Unsupported gpu architecture 'sm_61'\n", Path("/p"), "nvcc")
    assert "sm_61" in odd.message


def test_launches_are_found_with_their_lines() -> None:
    text = '# 1 "a.cu"\nint x;\n  add<int> <<<1, 2>>>(x);\n# 9 "b.h" 2\nputs("no<<<1>>>"); go<<<grid, 1>>>();\n'
    assert find_launches(text) == [Launch(kernel="add", file="a.cu", line=2), Launch(kernel="go", file="b.h", line=9)]


@pytest.mark.slow
def test_kernels_are_compiled_where_there_is_an_nvcc(tmp_path: Path) -> None:
    program = write_program(tmp_path / "p", cuda=CUDA + LAUNCH)
    checked, found = examine_program(program, HERE)
    assert found == []
    assert checked is not None
    assert checked.left_out == ("the C functions, because they launch kernels and there is no nvcc here",)
    if find_toolkit().nvcc is None:
        pytest.skip("no nvcc")
    broken = write_program(tmp_path / "q", cuda=CUDA + LAUNCH.replace("threadIdx.x", "threadIdx.q"))
    (said,) = faults(broken, find_toolkit())
    assert said.startswith("columns.cu:17: ")


def test_without_a_compiler_the_rest_is_checked(tmp_path: Path) -> None:
    checked, _ = examine_program(write_program(tmp_path / "p"), Toolkit(gxx=None, nvcc=None))
    assert checked is not None
    assert checked.left_out == ("the header and the C functions, because there is no g++ here",)


@pytest.mark.slow
def test_other_files_of_the_folder_do_not_belong_to_it(tmp_path: Path) -> None:
    program = write_program(tmp_path / "p")
    before, _ = examine_program(program, HERE)
    (program / "table.csv").write_text("1,2\n")
    shutil.copytree(program, tmp_path / "moved/here")
    after, _ = examine_program(tmp_path / "moved/here", HERE)
    assert before == after
    assert before is not None
    assert json.dumps(before.files) == '["columns.cu", "columns.h", "columns.py", "config.yaml"]'
    assert not (program / "__pycache__").exists()
