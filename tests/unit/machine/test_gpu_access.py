"""Which way GPUs get into nodes in Docker: from what a daemon answers, to the request, the doctor and verify."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from gpuprov.cluster.design import design_node
from gpuprov.cluster.drift import find_drift
from gpuprov.cluster.expected_nodes import expect_node
from gpuprov.cluster.host_gpus import with_offers
from gpuprov.cluster.placement import Place
from gpuprov.cluster.state import ClusterState
from gpuprov.core.errors import HostNotReady
from gpuprov.drivers.base import (
    LABEL_ACCESS,
    LABEL_ACCESS_REASON,
    LABEL_CLUSTER,
    LABEL_GPUS,
    LABEL_HOST_GPUS,
    NodeState,
)
from gpuprov.drivers.capabilities import NotCapable
from gpuprov.drivers.docker.connect import connect
from gpuprov.gpu.allocate import Claims
from gpuprov.machine.gpu_findings import judge_access
from gpuprov.shapes.base import changed
from gpuprov.shapes.cluster_spec import ClusterSpec
from gpuprov.verify.checks.node import judge_lease
from gpuprov.verify.models import Observation
from tests.unit.drivers.test_docker_connect import daemon
from tests.unit.machine.test_gpu_findings import facts_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from gpuprov.cluster.design import NodeDesign
    from gpuprov.drivers.docker.driver import DockerDriver
    from gpuprov.gpu.models import HostGpus


PLAIN = {
    "Version": "20.10.24",
    "ServerVersion": "20.10.24",
    "ApiVersion": "1.41",
    "DockerRootDir": "/nonexistent",
    "Driver": "overlay2",
    "NCPU": 2,
    "MemTotal": 1 << 30,
    "Runtimes": {"runc": {}},
}
RUNTIME = {**PLAIN, "Runtimes": {"runc": {}, "nvidia": {}}}
CDI = {**RUNTIME, "ServerVersion": "28.3.0", "DiscoveredDevices": [{"Source": "cdi", "ID": "nvidia.com/gpu=all"}]}
LACK = "raw access is not possible: the kernel module nvidia-uvm is not loaded"


@contextmanager
def docker(folder: Path, monkeypatch: pytest.MonkeyPatch, answer: dict[str, object]) -> Iterator[DockerDriver]:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{folder}/docker.sock")
    with daemon(folder / "docker.sock", answer):
        driver = connect("docker")
        yield driver
        driver._api.client.close()


def gpus_of(host: str) -> HostGpus:
    gpus = facts_of(host).gpus
    assert gpus
    return gpus


def design(gpus: HostGpus) -> NodeDesign:
    place = Place(host="here", gpus=gpus, leases=(), claims=Claims())
    return design_node(ClusterSpec(), "c000", attachments=(), gpus=gpus.units[:1], sharing="shared", place=place)


@pytest.mark.parametrize(
    ("host", "answer", "way"),
    [
        ("one-gpu", CDI, ("raw", "driver 550.90.07 on the host is sufficient")),
        ("uvm-missing", CDI, ("cdi", f"docker 28.3.0 has found CDI devices nvidia.com/gpu; {LACK}")),
        ("uvm-missing", RUNTIME, ("nvidia-runtime", f"docker 20.10.24 has the runtime nvidia; {LACK}")),
    ],
)
def test_the_way_is_chosen_by_what_is_there_and_shown_with_its_reason(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    host: str,
    answer: dict[str, object],
    way: tuple[str, str],
) -> None:
    kind, reason = way
    with docker(tmp_path, monkeypatch, answer) as driver:
        gpus = with_offers(driver, gpus_of(host))
        offers = driver.facts().gpu_access
    made = design(gpus)
    assert (made.access, made.access_reason) == (kind, reason)
    assert replace(made, access_reason="").labels() == made.labels(), "words are no part of what a node is"
    request = made.request()
    engine = request.engine_gpus
    assert (engine and (engine.access, engine.uuids)) == (None if kind == "raw" else (kind, made.gpus))
    assert bool(request.devices) == (kind == "raw")
    labels = {LABEL_ACCESS: kind, LABEL_ACCESS_REASON: reason, LABEL_GPUS: made.gpus[0], LABEL_CLUSTER: "lab"}
    node = NodeState(name="c000", status="running", labels=labels)
    state = ClusterState(name="lab", recorded=None, settled=None, nodes=(node,), others=(), networks=())
    found = judge_lease(expect_node(node, state, gpus), Observation(facts={}, seconds=0))
    assert (found.status, found.evidence) == ("pass", f"the node holds {made.gpus[0]}, access by {kind} ({reason})")
    doctor = judge_access(gpus_of(host), offers)
    assert doctor.status == "ok"
    assert doctor.evidence.startswith(f"{kind}: {reason}")


@pytest.mark.parametrize(("host", "count"), [("eight-gpu", 8), ("no-gpu", 0)])
def test_a_node_remembers_how_many_real_gpus_its_host_had(host: str, count: int) -> None:
    made = design(gpus_of(host))
    assert made.circumstances().get(LABEL_HOST_GPUS, "0") == str(count)
    assert replace(made, host_gpus=7).labels() == made.labels(), "a node is as designed when its host has lost a GPU"
    state = ClusterState(name="lab", recorded=None, settled=None, nodes=(), others=(), networks=())
    for label, noted in ((str(count), count), ("", 0), ("-3", 0), ("9" * 4000, 0)):
        node = NodeState(name="c000", status="running", labels={LABEL_CLUSTER: "lab", LABEL_HOST_GPUS: label})
        assert expect_node(node, state, None).host_gpus == noted


def test_no_way_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with docker(tmp_path, monkeypatch, PLAIN) as driver:
        gpus = with_offers(driver, gpus_of("uvm-missing"))
    with pytest.raises(HostNotReady, match="nvidia-uvm is not loaded"):
        design(gpus)
    doctor = judge_access(gpus, gpus.offers)
    assert (doctor.status, doctor.fix) == ("fail", "nvidia-modprobe -u -c0")


def test_an_engine_is_not_asked_where_gpus_are_simulated() -> None:
    host = gpus_of("no-gpu")
    assert with_offers(None, host) is host  # type: ignore[arg-type]


def test_another_way_in_is_a_difference_that_a_new_container_alone_can_make(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after an upgrade of the driver without a reboot, beside CDI: a node's raw devices alone would only go."""
    raw = design(gpus_of("one-gpu"))
    node = NodeState(name="c000", status="running", labels=raw.labels(), devices=raw.devices, mounts=raw.mounts)
    with docker(tmp_path, monkeypatch, CDI) as driver:
        node = changed(node, settings=driver.settings(raw.request()))
        assert find_drift(raw, node, driver.settings(raw.request()), live=False).words == ""
        cdi = design(with_offers(driver, gpus_of("uvm-missing")))
        drift = find_drift(cdi, node, driver.settings(cdi.request()), live=False)
        assert f"GPUs from Docker cdi {cdi.gpus[0]} (until now unset)" in drift.words
        assert drift.restart
        assert drift.settings
        with pytest.raises(NotCapable):
            driver.settings(replace(raw, privileged=True).request())
