"""What `make gpu-proof` writes, and each of its parts prints, held to the schemas of docs/."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from benchmarks import kernels
from benchmarks.gpu_proof import __main__ as program
from benchmarks.gpu_proof import container, host, loaded, part
from benchmarks.gpu_proof.page import proof_document
from benchmarks.gpu_proof.parts import Place, plan_parts
from benchmarks.gpu_proof.run import Result
from gpuprov.core.execution import Completed
from gpuprov.machine.local import LocalHost
from gpuprov.shapes.base import read
from gpuprov.shapes.gpu_proof import GpuProof, GpuProofPart
from gpuprov.shapes.kernel_rates import KernelRates
from smoke_kernels.ptx import kernel_sources
from smoke_kernels.result import Rate
from tests.schemas import validate
from tests.unit.smoke_kernels.test_benchmark import LOADED

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.slow

PART = "gpuprov.gpu-proof-part/v1"
GPU = {
    "index": 0,
    "name": "NVIDIA Test",
    "uuid": "GPU-1",
    "compute_capability": "9.0",
    "memory_bytes": 85899345920,
    "driver_version": "580.95.05",
    "visible": ["GPU-1"],
}


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., dict[str, Any]]:
    """Runs a part as its process does; no engine of this machine is asked, and no container made."""

    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    def missing(_: LocalHost, __: str) -> None:
        raise ModuleNotFoundError("No module named 'pylxd'", name="pylxd")

    monkeypatch.setattr(container, "_look", refuse)
    monkeypatch.setattr(LocalHost, "open", missing)

    def run(*arguments: str, code: int = 0) -> dict[str, Any]:
        assert part.main([*arguments]) == code
        document: dict[str, Any] = json.loads(capsys.readouterr().out)
        assert validate(document) == PART
        assert read(GpuProofPart, document).part == document["part"]
        assert document["part"] == arguments[0]
        return document

    return run


@pytest.mark.parametrize("name", ["record", "host", "doctor", "container"])
def test_a_part_prints_what_its_schema_says(name: str, printed: Callable[..., dict[str, Any]]) -> None:
    document = printed(name, "--simulate")
    for key, value in (("surprise", 1), ("part", "other"), ("passed", "yes"), ("schema", "gpuprov.error/v1")):
        with pytest.raises((jsonschema.ValidationError, KeyError)):
            validate({**document, key: value})
    del document["passed"]
    with pytest.raises(jsonschema.ValidationError):
        validate(document)


def test_a_part_has_no_keys_of_another(printed: Callable[..., dict[str, Any]]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        validate({**printed("doctor"), "rounds": 1})
    with pytest.raises(ValueError, match="the part doctor has no rounds"):
        read(GpuProofPart, {**printed("doctor"), "rounds": 1})


def test_a_watch_with_changes_is_as_its_schema_says(
    printed: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    well = host.look(simulated=True)
    looks = iter([well, RuntimeError("NVML is gone"), well])

    def look(*, simulated: bool) -> object:
        found = next(looks) if simulated else None
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(host, "look", look)
    monkeypatch.setattr(host, "every", lambda *_: iter([None, None]))
    document = printed("watch", "0", "--simulate", code=1)
    assert [change["after"] for change in document["changes"]] == ["error"]
    assert document["rounds"] == 1


@pytest.mark.parametrize("verified", [True, False])
def test_a_node_is_as_its_schema_says(
    verified: bool, printed: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    from benchmarks.gpu_proof import node

    def told(*arguments: str, timeout_s: float) -> Completed:  # noqa: ARG001 - as a command is run
        said = ""
        if arguments[0] == "verify" and verified:
            checks = printed("host", "--simulate")["checks"]
            said = json.dumps({"simulated": False, "nodes": [{"verdict": "pass", "measured": None, "checks": checks}]})
        return Completed(argv=arguments, exit_code=0, stdout=said, stderr="", seconds=1.0)

    image = node.NodeImage(engine="lxd", role="slurm")
    told_by_node = node.verify_node
    monkeypatch.setattr(node, "verify_node", lambda: told_by_node(command=told, find=lambda: image))
    document = printed("node") if verified else printed("node", code=1)
    assert bool(document["checks"]) == verified
    monkeypatch.setattr(node, "verify_node", lambda: told_by_node(command=told, find=lambda: None))
    assert printed("node")["passed"] is None


def test_what_the_driver_loads_is_as_its_schema_says(
    printed: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert set(LOADED) <= set(kernel_sources())
    device = {**GPU, "multiprocessors": 132, "cooperative_launch": True}
    told = {"passed": True, "why": "", "device": device, "frames": loaded.find_frames(LOADED), "kernels": LOADED}
    monkeypatch.setattr(loaded, "load_kernels", lambda: told)
    printed("loaded")


def test_the_tests_are_as_their_schema_says(
    printed: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "SKIPPED [1] x.py:3: no rate\n8 passed, 1 skipped in 60.1s"
    done = Completed(argv=("x",), exit_code=0, stdout=said, stderr="", seconds=60.0)
    monkeypatch.setattr("benchmarks.gpu_proof.gpu_tests.run", lambda *_, **__: done)
    assert printed("tests", "60")["counts"] == {"passed": 8, "skipped": 1}


@pytest.fixture
def rates(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """What benchmarks.kernels prints on a machine without cuBLAS; the kernels' rates are made up."""

    class Ran:
        kernel, passed, rate = "any", True, Rate(unit="GFLOP/s", samples=(40000.0,))

    def no_library() -> None:
        raise OSError("the loader finds none")

    for name in ("run_matmul", "run_membw", "run_anneal"):
        monkeypatch.setattr(kernels, name, lambda _options: Ran())
    monkeypatch.setattr(kernels, "find_gpu", lambda: GPU)
    monkeypatch.setattr(kernels, "load_cublas", no_library)
    monkeypatch.setattr(kernels, "compare_copy", lambda _repeats: (2900.4, 2950.0))
    assert kernels.main(["--json", "--repeats", "2"]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_rates_beside_cublas_are_as_their_schema_says(rates: dict[str, Any]) -> None:
    assert validate(rates) == "gpuprov.kernel-rates/v1"
    assert read(KernelRates, rates).device.name == "NVIDIA Test"
    assert rates["why"].startswith("no cuBLAS")
    rates["matmul"][0]["tflops"] = "fast"
    with pytest.raises(jsonschema.ValidationError):
        validate(rates)


def test_the_proof_is_as_its_schema_says(
    printed: Callable[..., dict[str, Any]],
    rates: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    documents = {name: printed(name, "--simulate") for name in ("record", "host", "doctor", "container")}
    documents["cublas"] = rates

    def told(parts: object, **_: object) -> list[Result]:
        assert parts
        return [
            Result(part=planned, status="passed", seconds=1.26, document=documents[planned.name])
            if planned.name in documents
            else Result(part=planned, status="not run", why="no root")
            for planned in plan_parts(Place())
        ]

    monkeypatch.setattr(program, "run_parts", told)
    assert program.main([str(tmp_path), "--simulate"]) == 0
    proof = json.loads((tmp_path / "gpu-proof.json").read_text())
    assert validate(proof) == "gpuprov.gpu-proof/v1"
    assert read(GpuProof, proof).not_run == proof["not_run"]
    assert {item["name"] for item in proof["parts"] if item["document"]} == set(documents)
    with pytest.raises(jsonschema.ValidationError):
        validate({**proof, "parts": [{**proof["parts"][0], "document": {"passed": True}}]})
    assert validate(proof_document([], simulated=False, seconds=0.0)) == "gpuprov.gpu-proof/v1"
