"""What stands in for dataclasses makes the same of the one form that is used, and nothing else is used."""

from __future__ import annotations

import ast
import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.assets import PACKAGE
from gpuprov.machine.runtime_program import find_python
from gpuprov.runtime import light_dataclasses
from gpuprov.shapes.gate_policy import GatePolicy, PolicyRefusals, PolicyVariables
from tests.unit.runtime.copied import copy_runtime

if TYPE_CHECKING:
    from types import ModuleType

FOLDERS = ("core", "gpu", "runtime")
FORM = "dataclass(frozen=True, kw_only=True)"
OF_FIELDS = {"default", "default_factory", "compare"}


def classes(module: ModuleType) -> tuple[type[Any], type[Any]]:
    """A class and one below it, with all that the form allows."""

    @module.dataclass(frozen=True, kw_only=True)
    class One:
        name: str
        held: tuple[int, ...] = ()
        notes: dict[str, Any] = module.field(default_factory=dict)
        seen: int = module.field(default=1, compare=False)

        def __str__(self) -> str:
            return f"<{self.name}>"

        @property
        def size(self) -> int:
            return len(self.held)

    @module.dataclass(frozen=True, kw_only=True)
    class Two(One):  # noqa: PLW1641 - it is made
        inner: One | None = None
        name: str = "two"

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Two) and self.name == other.name

    return One, Two


def answers(module: ModuleType) -> list[object]:
    one, two = classes(module)
    value = one(name="a", held=(1, 2))
    other = two(inner=value)
    return [
        repr(value).rpartition(".")[2],
        repr(other).rpartition(".")[2],
        (str(value), value.size, value.notes, value.seen, one.held, one.seen, hasattr(one, "notes")),
        (value == one(name="a", held=(1, 2), seen=7), value == one(name="b"), value == "a", value == other),
        (other == two(held=(3,)), other == value),
        hash(one(name="a", notes=())) == hash(one(name="a", notes=(), seen=2)),
        module.asdict(other),
        module.asdict(module.replace(other, name="c", held=(value,), notes={"x": [value]})),
        module.replace(value, name="b").name,
        value.notes is one(name="a").notes,
    ]


def test_it_makes_the_same() -> None:
    assert answers(light_dataclasses) == answers(dataclasses)


@pytest.mark.parametrize("module", [dataclasses, light_dataclasses])
def test_what_is_missing_or_unknown_is_refused(module: ModuleType) -> None:
    one, _ = classes(module)
    for given in ({}, {"name": "a", "nmae": "b"}):
        with pytest.raises(TypeError):
            one(**given)


def test_only_the_one_form_is_used_in_what_the_runtime_may_load() -> None:
    for path in (path for folder in FOLDERS for path in sorted((PACKAGE / folder).glob("*.py"))):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and "dataclass" in (
                said := " ".join(map(ast.unparse, node.decorator_list))
            ):
                assert said == FORM, f"{path}: {node.name}"
                lines = [one for one in node.body if isinstance(one, ast.AnnAssign)]
                assert not [one for one in lines if "ClassVar" in ast.unparse(one.annotation)], f"{path}: {node.name}"
                assert not [one for one in node.body if getattr(one, "name", "") == "__post_init__"], path
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "field":
                assert {word.arg for word in node.keywords} <= OF_FIELDS, path


@pytest.mark.slow
def test_the_copied_runtime_gives_a_container_its_gpu(tmp_path: Path) -> None:
    """By Python as engines run it, from what was compiled beside the copy; the lock and the leases are the test's."""
    rules = GatePolicy(variables=PolicyVariables(force={"A": "1"}), refuse=PolicyRefusals(devices=True))
    program, library = copy_runtime(tmp_path, gpus=2, runc=Path("/bin/true"), rules=rules)
    compiled = {path: path.stat().st_mtime_ns for path in library.rglob("*.pyc")}
    assert library / f"gpuprov/runtime/__pycache__/create.{sys.implementation.cache_tag}.pyc" in compiled
    bundle = tmp_path / "bundle"
    (bundle / "rootfs").mkdir(parents=True)
    (bundle / "config.json").write_text(json.dumps({"process": {"env": ["GPUPROV_GPUS=1"]}}))
    start = library / "gpuprov/runtime/start.py"
    words = [str(library), str(program.folder), str(os.getpid()), str(bundle), str(tmp_path / "moby"), "one", "", "1"]
    words += ["requests", ""]
    command = [str(find_python()), "-I", "-S", "-W", "error", str(start), *words]
    done = subprocess.run(command, env={}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    spec = json.loads((bundle / "config.json").read_text())
    assert [one["path"] for one in spec["linux"]["devices"]] == ["/dev/nvidia0", "/dev/nvidiactl"]
    assert "A=1" in spec["process"]["env"]
    assert {path: path.stat().st_mtime_ns for path in library.rglob("*.pyc")} == compiled
