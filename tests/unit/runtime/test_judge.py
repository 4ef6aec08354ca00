"""What a policy refuses, of what dockerd 20.10 wrote into config.json (data/)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.core.errors import UsageError
from gpuprov.runtime.judge import (
    DEFAULT_CAPABILITIES,
    Surroundings,
    judge,
    judge_process,
    more_capabilities,
    require_allowed,
)
from gpuprov.runtime.rules import Refusals

if TYPE_CHECKING:
    from collections.abc import Mapping

DATA = Path(__file__).parent / "data"
ID = "c" * 64
VOLUMES = "/var/lib/docker/volumes"
AROUND = Surroundings(
    container=ID,
    data_root="/var/lib/docker",
    mounted=frozenset({"/", f"{VOLUMES}/evil/_data"}),
    host_namespaces=frozenset({"/run/docker/netns/default"}),
)
ALL = Refusals(
    privileged=True,
    namespaces=("pid", "net", "ipc", "uts"),
    mounts_outside=(),
    devices=True,
    capabilities=True,
)  # not cgroup and user: without a cgroup of its own and userns-remap, each container of Docker has the host's


def recorded(name: str) -> dict[str, Any]:
    spec: dict[str, Any] = json.loads((DATA / f"{name}.json").read_text())
    return spec


def refused(spec: dict[str, Any], refuse: Refusals = ALL, around: Surroundings = AROUND) -> dict[str, str]:
    return {step.rule.removeprefix("refuse."): step.what for step in judge(spec, refuse, around)}


def with_mounts(*mounts: Mapping[str, object]) -> dict[str, Any]:
    spec = recorded("plain")
    spec["mounts"] += mounts
    return spec


def bind(source: str, target: str = "/x", **more: object) -> dict[str, object]:
    return {"destination": target, "type": "bind", "source": source, "options": ["rbind"], **more}


def test_a_plain_container_is_let_through() -> None:
    assert refused(recorded("plain")) == {}


def test_privileged_is_refused_by_each_of_its_parts() -> None:
    found = refused(recorded("privileged"))
    assert set(found) == {"privileged", "devices", "capabilities"}
    assert found["privileged"] == "every device of the host can be opened, /proc and /sys are open"
    assert "/dev/vda" in found["devices"]
    assert "CAP_BLOCK_SUSPEND" in found["capabilities"]
    assert refused(recorded("privileged"), Refusals(privileged=True)).keys() == {"privileged"}
    assert refused(recorded("privileged"), Refusals()) == {}


def test_namespaces_of_the_host_are_refused_by_name_or_by_path() -> None:
    spec = recorded("host_namespaces")
    assert refused(spec)["namespaces"] == "pid, net, ipc, uts"
    assert refused(spec, Refusals(namespaces=("net",)))["namespaces"] == "net"
    assert refused(recorded("plain"), Refusals(namespaces=("user", "cgroup")))["namespaces"] == "user, cgroup"
    joined = recorded("plain")
    joined["linux"]["namespaces"] = [{"type": "pid", "path": "/proc/7/ns/pid"}]
    assert refused(joined, Refusals(namespaces=("pid",))) == {}
    around = Surroundings(container=ID, host_namespaces=frozenset({"/proc/7/ns/pid"}))
    assert refused(joined, Refusals(namespaces=("pid",)), around) == {"namespaces": "pid"}


def test_volumes_of_docker_are_no_mounts_of_the_host_unless_something_is_mounted_on_them() -> None:
    found = refused(recorded("mounts_and_devices"))
    assert found["mounts_outside"] == f"{VOLUMES}/evil/_data at /e, /srv/vol at /v"
    assert found["devices"] == "/dev/fuse, c 10:200"
    assert found["capabilities"] == "CAP_SYS_ADMIN"
    assert found["privileged"] == "/proc and /sys are open"


@pytest.mark.parametrize(
    ("mount", "allowed"),
    [
        (bind("/data"), True),
        (bind("/data/sub"), True),
        (bind("/database"), False),
        (bind("/"), False),
        (bind("/data/link"), False),
        (bind("/data/../etc"), False),
        (bind("/var/run/docker.sock"), False),
        (bind("/var/lib/docker"), False),
        (bind("/var/lib/docker/volumes"), False),
        (bind("/var/lib/docker/volumes/named"), False),
        (bind("/var/lib/docker/volumes/named/_data"), True),
        (bind("/var/lib/docker/volumes/named/_database"), False),
        (bind(f"/var/lib/docker/containers/{'d' * 64}/config.v2.json"), False),
        (bind(f"/var/lib/docker/containers/{'d' * 64}/mounts/shm", "/dev/shm"), True),
        (bind("/dev/shm", "/dev/shm"), False),
        (bind("/usr/bin/docker-init", "/sbin/docker-init", options=["bind", "ro"]), True),
        (bind("/etc/shadow", "/sbin/docker-init", options=["bind", "ro"]), False),
        (bind("/etc", type="tmpfs", options=["bind"]), False),
        ({"destination": "/x", "type": "ext4", "source": "/dev/vda"}, False),
        ({"destination": "/x", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid"]}, True),
        ({"destination": "/x"}, False),
    ],
)
def test_only_what_is_below_an_allowed_folder_may_be_mounted(mount: dict[str, object], *, allowed: bool) -> None:
    real = {"/data/link": "/etc", "/data/../etc": "/etc"}
    around = Surroundings(container=ID, data_root="/var/lib/docker", real=real)
    found = refused(with_mounts(mount), Refusals(mounts_outside=("/data",)), around)
    assert (found == {}) == allowed


def test_an_allowed_folder_may_itself_be_a_link() -> None:
    around = Surroundings(
        container=ID, data_root="/var/lib/docker", real={"/data": "/srv/data", "/data/a": "/srv/data/a"}
    )
    assert refused({"mounts": [bind("/data/a")]}, Refusals(mounts_outside=("/data",)), around) == {}


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ({"allow": True, "type": "c", "major": 195, "minor": 0, "access": "rw"}, "c 195:0"),
        ({"allow": True, "type": "c", "major": 195, "access": "r"}, "c 195:*"),
        ({"allow": True, "type": "c", "major": 195, "minor": -1, "access": "rwm"}, "c 195:*"),
        ({"allow": True, "type": "b"}, "every device"),
        ({"allow": True}, "every device"),
        ({"allow": True, "type": "c", "access": "m"}, ""),
        ({"allow": True, "type": "c", "major": 136, "minor": 7, "access": "rwm"}, ""),
        ({"allow": False, "type": "c", "major": 195, "minor": 0, "access": "rw"}, ""),
    ],
)
def test_a_rule_for_other_devices_is_refused(rule: dict[str, object], words: str) -> None:
    spec = recorded("plain")
    spec["linux"]["resources"]["devices"].append(rule)
    assert refused(spec, Refusals(devices=True)).get("devices", "") == words


def test_a_spec_that_says_nothing_is_taken_for_the_worst() -> None:
    assert refused({}).keys() == {"privileged", "namespaces"}
    assert refused({"linux": None, "mounts": None, "process": None}).keys() == {"privileged", "namespaces"}


def test_ten_thousand_of_anything_make_a_short_refusal() -> None:
    spec = with_mounts(*(bind(f"/etc/{number}") for number in range(10_000)))
    what = refused(spec)["mounts_outside"]
    assert what.endswith(" and 9995 more")
    assert len(what) < 200


def test_a_process_that_enters_may_have_what_its_container_has() -> None:
    own = {"Bounding": [*DEFAULT_CAPABILITIES, "CAP_SYS_PTRACE"], "Inheritable": None}
    both = {"bounding": ["CAP_SYS_PTRACE", "CAP_SYS_ADMIN"], "effective": ["CAP_CHOWN"]}
    (step,) = judge_process({"capabilities": both}, ALL, own)
    assert (step.rule, step.what) == ("refuse.privileged", "CAP_SYS_ADMIN")
    assert judge_process({"capabilities": {"bounding": ["CAP_SYS_PTRACE"]}}, ALL, own) == ()
    assert judge_process({}, ALL, None) == ()
    assert judge_process({"capabilities": both}, Refusals(devices=True), None) == ()
    assert more_capabilities({"ambient": ["cap_sys_admin"]}) == ["CAP_SYS_ADMIN"]


def test_a_refusal_says_the_rule_and_what_to_do() -> None:
    with pytest.raises(UsageError) as caught:
        require_allowed(judge(recorded("host_namespaces"), ALL, AROUND))
    assert "refuse.namespaces: pid, net, ipc, uts" in caught.value.evidence
    require_allowed(())
