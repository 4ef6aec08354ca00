"""What of an answer of uv goes into a lock."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.renew_locks import fitting_hashes, lock_packages, parse_via, resolve
from gpuprov.provision.wheel_lock import LockedPackage


def package(*files: str, name: str = "numpy", marker: str | None = None, sdist: bool = False) -> dict[str, object]:
    """A package as pylock.toml has it; the hash of a file is its name."""
    wheels = [{"url": f"https://index/{file}", "hashes": {"sha256": file}} for file in files]
    source = {"sdist": {"url": "https://index/x.tar.gz", "hashes": {"sha256": "source"}}} if sdist else {}
    return {"name": name, "version": "1", "wheels": wheels, **source, **({"marker": marker} if marker else {})}


@pytest.mark.parametrize(
    ("file", "fits"),
    [
        ("n-1-cp311-cp311-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl", True),
        ("n-1-cp39-abi3-manylinux2014_x86_64.whl", True),
        ("n-1-py3-none-manylinux2010_x86_64.whl", True),
        ("n-1-py2.py3-none-any.whl", True),
        ("n-1-cp311-cp311-manylinux_2_40_x86_64.whl", False),
        ("n-1-cp311-cp311-manylinux_2_28_aarch64.whl", False),
        ("n-1-cp312-cp312-manylinux_2_28_x86_64.whl", False),
        ("n-1-cp311-cp311-musllinux_1_2_x86_64.whl", False),
        ("n-1-cp311-cp311-win_amd64.whl", False),
        ("not a wheel.whl", False),
    ],
)
def test_which_wheels_a_node_takes(file: str, fits: bool) -> None:
    assert bool(fitting_hashes(package(file), "3.11", "x86_64")) == fits


def test_a_source_counts_only_where_there_is_no_wheel() -> None:
    assert fitting_hashes(package(sdist=True), "3.11", "x86_64") == ["sha256:source"]
    assert fitting_hashes(package("n-1-cp310-cp310-win32.whl", sdist=True), "3.11", "x86_64") == []


def test_markers_become_pythons_and_other_systems_go() -> None:
    pure = "n-1-py3-none-any.whl"
    found = lock_packages(
        [
            package(pure, name="old", marker="python_full_version < '3.11.3'"),
            package(pure, name="windows", marker="sys_platform == 'win32'"),
            package(pure, name="all"),
        ],
        {"old": ("all",)},
    )
    hashes = (f"sha256:{pure}",)
    assert found == [
        LockedPackage(name="all", version="1", hashes=hashes),
        LockedPackage(name="old", version="1", pythons=("3.10", "3.11"), hashes=hashes, via=("all",)),
    ]


def test_a_package_that_a_processor_has_no_file_of_is_told() -> None:
    with pytest.raises(SystemExit, match=r"no file for Python 3\.10 on aarch64"):
        lock_packages([package("n-1-py3-none-manylinux2014_x86_64.whl")], {})


def test_who_needs_what_is_read() -> None:
    said = "amqp==5.4 ; python_full_version >= '3.10'  # via kombu, -r roots.in\ncelery==5.7  # via -r roots.in\n"
    assert parse_via(said) == {"amqp": ("kombu",), "celery": ()}


def test_uv_is_found_where_make_says_that_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Below the folder in which `make locks` runs."""
    uv = tmp_path / "uv"
    uv.write_text("#!/bin/sh\ncat roots.in\n")
    uv.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    assert resolve(Path("uv"), ["numpy", "numba"]) == "numpy\nnumba\n"
