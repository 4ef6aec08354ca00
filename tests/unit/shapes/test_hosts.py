"""What follows from other keys is derived, and what hosts tell each other is held to limits."""

from __future__ import annotations

from typing import Any

import pytest

from gpuprov.shapes.base import changed, read, write
from gpuprov.shapes.gpus import Gpus, HeldGpu, Mig
from gpuprov.shapes.members import PartOfHost, ToldTaken
from gpuprov.shapes.nodes import NodeRow, Nodes
from gpuprov.shapes.outcome import Changes, ClusterUp

ROW = NodeRow(
    name="c000",
    host="here",
    cluster="lab",
    engine="lxd",
    role="slurm",
    status="running",
    address="",
    private_address="",
    gpus=("GPU-1",),
    devices=("/dev/nvidia0",),
    sharing="shared",
    simulated=False,
    work="idle",
    health="ok",
    image="lab",
)
NO_MIG = Mig(enabled=None, index=None, gpu_instance=None, compute_instance=None)
GPU = HeldGpu(
    uuid="GPU-1",
    label="0",
    index=0,
    minor=0,
    device="/dev/nvidia0",
    pci="0000:01:00.0",
    mig=NO_MIG,
    model="H100",
    memory_bytes=None,
    compute_capability=None,
    present=True,
    driver="580",
    simulated=False,
    sharing=None,
    holders=(),
)
BOARD = Gpus(
    host="here", simulated=False, reason="", driver="", gpus=(GPU,), foreign=(), waiting=(), lost=(), silent=()
)
PART = PartOfHost(
    host="here",
    engine="lxd",
    known_as="",
    exists=False,
    record="",
    nodes=(ROW,),
    words={},
    offer=None,
    address="10.1.2.3",
    mtu=1500,
    tunnel_key="",
    taken=ToldTaken(names=(), links=(), nodes=(), prefixes=()),
    no_engine=None,
)


def test_the_word_of_a_role_stands_under_its_earlier_name_too() -> None:
    told = write(Nodes(host="here", nodes=(ROW,)))
    assert (told["nodes"][0]["work"], told["nodes"][0]["slurm"]) == ("idle", "idle")
    assert changed(ROW, work="down").slurm == "down"
    assert read(Nodes, told).nodes == (ROW,)


def test_what_follows_from_changes_and_nodes_is_derived() -> None:
    assert write(Changes(host="here", changed=()))["unchanged"]
    beside = changed(ROW, name="c001")
    told = write(ClusterUp(host="here", changed=("created node c001",), nodes=(ROW, beside)))
    assert (told["unchanged"], told["shared"]) == (False, "2 nodes share 1 GPU")
    assert "shared" not in write(ClusterUp(host="here", changed=(), nodes=(ROW,)))


@pytest.mark.parametrize("key", ["index", "minor", "pci", "model"])
def test_a_gpu_that_is_there_has_what_every_gpu_has(key: str) -> None:
    told = write(BOARD)
    told["gpus"][0][key] = None
    with pytest.raises(ValueError, match=f"a GPU that exists has no {key}"):
        read(Gpus, told)
    told["gpus"][0]["present"] = False
    assert read(Gpus, told)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("address", "10.1.2.333"),
        ("address", "x"),
        ("tunnel_key", "a" * 44),
        ("mtu", 100_001),
        ("engine", "podman"),
        ("exists", "yes"),
        ("words", {"c000": 1}),
        ("offer", "{}"),
    ],
)
def test_a_part_is_held_to_limits(key: str, value: object) -> None:
    told: dict[str, Any] = write(PART)
    assert read(PartOfHost, told) == PART
    with pytest.raises(ValueError, match=r"."):
        read(PartOfHost, {**told, key: value})
