"""Simulated hosts of other kinds: by the name of a profile, or as another host was recorded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.core.errors import UsageError
from gpuprov.gpu.nvml import read_nvml
from gpuprov.gpu.observe import observe
from gpuprov.gpu.simulate import SimulatedNvml
from gpuprov.gpu.type_name import gpu_type
from gpuprov.machine.local import COUNT_VARIABLE, PROFILE_VARIABLE, LocalHost
from gpuprov.machine.record import take_record

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuprov.gpu.models import HostGpus

HOSTS = Path(__file__).parents[2] / "data" / "hosts"


def simulate(root: Path, profile: str, count: int | None = None) -> HostGpus:
    return observe(root=root, mode="auto", profile=profile, simulated_count=count)


def record_of(name: str, folder: Path) -> Path:
    """What `gpuprov record` writes on a host of the test data."""
    nvml = json.loads((HOSTS / name / "nvml.json").read_text())
    record = take_record(HOSTS / name / "root", read=lambda: read_nvml(SimulatedNvml(nvml)))
    path = folder / f"{name}.json"
    path.write_text(json.dumps(record))
    return path


@pytest.mark.parametrize(
    ("profile", "types"),
    [
        ("", ["h100"] * 4),
        ("h100x8", ["h100"] * 8),
        ("a100x4", ["a100"] * 4),
        ("gtx1080", ["gtx_1080"]),
        ("t4x2", ["t4"] * 2),
        ("mixed", ["h100", "h100", "a100", "t4"]),
    ],
)
def test_a_profile_is_a_kind_of_host(tmp_path: Path, profile: str, types: list[str]) -> None:
    host = simulate(tmp_path, profile)
    assert host.simulated
    assert [gpu_type(gpu.model) for gpu in host.gpus] == types
    assert all(gpu.model.startswith("SIMULATED ") for gpu in host.gpus)
    assert profile in host.reason
    assert read_nvml(SimulatedNvml(dict(host.document or {}))).gpus == host.gpus


def test_more_gpus_than_a_profile_has_begin_anew(tmp_path: Path) -> None:
    host = simulate(tmp_path, "t4x2", 5)
    assert [gpu.index for gpu in host.gpus] == [gpu.minor for gpu in host.gpus] == [0, 1, 2, 3, 4]
    assert len({gpu.pci for gpu in host.gpus}) == len({gpu.uuid for gpu in host.gpus}) == 5
    assert {gpu_type(gpu.model) for gpu in host.gpus} == {"t4"}
    assert len(simulate(tmp_path, "h100x8", 2).gpus) == 2


@pytest.mark.parametrize("name", ["eight-gpu", "mig", "one-gpu", "h100-vm"])
def test_a_recorded_host_is_simulated_with_uuids_of_this_machine(
    tmp_path: Path, recorded: Callable[[str], Any], name: str
) -> None:
    real = recorded(name).observe()
    host = simulate(tmp_path, str(record_of(name, tmp_path)))
    for is_one, was in zip(host.gpus, real.gpus, strict=True):
        assert is_one.model == f"SIMULATED {was.model}"
        for known in ("minor", "pci", "memory_bytes", "compute_capability", "mig_enabled"):
            assert getattr(is_one, known) == getattr(was, known), known
    assert [unit.label for unit in host.units] == [unit.label for unit in real.units]
    assert not {unit.uuid for unit in host.units} & {unit.uuid for unit in real.units}
    assert len({unit.uuid for unit in host.units}) == len(real.units)
    assert host.driver_version == real.driver_version
    assert read_nvml(SimulatedNvml(dict(host.document or {}))).gpus == host.gpus
    everything = simulate(tmp_path, str(record_of(name, tmp_path)), 64)
    assert everything.gpus[: len(host.gpus)] == host.gpus
    assert len({gpu.minor for gpu in everything.gpus}) == len({gpu.pci for gpu in everything.gpus}) == 64


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("mixd", "did you mean mixed?"),
        ("h100x9", "profiles: h100x8, a100x4, gtx1080, t4x2, mixed"),
        ("none/such", "No such file"),
        ("/", "Is a directory"),
        ("a\nb", "profiles: "),
    ],
)
def test_an_unknown_profile_is_refused_with_the_list(tmp_path: Path, typed: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        simulate(tmp_path, typed)
    assert said in caught.value.evidence
    such = "mixed" if typed == "mixd" else "h100x8"
    assert caught.value.fix.startswith(f"gpuprov gpus --gpu-profile {such} ")


def _damage(record: dict[str, Any], **changes: object) -> dict[str, Any]:
    return {**record, "nvml": {**record["nvml"], "gpus": [{**gpu, **changes} for gpu in record["nvml"]["gpus"]]}}


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda _: "", ""),
        (lambda _: {}, ""),
        (lambda _: {"schema": "gpuprov.record/v1"}, ""),
        (lambda record: {**record, "nvml": None}, "NVML listed no GPU"),
        (lambda record: {**record, "nvml": {**record["nvml"], "gpus": []}}, "NVML listed no GPU"),
        (lambda record: _damage(record, minor=3), "distinct numbers"),
        (lambda record: _damage(record, minor=-1), ""),
        (lambda record: _damage(record, pci="65"), "0000:65:00.0"),
        (lambda record: _damage(record, model=7), ""),
    ],
)
def test_a_damaged_record_is_refused(tmp_path: Path, damage: Callable[[Any], Any], said: str) -> None:
    path = record_of("eight-gpu", tmp_path)
    path.write_text(json.dumps(damage(json.loads(path.read_text()))))
    with pytest.raises(UsageError, match="is no record of a host with GPUs") as caught:
        simulate(tmp_path, str(path))
    assert said in caught.value.evidence


def test_what_is_typed_comes_before_the_variable(tmp_path: Path) -> None:
    variables = {PROFILE_VARIABLE: "t4x2"}
    assert len(LocalHost(root=tmp_path, environment=variables).gpus("auto").gpus) == 2
    assert len(LocalHost(root=tmp_path, environment=variables, gpu_profile="mixed").gpus("auto").gpus) == 4
    more = {**variables, COUNT_VARIABLE: "3"}
    assert len(LocalHost(root=tmp_path, environment=more).gpus("auto").gpus) == 3
    assert len(LocalHost(root=tmp_path, environment=variables).all_gpus("auto").gpus) == 64


def test_real_gpus_are_never_taken_for_a_profile(
    recorded: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuprov.machine.local.LocalHost._observe", lambda *_: recorded("one-gpu").observe())
    assert not LocalHost(environment={PROFILE_VARIABLE: "t4x2"}).gpus("auto").simulated
    with pytest.raises(UsageError, match="those of this host are real"):
        LocalHost(gpu_profile="t4x2").gpus("auto")
