"""Configurations in YAML and HOCON: defaults, and every fault with its line."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.shapes.anneal_settings import AnnealSettings
from gpuprov.shapes.base import write
from gpuwork.anneal.conf_file import parse_hocon_settings, parse_yaml_settings, read_configuration
from gpuwork.anneal.model_file import parse_model
from gpuwork.anneal.prepare import ModelsOrder, check_pairs
from gpuwork.anneal.settings import NAMES, check_settings
from tests.unit.gpuwork.anneal.conftest import LINE

if TYPE_CHECKING:
    from collections.abc import Callable

YAML = """\
dimensions: 3
distribution: normal
max_steps: 1e3
initial_temp: 1e1
random_seed: -919
"""
HOCON = """\
# as the predecessor's were
dimensions = 3
distribution = normal
max_steps = 1000
initial_temp = 1e1
"random_seed" : -919
"""
there = importlib.util.find_spec("pyhocon") is not None
needs_pyhocon = pytest.mark.skipif(not there and "CI" not in os.environ, reason="pyhocon is an optional extra")


def test_the_defaults_are_those_of_the_predecessor() -> None:
    settings = AnnealSettings(dimensions=2)
    assert write(settings) == {
        "dimensions": 2, "distribution": "uniform", "precision": "float32", "max_steps": 100_000, "initial_temp": 1000,
        "min_temp": 0.0, "thread_count": 128, "threads_per_block": None, "blocks_per_grid": None, "random_seed": 42,
        "target": None, "exchange_every": None, "replicas": None, "compile_limit_s": 600, "run_limit_s": 86400,
        "merge_limit_s": 600,
    }  # fmt: skip
    assert set(write(settings)) == set(NAMES)


def test_yaml_has_its_lines() -> None:
    values, faults = parse_yaml_settings(YAML.replace("1e3", "1000"), file="run.yaml")
    assert faults == []
    assert values["random_seed"] == (-919, 5)
    settings, faults = check_settings(values, file="run.yaml")
    assert faults == []
    assert settings == AnnealSettings(
        dimensions=3, distribution="normal", max_steps=1000, initial_temp=10.0, random_seed=-919
    )


@needs_pyhocon
def test_hocon_is_the_same() -> None:
    values, faults = parse_hocon_settings(HOCON, file="run.conf")
    assert faults == []
    assert values["random_seed"] == (-919, 6)
    assert (
        check_settings(values, file="run.conf")[0]
        == check_settings(parse_yaml_settings(YAML.replace("1e3", "1000"), file="run.yaml")[0], file="run.yaml")[0]
    )


@needs_pyhocon
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("max_steps = [", "is not HOCON"),
        ("max_steps = ${no_such_thing_anywhere}", "is not HOCON"),
        ("run { max_steps = 5 }", "run: is not known"),
        ('include "/etc/passwd"', "run.conf:1: includes another file"),
        ('a = 1\n include url("http://127.0.0.1:9/x")', "run.conf:2: includes another file"),
    ],
)
def test_hocon_that_is_wrong(text: str, said: str) -> None:
    values, faults = parse_hocon_settings(text, file="run.conf")
    found = [str(fault) for fault in [*faults, *check_settings(values, file="run.conf")[1]]]
    assert any(said in fault for fault in found), found


def test_hocon_without_its_package_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyhocon", None)
    assert "is HOCON, which needs pyhocon" in str(parse_hocon_settings("a = 1", file="run.conf")[1][0])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("max_steps: 0", "run.yaml:2: max_steps: is 0 (allowed: 1 to 1,000,000,000,000)"),
        ("max_steps: many", "max_steps: is 'many'"),
        ("max_steps: 1.5", "max_steps: is 1.5"),
        ("max_steps: [1]", "max_steps: is a list"),
        ("max_step: 5", "run.yaml:2: max_step: is not known; did you mean max_steps?"),
        ("precision: float16", "precision: is 'float16' (allowed: float32, float64)"),
        ("distribution: poisson", "distribution: is 'poisson' (allowed: normal, uniform)"),
        ("initial_temp: .nan", "initial_temp: is '.nan'"),
        ("initial_temp: -1", "initial_temp: is -1, and min_temp is 0: no chain would move"),
        ("initial_temp: 1e400", "initial_temp: is inf"),
        ("min_temp: 2000", "initial_temp: is 1000, and min_temp is 2000"),
        ("thread_count: 0", "thread_count: is 0"),
        ("thread_count: true", "thread_count: is true"),
        ("threads_per_block: 2048", "threads_per_block: is 2048"),
        ("blocks_per_grid: 2", "blocks_per_grid: is given without threads_per_block"),
        ("blocks_per_grid: 2\nthreads_per_block: 32", "is 2, so 64 threads for 128 chains (allowed: at least 4)"),
        ("random_seed: 99999999999999999999", "random_seed: is 99999999999999999999"),
        ("target: low", "target: is 'low'"),
        ("replicas: 4", "replicas: is given without exchange_every"),
        ("exchange_every: 4", "exchange_every: is given without replicas"),
        ("replicas: 5\nexchange_every: 4\nmin_temp: 1", "thread_count: is 128, which is not a multiple of 5 replicas"),
        ("replicas: 4\nexchange_every: 4", "min_temp: is 0 (allowed: with replicas: above 0"),
        ("run_limit_s: 0", "run_limit_s: is 0"),
        ("max_steps: 1\nmax_steps: 2", "run.yaml:3: max_steps: is written twice"),
        ("max_steps: !!python/object:os.system 1", "max_steps: is a mapping"),
        ("max_steps: [", "is not YAML"),
        ("? [a]\n: 1", "run.yaml:2: a key is not text"),
        ("initial_temp: 1e60", "run.yaml:2: initial_temp: is 1e+60, which float32 cannot hold (allowed: below 3.4e+38"),
        ("initial_temp: 1e-50", "initial_temp: is 1e-50, and min_temp is 0: no chain would move"),
        ("replicas: 4\nexchange_every: 4\nmin_temp: 1e-50", "min_temp: is 1e-50 (allowed: with replicas: above 0"),
    ],
)
def test_yaml_that_is_wrong(text: str, said: str) -> None:
    values, faults = parse_yaml_settings(f"dimensions: 2\n{text}\n", file="run.yaml")
    found = [str(fault) for fault in [*faults, *check_settings(values, file="run.yaml")[1]]]
    assert any(said in fault for fault in found), found


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("{[]: 1}", "dimensions: is '{[]: 1}'"),
        ("0x" + "f" * 5000, "dimensions: is int"),
        ("[" * 60 + "]" * 60, "dimensions: is a list"),
        ("-" * 700 + "1", "dimensions: is 'an expression'"),
        ("open('x', 'w')", "dimensions: is \"open('x', 'w')\""),
    ],
)
def test_numbers_of_a_model_that_are_none_are_told(written: str, said: str) -> None:
    model, faults = parse_model(LINE.replace("dimensions = 1", f"dimensions = {written}"), file="model.py")
    assert (faults, model is not None) == ([], True)
    assert model is not None
    (fault,) = check_settings(dict(model.numbers), file="model.py")[1]
    assert said in str(fault)


def test_all_faults_are_told_at_once() -> None:
    values, _ = parse_yaml_settings("max_steps: 0\nprecision: x\nother: 1\n", file="run.yaml")
    found = [fault.where for fault in check_settings(values, file="run.yaml")[1]]
    assert found == ["max_steps", "precision", "other", "dimensions"]


def test_a_list_is_no_configuration_and_nothing_is_one() -> None:
    assert "is not a mapping" in str(parse_yaml_settings("- 1", file="f")[1][0])
    assert parse_yaml_settings("", file="f") == ({}, [])


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    monkeypatch.chdir(tmp_path)

    def write(**contents: str) -> None:
        for name, text in contents.items():
            Path(name.replace("_", ".")).write_text(text)

    return write


def pairs(models: str, configurations: str = "", **overrides: object) -> tuple[list[str], list[str]]:
    wanted = ModelsOrder(
        models=[*map(Path, models.split())], configurations=[*map(Path, configurations.split())], overrides=overrides
    )
    found, faults = check_pairs(wanted)
    return [f"{pair.name} {pair.settings.max_steps}" for pair in found], [*map(str, faults)]


def test_models_and_configurations_make_pairs(files: Any) -> None:
    files(a_py=LINE, b_py=LINE, c_py=LINE, x_yaml="max_steps: 1", y_yaml="max_steps: 2", z_yaml="max_steps: 3")
    assert pairs("a.py", "x.yaml") == (["a 1"], [])
    assert pairs("a.py") == (["a 100000"], [])
    assert pairs("a.py", "x.yaml y.yaml") == (["a-x 1", "a-y 2"], [])
    assert pairs("a.py b.py", "x.yaml") == (["a 1", "b 1"], [])
    assert pairs("a.py b.py c.py", "x.yaml y.yaml z.yaml") == (["a-x 1", "b-y 2", "c-z 3"], [])
    assert pairs("a.py a.py", "x.yaml") == (["a 1", "a-1 1"], [])
    assert pairs("a.py b.py", "x.yaml y.yaml z.yaml") == (
        [],
        [
            (
                "command line: 2 models and 3 configurations cannot be paired"
                " (allowed: one of either, or equal numbers of both)"
            )
        ],
    )


def test_a_name_that_is_written_twice_hides_no_other_fault(files: Any) -> None:
    files(a_py=LINE.replace("dimensions = 1\n", ""), x_yaml="dimensions: 2\nmax_steps: 1\nmax_steps: 2\nmax_step: 5")
    assert pairs("a.py", "x.yaml") == (
        [],
        ["x.yaml:3: max_steps: is written twice", "x.yaml:4: max_step: is not known; did you mean max_steps?"],
    )


def test_what_is_typed_goes_before_the_configuration_and_that_before_the_model(files: Any) -> None:
    files(a_py=LINE, x_yaml="thread_count: 3\ndimensions: 5")
    (pair,), _ = check_pairs(
        ModelsOrder(models=[Path("a.py")], configurations=[Path("x.yaml")], overrides={"thread_count": 7})
    )
    assert (pair.settings.thread_count, pair.settings.dimensions) == (7, 5)


def test_faults_of_models_and_configurations_are_told_together(files: Any) -> None:
    files(a_py=LINE.replace("def cool(", "def other("), b_py=LINE.replace("dimensions = 1", "dimensions = -1"),
          x_yaml="max_steps: 0")  # fmt: skip
    assert pairs("a.py b.py", "x.yaml")[1] == [
        "a.py: cool: is missing (allowed: def cool(initial_temp, old_temp, step))",
        "x.yaml:1: max_steps: is 0 (allowed: 1 to 1,000,000,000,000)",
        "b.py:3: dimensions: is -1 (allowed: 0 to 16,384 random numbers for each step)",
    ]


def test_dimensions_are_needed_to_run_and_not_to_check_a_model(files: Any) -> None:
    files(a_py=LINE.replace("dimensions = 1", ""))
    assert "dimensions: is missing" in pairs("a.py")[1][0]
    assert check_pairs(ModelsOrder(models=[Path("a.py")], with_settings=False)) == ([], [])


@pytest.mark.parametrize("name", ["run.json", "run", "run.yaml.txt"])
def test_another_kind_of_file_is_told(name: str, tmp_path: Path) -> None:
    assert "is neither YAML nor HOCON by its name" in str(read_configuration(tmp_path / name)[1][0])
    assert "does not exist" in str(read_configuration(tmp_path / "run.yaml")[1][0])
