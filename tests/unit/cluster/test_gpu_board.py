"""`gpus`: the board of a host, what of it changes, and its document."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from gpuprov.cli.gpus import render_board, render_gpu_change
from gpuprov.cluster.gpu_board import GpuBoard, build_rows, look_at_gpus, watch_gpus
from gpuprov.cluster.leases import Neighbours
from gpuprov.cluster.told_gpus import tell_board
from gpuprov.core.errors import HostNotReady
from gpuprov.drivers.base import LABEL_CLUSTER, LABEL_GPUS, LABEL_SHARING
from gpuprov.gpu.allocate import Lease, LeaseRequest
from gpuprov.gpu.models import Gpu, HostGpus, MigInstance
from gpuprov.gpu.observe import observe
from gpuprov.gpu.tickets import render_ticket
from gpuprov.shapes.base import write
from gpuprov.shapes.gpus import GpusWatch
from tests.fakes.doors import door_of
from tests.fakes.driver import FakeDriver
from tests.fakes.engine import FakeEngine, FakeNode
from tests.fakes.host import FakeHost
from tests.schemas import validate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuprov.shapes.gpus import GpuChange

HOST = observe(root=Path("/nonexistent"), mode="simulated", simulated_count=2)
FIRST, SECOND = (unit.uuid for unit in HOST.units)
DOWN = {"docker": HostNotReady("docker is not running", evidence="no socket", fix="start it")}


def lease(node: str, *gpus: str, engine: str = "lxd", sharing: str = "shared", status: str = "running") -> Lease:
    return Lease(node=node, gpus=gpus, sharing=sharing, engine=engine, cluster="lab", status=status)  # type: ignore[arg-type]


def split_host() -> HostGpus:
    part = MigInstance(index=0, uuid="MIG-1", gpu_instance=7, compute_instance=0, memory_bytes=10 << 30)
    whole = Gpu(index=0, uuid="GPU-a", minor=3, pci="0000:65:00.0", model="A100", mig_enabled=True, mig=(part,))
    empty = Gpu(index=1, uuid="GPU-b", minor=0, pci="0000:66:00.0", model="A100", mig_enabled=True)
    return HostGpus(simulated=False, reason="NVML", driver_version="580", cuda_driver_version=None, gpus=(whole, empty))


def validated(board: GpuBoard) -> dict[str, Any]:
    document = {"version": 1, **write(tell_board(board, host="h"))}
    validate(document)
    return document


def test_the_schema_refuses_what_is_not_so() -> None:
    document = validated(GpuBoard(host=HOST, leases=(lease("c000", FIRST),)))
    for key, value in (("sharing", "mine"), ("index", "0"), ("extra", 1)):
        wrong = {**document, "gpus": [{**document["gpus"][0], key: value}]}
        with pytest.raises(jsonschema.ValidationError):
            validate(wrong)


def test_both_engines_the_queue_and_what_the_host_does_not_show(tmp_path: Path) -> None:
    engines = {"lxd": FakeEngine(), "docker": FakeEngine()}
    for engine, node, uuid, sharing in (
        ("lxd", "c000", FIRST, "shared"),
        ("lxd", "c001", FIRST, "shared"),
        ("docker", "job-1", SECOND, "exclusive"),
        ("docker", "old", "GPU-gone", "shared"),
    ):
        labels = {LABEL_CLUSTER: "lab", LABEL_GPUS: uuid, LABEL_SHARING: sharing}
        engines[engine].nodes[node] = FakeNode(name=node, labels=labels)

    doors = []
    for name, made in engines.items():
        driver = FakeDriver(made)
        driver.name = name
        doors.append(door_of(driver))
    neighbours = Neighbours(FakeHost(folder=tmp_path, observe=lambda _mode: HOST, engines=tuple(doors)))
    with neighbours.queue.join(render_ticket(LeaseRequest(node="x", sharing="exclusive", count=2))):
        board = look_at_gpus(HOST, neighbours)
    text = render_board(board)
    lines = text.splitlines()
    assert lines[1].endswith("shared     c[000-001] (lxd lab stopped)")
    assert "exclusive  job-1 (docker lab stopped)" in lines[2]
    assert lines[2].startswith("1    SIMULATED NVIDIA H100")
    assert "(not on this host)" in lines[3]
    assert "GPU-gone" in lines[3]
    assert lines[4].endswith("(2, exclusive)")
    document = validated(board)
    assert [gpu["present"] for gpu in document["gpus"]] == [True, True, False]
    assert [holder["node"] for holder in document["gpus"][0]["holders"]] == ["c000", "c001"]
    assert document["gpus"][1]["sharing"] == "exclusive"
    assert document["waiting"] == [line.removeprefix("waiting: ") for line in lines[4:]]


def test_who_waits_in_the_queue_shows_no_values_of_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["/usr/bin/gpuprov", "run", "-e", "COLOUR=hunter2", "--gpus", "1", "--", "train"])
    ticket = render_ticket(LeaseRequest(node="x", sharing="exclusive", count=1))
    assert "hunter2" not in ticket
    assert "gpuprov run -e COLOUR=(hidden) --gpus 1 -- train" in ticket


def test_free_gpus_mig_instances_and_a_gpu_split_into_nothing() -> None:
    host = split_host()
    assert [row.uuid for row in build_rows(host, ())] == ["MIG-1", "GPU-b"]
    board = GpuBoard(host=host, leases=())
    text = render_board(board).splitlines()
    assert text[1].split()[:8] == ["0:0", "A100", "10.0", "GiB", "3", "0000:65:00.0", "gi7/ci0", "580"]
    assert text[1].endswith("MIG-1  free     -")
    assert "no instances" in text[2]
    document = validated(board)
    assert document["gpus"][0]["mig"] == {"enabled": True, "index": 0, "gpu_instance": 7, "compute_instance": 0}
    assert document["gpus"][1]["memory_bytes"] is None


def test_an_engine_that_does_not_answer_is_said() -> None:
    board = GpuBoard(host=HOST, leases=(), silent=DOWN)
    assert "docker does not respond" in render_board(board)
    assert " unknown " in render_board(board)  # not free: who knows
    assert validated(board)["silent"][0]["fix"] == "start it"


def watch(*rounds: GpuBoard | Exception) -> list[list[str]]:
    """Lines of each round after the first that has any."""
    told: list[list[str]] = []
    given = iter(rounds)

    def look() -> GpuBoard:
        seen = next(given)
        if isinstance(seen, Exception):
            raise seen
        return seen

    def tell(changes: Sequence[GpuChange]) -> None:
        validate(write(GpusWatch(at="2026-01-01T00:00:00Z", host="h", changes=tuple(changes))))
        told.append([render_gpu_change(change) for change in changes])

    shown: list[GpuBoard] = []
    watch_gpus(look, rounds=[None] * len(rounds), first=shown.append, tell=tell)
    assert shown == [rounds[0]]
    return told


def test_watch_tells_what_changes_and_nothing_else() -> None:
    free = GpuBoard(host=HOST, leases=())
    held = replace(free, leases=(lease("c000", FIRST), lease("j", SECOND, engine="docker", sharing="exclusive")))
    stopped = replace(free, leases=(lease("c000", FIRST, status="stopped"), *held.leases[1:]))
    assert watch(free, free, held, stopped, free) == [
        [f"GPU 0 {FIRST}: taken by c000 (lxd lab), shared", f"GPU 1 {SECOND}: taken by j (docker lab), exclusive"],
        [
            f"GPU 0 {FIRST}: released by c000 (lxd lab stopped), shared",
            f"GPU 1 {SECOND}: released by j (docker lab), exclusive",
        ],
    ]


def test_who_does_not_answer_has_released_nothing_as_far_as_anybody_knows() -> None:
    held = GpuBoard(host=HOST, leases=(lease("j", FIRST, engine="docker"),))
    dark = GpuBoard(host=HOST, leases=(), silent=DOWN)
    back = GpuBoard(host=HOST, leases=(lease("k", FIRST, engine="docker"),))
    assert watch(held, dark, dark, back) == [
        ["docker does not respond; the GPUs that it holds are unknown: docker is not running: no socket"],
        [
            "docker responds again",
            f"GPU 0 {FIRST}: released by j (docker lab), shared",
            f"GPU 0 {FIRST}: taken by k (docker lab), shared",
        ],
    ]


def test_gpus_that_come_and_go_and_a_driver_that_fails() -> None:
    one = replace(HOST, gpus=HOST.gpus[:1], driver_version="590")
    board = GpuBoard(host=HOST, leases=())
    assert watch(board, replace(board, host=one), HostNotReady("broken", evidence="e", fix="f"), board) == [
        ["driver is now 590", f"GPU 1 {SECOND}: disappeared"],
        ["the GPUs cannot be read: broken evidence: e fix: f"],
        ["the GPUs can be read again", "driver is now 580.95.05", f"GPU 1 {SECOND}: appeared"],
    ]


def test_a_first_round_that_fails_is_an_error() -> None:
    with pytest.raises(HostNotReady):
        watch(HostNotReady("broken", evidence="e", fix="f"))
