"""`host undo --engine docker` on a Docker of its own, with every kind of image that gpuprov makes, and a user's."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).parents[2]
ACT = """
import json, os, signal, subprocess, sys, threading
from pathlib import Path
import docker
from gpuprov.assets import get_asset
from gpuprov.core.errors import HostNotReady
from gpuprov.core.reporter import Silent
from gpuprov.core.waiting import Wait
from gpuprov.drivers.base import LABEL_CLUSTER, LABEL_FINGERPRINT, LABEL_ROLE, LABEL_VERSION, NodeRequest
from gpuprov.drivers.registry import open_driver
from gpuprov.machine.local import LocalHost
from gpuprov.shapes.node import CharDevice
from gpuprov.lifecycle.prepare_host import HostOrder, undo_host
from tests.contract.engines import write_rootfs

folder = Path(sys.argv[1])
devices, pid_file, socket = Path("/var/lib/gpuprov/devices"), folder / "docker.pid", folder / "docker.sock"
variables = (("host_docker_socket", str(socket)), ("host_run_dir", str(folder)))


def sh(lines):
    subprocess.run(["sh", "-euc", lines], check=True)


def undo():
    request = HostOrder(roles_path=get_asset("roles"), engine="docker", variables=variables)
    try:
        return {"changed": list(undo_host(request, LocalHost(), reporter=Silent()).changed), **look()}
    except HostNotReady as refused:
        return {"what": refused.what, "evidence": refused.evidence, "fix": refused.fix, **look()}


def look():
    found = {"devices": devices.exists(), "pid": pid_file.exists(), "runs": process.poll() is None}
    if found["runs"]:
        found["tags"] = sorted(tag for item in client.images() for tag in item["RepoTags"] or ["untagged"])
        found["containers"] = sorted(name for item in client.containers(all=True) for name in item["Names"])
    return found


sh("mount --make-rprivate /; ip link set lo up; mkdir -p /var/lib/gpuprov")
for place in ("/etc/sysctl.d", "/var/lib/gpuprov"):
    sh(f"mkdir -p {folder}{place}; mount --bind {folder}{place} {place}")
places = ("--data-root", f"{folder}/data", "--exec-root", f"{folder}/run", "--pidfile", f"{folder}/pid")
argv = ["dockerd", *places, "--host", f"unix://{socket}", "--storage-driver", "vfs"]
process = subprocess.Popen(argv, stdout=Path(folder, "log").open("a"), stderr=subprocess.STDOUT)
threading.Thread(target=process.wait, daemon=True).start()  # no corpse is left for the role to wait for
seen = []
try:
    os.environ["DOCKER_HOST"] = f"unix://{socket}"
    Wait(what="the socket of Docker", timeout_s=30, fix="see its log").until(socket.exists, bool)
    client, driver = docker.APIClient(base_url=f"unix://{socket}"), open_driver("docker")
    pid_file.write_text(str(process.pid))

    def create(name, image, *more):
        keys = (LABEL_CLUSTER, LABEL_ROLE, LABEL_VERSION, *more)
        gpu = CharDevice(path="/dev/nvidia77", major=195, minor=77)
        driver.create_node(NodeRequest(name=name, image=image, labels=dict.fromkeys(keys, "u"), devices=(gpu,)))

    base = driver.import_rootfs("base", write_rootfs(folder / "rootfs.tar", b"base"), {LABEL_VERSION: "u"})
    create("builder", base)
    image = driver.publish_image("builder", "gpuprov-image-u1", {LABEL_FINGERPRINT: "u"})
    for name in ("c000", "c001"):
        create(name, image.id, LABEL_FINGERPRINT)
    driver.snapshot_node("c000", "first")
    labels = {LABEL_CLUSTER: "u", LABEL_FINGERPRINT: "u"}
    driver.clone_node("c001", NodeRequest(name="c002", image=image.id, labels=labels))
    client.create_container(image.id, name="theirs", command="true")
    client.commit("theirs", "theirs/derived", "1")
    client.tag(base, "theirs/base", "1")
    client.import_image_from_data(Path(folder, "rootfs.tar").read_bytes(), repository="gpuprov-image", tag="theirs")
    for name in ("c000", "c002"):
        client.remove_container(name)  # not by gpuprov, which would remove its snapshot and its image too
    driver.delete_node("c001")
    seen.append(undo())
    driver.delete_image(image.id)
    seen.append(undo())
    client.remove_container("theirs")
    seen.append(undo())
finally:
    process.send_signal(signal.SIGTERM)
    process.wait(30)
json.dump(seen, sys.stdout)
"""
THEIRS = ["gpuprov-image:theirs", "theirs/base:1", "theirs/derived:1"]


def is_state(tag: str) -> bool:
    """Names of these are chance."""
    return tag.startswith("gpuprov-state:")


def is_snapshot(tag: str) -> bool:
    return tag.startswith("gpuprov-snapshot:")


def test_undo_removes_what_gpuprov_made_and_refuses_for_what_a_verb_removes(
    docker: Any,  # noqa: ARG001 - root, and it is installed
) -> None:
    with TemporaryDirectory(prefix="gpuprov") as folder:  # paths of sockets are short
        argv = ["unshare", "--mount", "--net", sys.executable, "-c", ACT, folder]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=ROOT)
        assert done.returncode == 0, done.stdout + done.stderr + Path(folder, "log").read_text()[-2000:]
    refused, removed, stopped = json.loads(done.stdout)
    assert refused["what"] == "requirement not met: gpuprov has no nodes or images"
    assert refused["evidence"] == "Docker has gpuprov-image-u1"
    assert refused["fix"] == "gpuprov image rm gpuprov-image-u1 --engine docker"
    assert (refused["devices"], refused["pid"], refused["runs"]) == (True, True, True)
    assert sum(map(is_state, refused["tags"])) == sum(map(is_snapshot, refused["tags"])) == 1
    assert {"gpuprov-image:u1", "gpuprov-rootfs:base", *THEIRS} < set(refused["tags"])
    assert removed["changed"] == [
        "Remove the base images and the remains of removed nodes",
        "Remove the devices created for nodes",
    ]
    kept = [tag for tag in removed["tags"] if is_state(tag)]
    assert len(kept) == 1, "what somebody's container stands on"
    assert sorted(removed["tags"]) == sorted([*kept, *THEIRS])
    assert (removed["containers"], removed["devices"], removed["runs"]) == (["/theirs"], False, True)
    assert stopped["changed"] == [removed["changed"][0], "Stop the daemon started by prepare"]
    assert (stopped["pid"], stopped["runs"]) == (False, False)
