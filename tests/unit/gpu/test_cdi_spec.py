"""The host's GPUs as CDI has them: which names, which devices with which rights, and no hook."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.core.errors import HostNotReady
from gpuprov.gpu.access import decide_access
from gpuprov.gpu.cdi_spec import make_cdi_spec, render_cdi_spec
from gpuprov.shapes.base import read
from gpuprov.shapes.cdi import CdiSpec

if TYPE_CHECKING:
    from gpuprov.gpu.models import HostGpus

Recorded = Callable[[str], Any]
HOSTS = ("eight-gpu", "mig", "one-gpu", "h100-vm", "h200-vm", "no-gpu")
# As the Go package of CDI checks them
NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?")
KIND = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z]+)+/[a-z]+")


def document(host: HostGpus) -> dict[str, Any]:
    text = render_cdi_spec(make_cdi_spec(host))
    assert read(CdiSpec, text) == make_cdi_spec(host)
    told: dict[str, Any] = json.loads(text)
    return told


def nodes_of(told: dict[str, Any], name: str) -> list[dict[str, Any]]:
    (edits,) = [device["containerEdits"] for device in told["devices"] if device["name"] == name]
    return [*edits["deviceNodes"], *told["containerEdits"]["deviceNodes"]]


@pytest.mark.parametrize("name", HOSTS)
def test_the_specification_is_what_cdi_takes(recorded: Recorded, name: str) -> None:
    told = document(recorded(name).observe())
    assert told["cdiVersion"] == "0.5.0"
    assert KIND.fullmatch(told["kind"])
    names = [device["name"] for device in told["devices"]]
    assert len(set(names)) == len(names)
    assert all(map(NAME.fullmatch, names))
    for edits in (told["containerEdits"], *(device["containerEdits"] for device in told["devices"])):
        assert edits.keys() <= {"env", "deviceNodes", "mounts"}, "a hook would run on the host"
        assert edits["deviceNodes"], "an engine refuses a device without edits"
        for node in edits["deviceNodes"]:
            assert node["permissions"] == "rw", "what is not said is rwm"
        for mount in edits.get("mounts", []):
            assert {"ro", "nosuid", "nodev"} <= set(mount["options"])


@pytest.mark.parametrize("name", HOSTS)
def test_a_container_gets_what_a_node_gets(recorded: Recorded, name: str) -> None:
    host = recorded(name).observe()
    told = document(host)
    for unit in host.units:
        access = decide_access(host, (unit,))
        for called in (unit.label, unit.uuid):
            assert {node["path"] for node in nodes_of(told, called)} == {device.path for device in access.devices}
    mounts = told["containerEdits"]["mounts"]
    wanted = {(mount.source, mount.target) for mount in access.mounts}
    assert {(mount["hostPath"], mount["containerPath"]) for mount in mounts} == wanted
    everything = decide_access(host, host.units).devices
    assert {node["path"] for node in nodes_of(told, "all")} == {device.path for device in everything}


def test_a_mig_instance_is_named_by_both_numbers(recorded: Recorded) -> None:
    told = document(recorded("mig").observe())
    assert [device["name"] for device in told["devices"]][:3] == ["0:0", "0:1", "1"]
    paths = [node["path"] for node in nodes_of(told, "0:0")]
    assert sum(path.startswith("/dev/nvidia-caps/") for path in paths) == 2


def test_numbers_are_told_of_simulated_devices_alone(recorded: Recorded) -> None:
    real, simulated = document(recorded("one-gpu").observe()), document(recorded("no-gpu").observe())
    assert {tuple(node) for node in nodes_of(real, "all")} == {("path", "permissions")}
    assert [(node["type"], node["major"]) for node in nodes_of(simulated, "0")] == [("c", 195)] * 2
    assert (real["kind"], simulated["kind"]) == ("nvidia.com/gpu", "gpuprov.sim/gpu")
    assert simulated["containerEdits"]["mounts"] == []


def test_beside_a_driver_simulated_gpus_open_nothing_real(recorded: Recorded) -> None:
    told = document(recorded("one-gpu").observe("simulated"))
    assert {node["path"] for node in nodes_of(told, "all")} == {f"/dev/nvidia{128 + number}" for number in range(4)}


def test_a_host_that_lacks_what_cuda_needs_gets_no_file(recorded: Recorded) -> None:
    with pytest.raises(HostNotReady, match="nvidia-uvm is not loaded"):
        make_cdi_spec(recorded("uvm-missing").observe())
    with pytest.raises(HostNotReady, match="there is no GPU"):
        make_cdi_spec(replace(recorded("one-gpu").observe(), gpus=()))
