from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.shapes.node import CharDevice
from gpuprov.verify.models import Expectation, HostProblem, Observation, Peer

if TYPE_CHECKING:
    from collections.abc import Callable

DATA = Path(__file__).parent / "data"
PEERS = (Peer(name="c000", address="10.0.3.2", private_address="10.0.5.1"),)
CTL = CharDevice(path="/dev/nvidiactl", major=195, minor=255)
EXPECTED = {
    "simulated": Expectation(
        node="c001",
        status="running",
        role="slurm",
        access="simulated",
        gpus=("GPU-51515151-5151-4151-8151-000000000000",),
        sharing="exclusive",
        devices=(CharDevice(path="/dev/nvidia0", major=195, minor=0), CTL),
        denied=(1, 253),
        simulation={"gpus": []},
        peers=PEERS,
        gateway="10.0.3.1",
        people={"ann": 10001},
        people_keys="e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        sssd=True,
    ),
    "real": Expectation(
        node="c001",
        status="running",
        role="slurm",
        access="raw",
        gpus=("GPU-aaaaaaaa-0000-4000-8000-000000000000", "GPU-aaaaaaaa-0000-4000-8000-000000000002"),
        sharing="exclusive",
        devices=(
            CharDevice(path="/dev/nvidia0", major=195, minor=0),
            CharDevice(path="/dev/nvidia2", major=195, minor=2),
            CTL,
            CharDevice(path="/dev/nvidia-uvm", major=510, minor=0),
            CharDevice(path="/dev/nvidia-uvm-tools", major=510, minor=1),
        ),
        denied=(1, 253),
        driver_version="580.95.05",
        peers=PEERS,
        gateway="10.0.3.1",
        people={"ann": 10001},
        people_keys="e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        sssd=True,
    ),
}

Case = dict[str, Any]


def change(document: Any, path: str, value: object) -> None:
    """Set `a.b.0.c`; a key may hold slashes, not dots."""
    *parents, last = [int(key) if key.isdigit() else key for key in path.split(".")]
    for key in parents:
        document = document[key]
    document[last] = value


@cache
def _text(base: str) -> str:
    return (DATA / f"{base}.json").read_text()


def build(case: Case) -> tuple[Expectation, Observation]:
    expected = EXPECTED[case["base"]]
    facts = json.loads(_text(case["base"]))
    for path, value in case.get("facts", {}).items():
        change(facts, path, value)
    if "document" in case:
        document = json.loads(facts["kernels"]["stdout"])
        for path, value in case["document"].items():
            change(document, path, value)
        facts["kernels"]["stdout"] = json.dumps(document)
    changes = dict(case.get("expect", {}))
    if "host_problem" in changes:
        changes["host_problem"] = HostProblem(**changes["host_problem"])
    seen = {"facts": facts, **case.get("seen", {})}
    return replace(expected, **changes), Observation(seconds=1.5, **seen)


@pytest.fixture
def build_case() -> Callable[[Case], tuple[Expectation, Observation]]:
    return build
