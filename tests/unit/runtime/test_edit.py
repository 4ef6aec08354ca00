"""A config.json with GPUs in it."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from gpuprov.core.errors import HostNotReady
from gpuprov.gpu.device_numbers import DeviceNumbers
from gpuprov.runtime.edit import LEASE, Additions, add_gpus, own_files, take_back

DEVICE = DeviceNumbers(path="/dev/nvidia0", major=195, minor=0)
DENY_ALL = {"allow": False, "access": "rwm"}
HOOK = {"path": "/usr/bin/nvidia-container-runtime-hook"}
OTHER_HOOK = {"path": "/usr/bin/other"}
ADDITIONS = Additions(
    devices=(DEVICE,),
    files={"/usr/bin/nvidia-smi": "/srv/nvidia-smi"},
    environment={"NVIDIA_VISIBLE_DEVICES": "GPU-1"},
    lease={"gpus": ["GPU-1"], "sharing": "exclusive"},
)


def plain() -> dict[str, Any]:
    return {
        "ociVersion": "1.0.2",
        "process": {"env": ["PATH=/bin", "NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_VISIBLE_DEVICES=0,1"]},
        "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"}],
        "linux": {"resources": {"devices": [DENY_ALL]}, "devices": [{"path": "/dev/fuse"}]},
        "hooks": {"prestart": [HOOK, OTHER_HOOK]},
        "annotations": {"a": "b"},
    }


def test_a_device_has_its_rule_a_file_is_read_only_and_the_hook_is_gone() -> None:
    before = plain()
    after = add_gpus(before, ADDITIONS)
    assert before == plain()
    assert after["linux"]["devices"][-1] == {
        "path": "/dev/nvidia0",
        "type": "c",
        "major": 195,
        "minor": 0,
        "fileMode": 0o666,
        "uid": 0,
        "gid": 0,
    }
    rule = {"allow": True, "type": "c", "major": 195, "minor": 0, "access": "rw"}
    assert after["linux"]["resources"]["devices"] == [DENY_ALL, rule]
    mount = after["mounts"][-1]
    assert (mount["source"], mount["destination"]) == ("/srv/nvidia-smi", "/usr/bin/nvidia-smi")
    assert {"bind", "ro", "nosuid", "nodev"} <= set(mount["options"])
    assert after["process"]["env"] == ["PATH=/bin", "NVIDIA_VISIBLE_DEVICES=GPU-1"]
    assert after["hooks"]["prestart"] == [OTHER_HOOK]
    assert json.loads(after["annotations"][LEASE])["gpus"] == ["GPU-1"]
    assert after["annotations"]["a"] == "b"


def test_a_bundle_that_is_made_again_gets_no_gpu_twice() -> None:
    once = add_gpus(plain(), ADDITIONS)
    other = Additions(devices=(DeviceNumbers(path="/dev/nvidia1", major=195, minor=1),), lease={"gpus": ["GPU-2"]})
    again = add_gpus(once, other)
    paths = [device["path"] for device in again["linux"]["devices"]]
    assert paths == ["/dev/fuse", "/dev/nvidia1"]
    assert [rule.get("minor") for rule in again["linux"]["resources"]["devices"]] == [None, 1]
    assert [mount["destination"] for mount in again["mounts"]] == ["/proc"]


@pytest.mark.parametrize("note", ["x", "[]", '{"devices": 1}', '{"devices": [{"path": "/dev/fuse"}]}'])
def test_a_forged_note_takes_nothing_away(note: str) -> None:
    one = {**plain(), "annotations": {LEASE: note}}
    kept = copy.deepcopy(one)
    del kept["annotations"][LEASE]
    assert take_back(one) == kept


def test_a_forged_note_takes_no_mount_and_no_rule_of_the_engine() -> None:
    note = {"devices": [{"path": "/dev/fuse", "major": None, "minor": None}], "files": ["/proc"]}
    back = take_back({**plain(), "annotations": {LEASE: json.dumps(note)}})
    assert back["mounts"] == plain()["mounts"]
    assert back["linux"] == plain()["linux"]


def test_what_the_user_mounts_himself_stays() -> None:
    one = plain()
    one["mounts"].append({"destination": "/usr/bin/nvidia-smi", "type": "bind", "source": "/own"})
    assert own_files(one, ADDITIONS.files) == {}
    one["mounts"][-1]["destination"] = "/usr/bin/"
    with pytest.raises(HostNotReady, match="mounts /usr/bin"):
        own_files(one, ADDITIONS.files)
