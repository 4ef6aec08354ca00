from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from gpuprov.core.errors import EngineError
from gpuprov.drivers.base import NodeRequest
from gpuprov.drivers.lxd import documents
from gpuprov.drivers.lxd.family import KIN
from gpuprov.drivers.lxd.mac_conflicts import explain_double
from gpuprov.drivers.networks import NetworkRequest
from gpuprov.gpu.driver_mounts import plan_library_mounts
from gpuprov.gpu.models import SONAMES, DriverFiles
from gpuprov.shapes.base import changed
from gpuprov.shapes.node import Attachment, CharDevice, Exposure, Mount
from gpuprov.spec.addressing import mac

NICS = (
    Attachment(
        network="gpbr0",
        interface="eth0",
        kind="veth",
        address="10.0.3.2/24",
        mac="00:16:3e:00:00:01",
        gateway="10.0.3.1",
    ),
    Attachment(network="gpbr1", interface="eth1", kind="macvlan", address="10.0.5.1/24", mac="00:16:3e:00:00:02"),
)
REQUEST = NodeRequest(
    name="c000",
    image="image:0",
    labels={"gpuprov.cluster": "lab"},
    attachments=NICS,
    devices=(CharDevice(path="/dev/nvidia0", major=195, minor=0),),
    mounts=(Mount(source="/srv", target="/mnt/in"), Mount(source="/data", target="/mnt/out", read_only=False)),
    cpus=2,
    memory_bytes=1 << 30,
    environment={"NVIDIA_VISIBLE_DEVICES": "all"},
)


def as_listed(rendered: dict[str, Any], labels: dict[str, str]) -> dict[str, Any]:
    """The document that LXD lists for an instance made from a rendered one."""
    return {
        "name": "c000",
        "status": "Running",
        "config": {**rendered["config"], **documents.label_config(labels)},
        "expanded_devices": rendered["devices"],
        "snapshots": [{"name": "one"}],
        "created_at": "2026-01-01T00:00:00Z",
    }


def test_a_rendered_request_comes_back_as_its_state() -> None:
    rendered = documents.render_instance(REQUEST, kin=KIN["lxd"], pool="default", shift=True)
    state = documents.parse_instance(as_listed(rendered, {"gpuprov.cluster": "lab", "gpuprov.note": ""}))
    assert state.status == "running"
    assert dict(state.labels) == {"gpuprov.cluster": "lab"}
    assert dict(state.addresses) == {"eth0": "10.0.3.2/24", "eth1": "10.0.5.1/24"}
    assert state.devices == REQUEST.devices
    assert set(state.mounts) == set(REQUEST.mounts)
    assert dict(state.environment) == dict(REQUEST.environment)
    assert state.snapshots == ("one",)
    assert not state.privileged


def test_nodes_are_unprivileged_and_name_each_minor() -> None:
    rendered = documents.render_instance(REQUEST, kin=KIN["lxd"], pool="default", shift=True)
    assert rendered["config"]["security.privileged"] == "false"
    assert rendered["config"]["limits.cpu"] == "2"
    assert rendered["config"]["limits.memory"] == str(1 << 30)
    devices = rendered["devices"]
    assert [device for device in devices.values() if device["type"] == "unix-char"] == [
        {"type": "unix-char", "path": "/dev/nvidia0", "major": "195", "minor": "0", "mode": "0666"}
    ]
    assert devices["mount-mnt-in"] == {"type": "disk", "source": "/srv", "path": "/mnt/in", "readonly": "true"}
    assert devices["mount-mnt-out"]["shift"] == "true"


def test_mounts_whose_targets_look_alike_are_devices_of_their_own() -> None:
    alike = ("/data/a", "/data-a", "/data_a", "/data/a/", "/data/\u00e4a")
    mounts = [Mount(source=f"/srv/{number}", target=target) for number, target in enumerate((*alike, "/data.a"))]
    devices = documents.render_devices((), mounts, shift=False)
    assert {device["path"]: device["source"] for device in devices.values()} == {m.target: m.source for m in mounts}
    assert devices == documents.render_devices((), reversed(mounts), shift=False)
    assert all(re.fullmatch(r"mount-[A-Za-z0-9._-]+", name) for name in devices)
    assert devices["mount-data.a"]["path"] == "/data.a"  # nobody else's
    state = documents.parse_instance(as_listed({"config": {}, "devices": devices}, {}))
    assert set(state.mounts) == set(mounts)


def test_the_drivers_libraries_have_names_that_lxd_takes() -> None:
    paths = [f"/usr/lib64/{stem}.so.535.104.05" for stem in SONAMES]
    files = DriverFiles(version="535.104.05", libraries=tuple(paths), nvidia_smi="/usr/bin/nvidia-smi")
    mounts = plan_library_mounts(files)
    devices = documents.render_devices((), mounts, shift=False)
    assert {device["path"] for device in devices.values()} == {mount.target for mount in mounts}
    assert max(map(len, devices)) == 63  # LXD refuses more than 64
    assert "mount-usr-lib-x86-64-linux-gnu-libcuda.so.1" in devices


def test_shifting_only_where_it_can_be_and_is_needed() -> None:
    for shift, privileged in ((False, False), (True, True)):
        request = NodeRequest(name="c", image="i", labels={}, mounts=REQUEST.mounts, privileged=privileged)
        rendered = documents.render_instance(request, kin=KIN["lxd"], pool="default", shift=shift)
        assert "shift" not in rendered["devices"]["mount-mnt-out"]


def test_addresses_are_numbered_as_lxd_numbers_nics() -> None:
    assert documents.render_addresses(NICS).splitlines() == [
        "lxc.net.0.ipv4.address = 10.0.3.2/24 10.0.3.255",
        "lxc.net.0.ipv4.gateway = 10.0.3.1",
        "lxc.net.1.ipv4.address = 10.0.5.1/24 10.0.5.255",
    ]
    assert documents.render_addresses(NICS[1:]).splitlines() == ["lxc.net.0.ipv4.address = 10.0.5.1/24 10.0.5.255"]
    rendered = documents.render_instance(
        NodeRequest(name="c000", image="i", labels={}, attachments=NICS[1:]), kin=KIN["lxd"], pool="p", shift=True
    )
    assert dict(documents.parse_instance(as_listed(rendered, {})).addresses) == {"eth1": "10.0.5.1/24"}


def test_a_foreign_instance_shows_the_address_it_fixes_in_lxd_s_own_way() -> None:
    document = as_listed({"config": {}, "devices": {}}, {})
    document["expanded_devices"] = {
        "eth0": {"type": "nic", "ipv4.address": "10.0.3.9", "network": "br"},
        "gpu": {"type": "unix-char", "source": "/dev/x", "path": "/dev/x"},
        "proxy": {"type": "proxy", "listen": "unix:/x", "connect": "unix:/y"},
    }
    state = documents.parse_instance(document)
    assert dict(state.addresses) == {"eth0": "10.0.3.9"}
    assert not state.ours
    assert state.devices == ()
    assert state.exposed == ()


def test_an_exposure_comes_back() -> None:
    exposure = Exposure(host_port=7000, node_port=8080)
    document = as_listed({"config": {}, "devices": {}}, {})
    document["expanded_devices"] = {documents.exposure_device(7000): documents.render_exposure(exposure)}
    assert documents.parse_instance(document).exposed == (exposure,)


def test_networks_come_back() -> None:
    for address in ("10.0.3.1/24", None):
        request = NetworkRequest(name="gpbr0", labels={"gpuprov.cluster": "lab"}, address=address)
        rendered = documents.render_network(request)
        state = documents.parse_network({**rendered, "managed": True})
        assert (state.name, state.address, state.ours) == ("gpbr0", address, True)
        assert rendered["config"].get("ipv4.nat") == ("true" if address else None)
    host = documents.parse_network({"name": "eth0", "managed": False, "config": {}})
    assert (host.managed, host.ours) == (False, False)


def named(name: str, uuid: str, labels: dict[str, str], **config: str) -> dict[str, Any]:
    """An instance that was made as c000, as LXD lists it."""
    document = as_listed(documents.render_instance(REQUEST, kin=KIN["lxd"], pool="default", shift=True), labels)
    document["config"] |= {documents.UUID: uuid, **documents.render_self("c000", {documents.UUID: "u1"}), **config}
    return {**document, "name": name}


LAB = {"gpuprov.cluster": "lab", "gpuprov.role": "slurm", "gpuprov.fingerprint": "f"}
WHOSE: dict[str, tuple[dict[str, Any], str | None]] = {
    "the node itself": (named("c000", "u1", LAB), None),
    "while it is made": (named("c000", "u1", LAB, **documents.render_self("c000", {})), None),
    "lxc copy": (named("backup", "u2", LAB), "c000"),
    "lxc rename": (named("backup", "u1", LAB), "c000"),
    "lxc copy while it was made": (named("backup", "u2", LAB, **documents.render_self("c000", {})), "c000"),
    "a copy in its place": (named("c000", "u2", LAB), "c000"),
    "foreign": (named("c000", "u2", {}), None),
    "a copy of an image": (
        named(
            "backup",
            "u2",
            {"gpuprov.cluster": "(images)", "gpuprov.role": "builder"},
            **{documents.KIND: "image", documents.IMAGE_LABELS: '{"gpuprov.self": "gpuprov-image-1"}'},
        ),
        "gpuprov-image-1",
    ),
    "a builder that was killed while it became an image": (
        named("c000", "u1", LAB, **{documents.KIND: "image", documents.IMAGE_LABELS: "{}"}),
        None,
    ),
}


@pytest.mark.parametrize("case", WHOSE)
def test_labels_count_for_the_instance_that_they_name(case: str) -> None:
    document, origin = WHOSE[case]
    state = documents.parse_instance(document)
    assert (state.copy_of.name if state.copy_of else None) == origin
    assert state.ours == (origin is None and case != "foreign")
    assert documents.SELF.removeprefix("user.") not in state.labels


@pytest.mark.parametrize(("name", "ours"), [("c000", True), ("c001", False), ("backup", False)])
def test_a_copy_of_a_node_of_an_earlier_version_is_known_by_its_mac_addresses(name: str, *, ours: bool) -> None:
    nics = [changed(nic, mac=mac("lab", "c000", nic.interface)) for nic in NICS]
    request = replace(REQUEST, attachments=tuple(nics))
    document = as_listed(documents.render_instance(request, kin=KIN["lxd"], pool="default", shift=True), LAB)
    del document["config"][documents.SELF]
    state = documents.parse_instance({**document, "name": name})
    assert state.ours == ours
    assert str(state.copy_of) == ("None" if ours else "a copy of another node")


def test_a_network_that_somebody_made_with_our_labels_is_foreign() -> None:
    request = NetworkRequest(name="gpbr0", labels={"gpuprov.cluster": "lab"}, address="10.0.3.1/24")
    document = {**documents.render_network(request), "managed": True}
    copy = documents.parse_network({**document, "name": "mine"})
    assert not copy.ours
    assert str(copy.copy_of) == "a copy of gpbr0"
    del document["config"][documents.SELF]
    assert documents.parse_network({**document, "name": "old"}).ours  # an earlier gpuprov recorded no name


def test_only_marked_instances_are_images() -> None:
    labels = {"gpuprov.fingerprint": "1" * 64}
    document = as_listed({"config": {}, "devices": {}}, {})
    document["name"] = "gpuprov-image-111111111111"  # an earlier gpuprov recorded no name
    assert documents.parse_image_instance(document) is None
    document["config"] = {documents.KIND: "image", documents.IMAGE_LABELS: json.dumps(labels)}
    image = documents.parse_image_instance(document)
    assert image
    assert dict(image.labels) == labels
    for name in ("c000", "gpuprov-image-2"):  # `lxc copy` of an image is none
        assert documents.parse_image_instance({**document, "name": name}) is None


def test_who_has_a_node_s_mac_address_is_named_with_what_gives_it_another() -> None:
    node, copy, other = named("c000", "u1", LAB), named("backup", "u2", LAB), named("other", "u3", {})
    other["expanded_devices"] = {"eth0": {"type": "nic", "hwaddr": "00:16:3e:99:99:99"}, "eth1": {"type": "nic"}}
    said = 'Failed start validation for device "eth0": MAC address "00:16:3e:00:00:01" already defined on another NIC'
    error = EngineError("lxd could not", evidence=said, fix="look")
    told = explain_double(node, error, [other, node, copy], "lxc")
    assert told.what == "c000 cannot start: backup has its MAC address"
    assert told.evidence.startswith("backup is a copy of c000, running; ")
    unset = "lxc config device unset backup"
    assert told.fix == f"{unset} eth0 hwaddr; {unset} eth1 hwaddr"
    assert explain_double(node, error, [other, node], "lxc") is error
    unlike = EngineError("lxd could not", evidence="no space left", fix="look")
    assert explain_double(node, unlike, [node, copy], "lxc") is unlike
