from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from gpuprov.cluster.drift import changed_settings
from gpuprov.drivers.base import EngineGpus, NodeRequest
from gpuprov.drivers.docker import documents
from gpuprov.drivers.docker.blueprint import (
    NODE_LABEL,
    Blueprint,
    describe_settings,
    dump_blueprint,
    parse_blueprint,
    plan_blueprint,
)
from gpuprov.drivers.networks import NetworkRequest
from gpuprov.shapes.base import changed
from gpuprov.shapes.node import Attachment, CharDevice, Exposure, Mount

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
LABELS = {"gpuprov.cluster": "lab", "gpuprov.fingerprint": "f"}
REQUEST = NodeRequest(
    name="c000",
    image="gpuprov-image:plain",
    labels=LABELS,
    attachments=NICS,
    devices=(CharDevice(path="/dev/nvidia0", major=195, minor=0),),
    mounts=(Mount(source="/srv", target="/mnt/in"), Mount(source="/data", target="/mnt/out", read_only=False)),
    environment={"A": "b=c 'd' \"e\" ü"},
    cpus=2,
    memory_bytes=1 << 30,
)
OLD, NEW = "1.41", "1.44"


def render(request: NodeRequest = REQUEST, *, api: str = OLD, **changes: Any) -> dict[str, Any]:
    blueprint = Blueprint(**{**vars(plan_blueprint(request, uid="u1")), **changes})
    return documents.render_container(
        blueprint,
        request.labels,
        image=request.image,
        command=["true"],
        host_paths={device.path: f"/host{device.path}" for device in request.devices},
        api=api,
    )


def listed(body: dict[str, Any], *, name: str = "c000", state: str = "running", identity: str = "1") -> dict[str, Any]:
    return {"Id": identity, "Names": [f"/{name}"], "State": state, "Labels": body["Labels"]}


def test_a_rendered_request_comes_back_as_its_state() -> None:
    state = documents.parse_container(listed(render()), labels={}, snapshots=("one",))
    assert (state.name, state.status, state.snapshots) == ("c000", "running", ("one",))
    assert dict(state.labels) == LABELS
    assert dict(state.addresses) == {"eth0": "10.0.3.2/24", "eth1": "10.0.5.1/24"}
    assert (state.devices, state.mounts, dict(state.environment)) == (
        REQUEST.devices,
        REQUEST.mounts,
        dict(REQUEST.environment),
    )
    assert state.complete
    assert not state.privileged


def test_a_blueprint_survives_its_label() -> None:
    blueprint = plan_blueprint(REQUEST, uid="u1", job=True).with_exposed([Exposure(host_port=8000, node_port=80)])
    assert parse_blueprint(dump_blueprint(blueprint)) == blueprint
    cdi = Blueprint(name="c", uid="u", engine_gpus=EngineGpus(access="cdi", uuids=("GPU-1",)))
    assert parse_blueprint(dump_blueprint(cdi)) == cdi


CHANGES: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "nothing": ({}, {}),
    "what is shown elsewhere": ({"devices": (), "mounts": (), "labels": {}}, {}),
    "less memory": ({"memory_bytes": 5}, {"memory": "memory 5 (until now 1073741824)"}),
    "no limit on CPUs": ({"cpus": None}, {"cpus": "cpus unset (until now 2)"}),
    "GPUs from Docker": (
        {"engine_gpus": EngineGpus(access="cdi", uuids=("GPU-1",))},
        {"GPUs from Docker": "GPUs from Docker cdi GPU-1 (until now unset)"},
    ),
    "another variable": (
        {"environment": {"B": "1"}},
        {
            "environment.A": "environment.A unset (until now b=c 'd' \"e\" ü)",
            "environment.B": "environment.B 1 (until now unset)",
        },
    ),
    "another address": (
        {"attachments": (changed(NICS[0], address="10.0.3.9/24"), NICS[1])},
        {
            "eth0": "eth0 10.0.3.9/24 00:16:3e:00:00:01 by veth on gpbr0 "
            "(until now 10.0.3.2/24 00:16:3e:00:00:01 by veth on gpbr0)"
        },
    ),
}


@pytest.mark.parametrize("case", CHANGES)
def test_settings_that_differ_are_told_and_brought_to_the_request_s(case: str) -> None:
    changes, words = CHANGES[case]
    request = replace(REQUEST, **changes)
    wanted = describe_settings(plan_blueprint(request, uid=""))
    assert changed_settings(documents.parse_container(listed(render()), labels={}).settings, wanted) == words
    assert not any(wanted[key].live for key in words if key in wanted)
    before = plan_blueprint(REQUEST, uid="u1").with_exposed([Exposure(host_port=8000, node_port=80)])
    after = before.with_settings(request)
    assert describe_settings(after) == wanted
    kept = ("name", "uid", "exposed", "own_labels")
    assert [getattr(after, key) for key in kept] == [getattr(before, key) for key in kept]
    assert (after.devices, after.mounts) == (request.devices, request.mounts)
    assert parse_blueprint(dump_blueprint(after)) == after


def test_a_variable_that_is_taken_away_does_not_come_back_from_the_container_s_own_image() -> None:
    after = plan_blueprint(REQUEST, uid="u1").with_settings(replace(REQUEST, environment={}))
    assert dict(after.environment) == {"A": ""}


def test_nothing_is_privileged_and_each_device_has_a_rule_of_its_own() -> None:
    host = render()["HostConfig"]
    assert not host.get("Privileged")
    assert host["CapDrop"] == ["MKNOD"]
    assert "CapAdd" not in host
    assert "DeviceCgroupRules" not in host
    assert host["Devices"] == [
        {"PathOnHost": "/host/dev/nvidia0", "PathInContainer": "/dev/nvidia0", "CgroupPermissions": "rw"}
    ]
    assert (host["NanoCpus"], host["Memory"]) == (2 * 10**9, 1 << 30)
    assert [(mount["Target"], mount["ReadOnly"]) for mount in host["Mounts"]] == [
        ("/mnt/in", True),
        ("/mnt/out", False),
    ]


def test_a_node_restarts_with_the_machine_and_a_job_is_removed() -> None:
    node, job = render()["HostConfig"], render(job=True)["HostConfig"]
    assert (node["AutoRemove"], node["RestartPolicy"]["Name"]) == (False, "unless-stopped")
    assert (job["AutoRemove"], job["RestartPolicy"]["Name"]) == (True, "no")
    assert node["Init"]
    assert job["Init"]


def test_macs_as_far_as_the_engine_can() -> None:
    old, new = render(api=OLD), render(api=NEW)
    assert old["MacAddress"] == NICS[0].mac
    assert "MacAddress" not in new
    assert new["NetworkingConfig"]["EndpointsConfig"]["gpbr0"]["MacAddress"] == NICS[0].mac
    assert old["NetworkingConfig"]["EndpointsConfig"] == {"gpbr0": {"IPAMConfig": {"IPv4Address": "10.0.3.2"}}}


def test_ports() -> None:
    body = render(exposed=(Exposure(host_port=8000, node_port=80), Exposure(host_port=8001, node_port=80)))
    assert body["ExposedPorts"] == {"80/tcp": {}}
    assert [entry["HostPort"] for entry in body["HostConfig"]["PortBindings"]["80/tcp"]] == ["8000", "8001"]


def test_gpus_by_cdi_and_by_the_runtime() -> None:
    plain = render()
    cdi = render(engine_gpus=EngineGpus(access="cdi", uuids=("GPU-1", "MIG-2")))
    runtime = render(engine_gpus=EngineGpus(access="nvidia-runtime", uuids=("GPU-1", "MIG-2")))
    assert "DeviceRequests" not in plain["HostConfig"]
    assert "Runtime" not in plain["HostConfig"]
    assert cdi["HostConfig"]["DeviceRequests"] == [
        {"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=GPU-1", "nvidia.com/gpu=MIG-2"]}
    ]
    assert cdi["Env"] == plain["Env"]
    assert runtime["HostConfig"]["Runtime"] == "nvidia"
    assert "NVIDIA_VISIBLE_DEVICES=GPU-1,MIG-2" in runtime["Env"]


def test_what_the_image_brings_along_is_not_the_node_s() -> None:
    document = listed(render())
    document["Labels"] = {"gpuprov.gpus": "GPU-of-the-source", "maintainer": "x", **document["Labels"]}
    assert dict(documents.parse_container(document, labels={}).labels) == LABELS


def test_changed_labels_are_newer_and_an_empty_one_is_gone() -> None:
    state = documents.parse_container(listed(render()), labels={"gpuprov.gpus": "GPU-1", "gpuprov.fingerprint": ""})
    assert dict(state.labels) == {"gpuprov.cluster": "lab", "gpuprov.gpus": "GPU-1"}


def test_a_foreign_container() -> None:
    document = {"Id": "2" * 64, "Names": ["/web/alias", "/web_1.x"], "State": "paused", "Labels": {"a": "b"}}
    state = documents.parse_container(document, labels={})
    assert (state.name, state.status, state.ours) == ("web_1.x", "frozen", False)


@pytest.mark.parametrize(
    ("present", "chosen"),
    [
        (["c000.new"], "c000.new"),
        (["c000.new", "c000"], "c000"),
        (["c000.next", "c000"], "c000"),
        (["c000.new", "c000.next"], "c000.next"),
    ],
)
def test_names_say_which_container_is_the_node(present: list[str], chosen: str) -> None:
    found = [listed(render(), name=name, identity=name) for name in present]
    assert {name: document["Id"] for name, document in documents.choose_containers(found).items()} == {"c000": chosen}
    state = documents.parse_container(documents.choose_containers(found)["c000"], labels={})
    assert state.complete == (chosen != "c000.new")


def test_a_foreign_container_with_such_a_name_is_itself() -> None:
    foreign = {"Id": "f", "Names": ["/c000.next"], "State": "running", "Labels": {}}
    assert set(documents.choose_containers([foreign, listed(render())])) == {"c000", "c000.next"}


def test_a_job_is_complete_once_it_runs() -> None:
    body = render(job=True)
    assert not documents.parse_container(listed(body, state="created"), labels={}).complete
    assert documents.parse_container(listed(body, state="running"), labels={}).complete


def test_networks() -> None:
    bridge = documents.render_network(NetworkRequest(name="gpbr0", labels=LABELS, address="10.0.3.1/24"))
    assert (bridge["Driver"], bridge["Internal"]) == ("bridge", False)
    assert bridge["Options"] == {"com.docker.network.bridge.name": "gpbr0"}
    assert bridge["IPAM"]["Config"] == [{"Subnet": "10.0.3.0/24", "Gateway": "10.0.3.1"}]
    private = documents.render_network(
        NetworkRequest(name="gpbr1", labels=LABELS, subnet="10.0.5.0/24", beside="gpbr0")
    )
    assert (private["Driver"], private["Internal"], private["Options"]) == ("macvlan", True, {"parent": "gpbr0"})
    assert private["IPAM"]["Config"] == [{"Subnet": "10.0.5.0/24", "Gateway": "10.0.5.254"}]
    found = documents.parse_networks([{"Id": "n0", **bridge}, {"Id": "n1", **private}])
    assert [(name, state.address) for name, (_, state) in found.items()] == [("gpbr0", "10.0.3.1/24"), ("gpbr1", None)]
    assert [state.subnets for _, state in found.values()] == [("10.0.3.0/24",), ("10.0.5.0/24",)]
    more = {"Config": [{"Subnet": "fd00::/64"}, {"Subnet": "10.8.0.0/24"}, {"IPRange": "10.8.1.0/24"}]}
    (foreign,) = documents.parse_networks([{"Id": "n2", "Name": "x", "Driver": "ipvlan", "IPAM": more}]).values()
    assert foreign[1].subnets == ("10.8.0.0/24",)


def test_a_private_network_has_rules_of_its_own_where_it_has_a_bridge_of_its_own() -> None:
    """On one host it is on the bridge of the other network; over hosts on that of the overlay."""
    for beside, overlaid in (("gpbr0", ""), ("gpvb00004d", "gpvb00004d"), (None, "")):
        request = NetworkRequest(name="gpbr1", labels=LABELS, subnet="10.0.5.0/24", beside=beside)
        ((_, state),) = documents.parse_networks([{"Id": "n", **documents.render_network(request)}]).values()
        assert (state.overlaid, state.bridge) == (overlaid, overlaid or "gpbr1")


def test_changed_labels_of_a_network() -> None:
    bridge = documents.render_network(NetworkRequest(name="gpbr0", labels=LABELS, address="10.0.3.1/24"))
    kept = [
        {"Id": f"k{serial}", **documents.render_changed_labels("n0", {"gpuprov.spec": text}, serial=serial)}
        for serial, text in ((10, "newest"), (9, "newer"), (1, "old"))
    ]
    found = documents.parse_networks([*kept, {"Id": "n0", **bridge}])
    assert set(found) == {"gpbr0"}
    assert dict(found["gpbr0"][1].labels) == {**LABELS, "gpuprov.spec": "newest"}


def test_an_image_is_what_has_our_tag_and_our_label() -> None:
    label = {documents.IMAGE_LABEL: json.dumps({"gpuprov.fingerprint": "f", "gpuprov.self": "gpuprov-image-slurm-1"})}
    document = {"RepoTags": ["gpuprov-image:slurm-1"], "Labels": label, "Created": 0, "Size": 5}
    image = documents.parse_image(document)
    assert image
    assert (image.id, image.name, image.created) == (
        "gpuprov-image:slurm-1",
        "gpuprov-image-slurm-1",
        "1970-01-01T00:00:00Z",
    )
    assert documents.image_tag(image.name) == documents.image_tag("slurm-1") == image.id
    assert documents.parse_image({**document, "Labels": {documents.IMAGE_LABEL: ""}}) is None
    assert documents.parse_image({**document, "RepoTags": None}) is None


def test_further_tags_of_an_image_are_no_images() -> None:
    """`docker tag` of a node image: the label names the one tag that is ours."""
    for label, own in (
        ({"gpuprov.fingerprint": "f", "gpuprov.self": "gpuprov-image-one"}, "gpuprov-image:one"),
        ({"gpuprov.fingerprint": "f" * 64}, f"gpuprov-image:{'f' * 12}"),  # an earlier gpuprov recorded no name
    ):
        document = {"Labels": {documents.IMAGE_LABEL: json.dumps(label)}, "Created": 0}
        image = documents.parse_image({**document, "RepoTags": ["gpuprov-image:backup", own]})
        assert image
        assert (image.id, dict(image.labels)) == (own, {"gpuprov.fingerprint": label["gpuprov.fingerprint"]})
        assert documents.parse_image({**document, "RepoTags": ["gpuprov-image:backup"]}) is None


def test_a_container_with_another_name_or_network_is_a_copy() -> None:
    """`docker commit` and `docker run` hand labels on; `docker rename` keeps them."""
    document = listed(render())
    docker_s_own = {**document, "HostConfig": {"NetworkMode": "default"}}
    for copy in ({**document, "Names": ["/backup"]}, {**document, "Names": ["/backup.new"]}, docker_s_own):
        state = documents.parse_container(copy, labels={"gpuprov.gpus": "GPU-1"})
        assert not state.ours
        assert str(state.copy_of) == "a copy of c000"
        assert state.copy_of
        assert state.copy_of.cluster == "lab"
        assert documents.blueprint_of(copy) is None
        assert set(documents.choose_containers([document, {**copy, "Names": ["/backup"]}])) == {"c000", "backup"}
    for own in ("c000", "c000.new", "c000.next"):
        placed = {**document, "Names": [f"/{own}"], "HostConfig": {"NetworkMode": "gpbr0"}}
        assert documents.parse_container(placed, labels={}).ours
    assert documents.blueprint_of({**document, "Names": []})  # Docker is removing it


def test_a_copy_has_the_devices_that_docker_shows() -> None:
    renamed = {**listed(render()), "Names": ["/other"]}
    (device, *_) = REQUEST.devices
    shown = {"HostConfig": {"Devices": [{"PathOnHost": "/x", "PathInContainer": device.path}]}}
    assert documents.parse_copied_devices(renamed, shown) == (device,)
    assert documents.parse_copied_devices(renamed, {"HostConfig": {"Devices": None}}) == ()


def test_a_foreign_container_s_addresses_are_seen() -> None:
    networks = {
        "gpbr0": {"IPAMConfig": {"IPv4Address": "10.0.3.2"}, "IPAddress": ""},
        "web": {"IPAMConfig": None, "IPAddress": "172.20.0.2", "IPPrefixLen": 16},
        "idle": {"IPAMConfig": None, "IPAddress": ""},
    }
    document = {
        "Id": "1",
        "Names": ["/db"],
        "State": "running",
        "Labels": {},
        "NetworkSettings": {"Networks": networks},
    }
    found = documents.parse_container(document, labels={}).addresses
    assert dict(found) == {"gpbr0": "10.0.3.2/32", "web": "172.20.0.2/16"}


def test_a_network_that_somebody_made_with_our_labels_is_foreign() -> None:
    body = documents.render_network(NetworkRequest(name="gpbr0", labels=LABELS, address="10.0.3.1/24"))
    own, copy, old = (
        {**body, "Id": identity, "Name": name, "Labels": labels}
        for identity, name, labels in (
            ("1", "gpbr0", body["Labels"]),
            ("2", "mine", body["Labels"]),
            ("3", "old", LABELS),
        )
    )
    found = {name: state for name, (_, state) in documents.parse_networks([own, copy, old]).items()}
    assert {name: state.ours for name, state in found.items()} == {"gpbr0": True, "mine": False, "old": True}
    assert str(found["mine"].copy_of) == "a copy of gpbr0"


CDI_28_3 = {
    "ServerVersion": "28.3.0",
    "CDISpecDirs": ["/etc/cdi", "/var/run/cdi"],
    "DiscoveredDevices": [{"Source": "cdi", "ID": "nvidia.com/gpu=0"}, {"Source": "cdi", "ID": "nvidia.com/gpu=all"}],
    "Runtimes": {"runc": {"path": "runc"}, "nvidia": {"path": "nvidia-container-runtime"}},
}


@pytest.mark.parametrize(
    ("info", "files", "offers"),
    [
        ({"ServerVersion": "20.10.24", "Runtimes": {"runc": {}}}, (), []),
        ({"ServerVersion": "20.10.24", "Runtimes": {"runc": {}, "nvidia": {}}}, (), ["nvidia-runtime"]),
        (CDI_28_3, (), ["cdi", "nvidia-runtime"]),
        ({**CDI_28_3, "DiscoveredDevices": None}, ("/etc/cdi/nvidia.yaml",), ["nvidia-runtime"]),
        ({**CDI_28_3, "DiscoveredDevices": [{"Source": "cdi", "ID": "amd.com/gpu=0"}]}, (), ["nvidia-runtime"]),
        ({"ServerVersion": "27.5.1", "CDISpecDirs": ["/etc/cdi"], "Runtimes": {}}, ("/etc/cdi/nvidia.yaml",), ["cdi"]),
        ({"ServerVersion": "27.5.1", "CDISpecDirs": ["/etc/cdi"], "Runtimes": {}}, (), []),
        ({"ServerVersion": "27.5.1", "CDISpecDirs": None, "Runtimes": None}, ("/etc/cdi/nvidia.yaml",), []),
    ],
)
def test_which_ways_in_an_engine_offers(info: dict[str, Any], files: tuple[str, ...], offers: list[str]) -> None:
    found = documents.parse_gpu_access(info, cdi_files=files)
    assert list(found) == offers
    assert all(info["ServerVersion"] in reason for reason in found.values())


def test_the_node_label_is_not_shown() -> None:
    body = render()
    assert NODE_LABEL in body["Labels"]
    assert NODE_LABEL not in documents.parse_container(listed(body), labels={}).labels


@pytest.mark.parametrize(("driver", "expected"), [("systemd", True), ("cgroupfs", False)])
def test_who_rules_over_devices_is_known(driver: str, expected: bool) -> None:
    info = {"DockerRootDir": "/d", "Driver": "overlay2", "NCPU": 2, "MemTotal": 1, "CgroupDriver": driver}
    assert documents.parse_facts(info, api="1.41", free_bytes=None, cdi_files=()).systemd_cgroups is expected
