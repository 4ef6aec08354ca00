from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuprov.spec.python_packages import find_package_problem, read_requirements

if TYPE_CHECKING:
    from pathlib import Path

TAKEN = (
    "submitit", "torch==2.*", "torch == 2.5.1+cu121", "numpy>=1.26,<3", "Pillow", "zope.interface", "a",
    "hydra-core~=1.3", "optuna[optional, redis]>=4", "x!=1.0.dev3", "x==1!2.0rc1.post4", "typing_extensions<=4.12",
    "torch==2,", "torch (>=2, <3)", "torch==v2",
)  # fmt: skip
REFUSED = {
    "": "is not a Python package",
    "torch ": "is not a Python package",
    "-x": "is an option of pip",
    "--index-url=http://x": "is an option of pip",
    "-r other.txt": "is an option of pip",
    "-e .": "is an option of pip",
    "torch @ https://x/torch.whl": "is a URL or a path",
    "git+https://x/y": "is a URL or a path",
    "./torch.whl": "is a URL or a path",
    "../x": "is a URL or a path",
    "torch @ file:///x": "is a URL or a path",
    "torch==2\n": "is not a Python package",
    "torch; python_version<'3.12'": "has a marker",
    "torch 2": "is not a Python package",
    "torch=2": "is not a Python package",
    "torch===2": "is not a Python package",
    "torch==": "is not a Python package",
    "torch>=2.*": "is not a Python package",
    "torch~=2": "is not a Python package",
    "torch==latest": "is not a Python package",
    "torch==2 --hash=sha256:00": "is not a Python package",
    "torch==2 \\": "is not a Python package",
    "torch[": "is not a Python package",
    "_torch": "is not a Python package",
    "torch-": "is not a Python package",
    "tørch": "is not a Python package",
    "torch\n--pre": "is not a Python package",
    "$(reboot)": "is not a Python package",
    "t" * 201: "is longer than 200 characters",
    "t" * 100_000 + "!": "is longer than 200 characters",
}


@pytest.mark.parametrize("text", TAKEN)
def test_names_with_versions_are_packages(text: str) -> None:
    assert find_package_problem(text) == ""


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: text[:30])
def test_what_else_pip_takes_is_none(text: str) -> None:
    assert REFUSED[text] in find_package_problem(text)
    assert len(find_package_problem(text)) < 200


def test_a_file_is_read_with_its_comments(tmp_path: Path) -> None:
    path = tmp_path / "requirements.txt"
    path.write_text("# ours\n\ntorch==2.*  # with CUDA\r\n\t submitit\n#numpy\n")
    assert read_requirements(path) == (("torch==2.*", "submitit"), [])


def test_all_that_is_wrong_in_a_file_is_told_with_its_lines(tmp_path: Path) -> None:
    path = tmp_path / "requirements.txt"
    path.write_text("-r more.txt\ntorch\n\nnumpy; python_version<'3'\nhttps://x/y#egg=z\n")
    found, problems = read_requirements(path)
    assert found == ("torch",)
    assert [problem.partition(": ")[0] for problem in problems] == [f"{path} line {line}" for line in (1, 4, 5)]
    assert "option of pip" in problems[0]
    assert "marker" in problems[1]
    assert "URL" in problems[2]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "does not exist"),
        (b"\xff\xfe", "it is not UTF-8 text"),
        (b"#" * 65537, "is larger than 64 KiB"),
        (b"a\n" * 201, "has 201 packages, more than 200"),
    ],
    ids=["absent", "not text", "large", "many"],
)
def test_a_file_that_cannot_be_one_is_told_once(tmp_path: Path, content: bytes | None, told: str) -> None:
    path = tmp_path / "requirements.txt"
    if content is not None:
        path.write_bytes(content)
    found, problems = read_requirements(path)
    assert (found, len(problems)) == ((), 1)
    assert told in problems[0]
    assert str(path) in problems[0]


def test_a_folder_or_a_pipe_is_no_file(tmp_path: Path) -> None:
    assert "is not a file" in read_requirements(tmp_path)[1][0]


def test_two_hundred_packages_are_taken(tmp_path: Path) -> None:
    path = tmp_path / "requirements.txt"
    path.write_bytes(b"a\n" * 200)
    assert len(read_requirements(path)[0]) == 200
