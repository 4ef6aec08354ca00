"""What the LXD driver makes of LXD's own faults; everything else is the contract suite's, on a real one."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

import pytest
from pylxd.exceptions import LXDAPIException

from gpuprov.core.errors import EngineError
from gpuprov.drivers.base import NodeRequest
from gpuprov.drivers.lxd.api import LxdApi, NotFound, describe_request
from gpuprov.drivers.lxd.driver import LxdDriver
from gpuprov.drivers.lxd.family import KIN

if TYPE_CHECKING:
    from collections.abc import Callable

UNFINISHED = {"user.gpuprov.self": "c000", "user.gpuprov.cluster": "lab"}
TORN = "Create instance from copy: readdirent /var/lib/lxd/x/Lower: bad file descriptor"


class FaultyApi:
    """An LXD that has one pool and nothing else, and fails at a request as often as it is told."""

    pool = "gpuprov"
    engine = command = "lxd"
    member = ""
    kin = KIN["lxd"]

    def __init__(self, evidence: str, times: int) -> None:
        self.evidence, self.times = evidence, times
        self.made: list[str] = []
        self.removed: list[str] = []
        self.stands: dict[str, str] | None = UNFINISHED  # the configuration of c000 after a failure

    def fail(self) -> None:
        if self.times:
            self.times -= 1
            raise EngineError("lxd could not", evidence=self.evidence, fix="try")

    def send(self, method: str, *path: str, body: dict[str, Any], target: str) -> None:
        assert (method, path, target) == ("post", ("instances",), "")
        self.fail()
        self.made.append(body["name"])

    def get(self, *path: str) -> dict[str, Any]:
        assert path == ("instances", "c000")
        if self.stands is None:
            raise NotFound("there is none", evidence="e", fix="f")
        return {"name": "c000", "status": "Stopped", "config": self.stands, "devices": {}, "expanded_devices": {}}

    def read(self, *_path: str, take: Callable[[bytes], object], **_limits: float) -> None:
        self.fail()
        take(b"booted")


def driver_of(api: FaultyApi, monkeypatch: pytest.MonkeyPatch) -> LxdDriver:
    driver = LxdDriver(cast("Any", api), name="lxd")
    monkeypatch.setattr(driver, "_refuse_taken", lambda _name: None)
    monkeypatch.setattr(driver, "_can_shift", lambda: False)
    monkeypatch.setattr(driver, "_ours", lambda _name: None)
    monkeypatch.setattr("gpuprov.drivers.lxd.ending.remove_instance", lambda _api, name: api.removed.append(name))
    return driver


class DyingApi(LxdApi):
    """An Incus that has no answer for a dying instance, so many times."""

    status_code = 500
    headers: ClassVar = {"ETag": '"1"'}

    def __init__(self, times: int) -> None:
        super().__init__(None, engine="incus", socket=Path("/run/incus/unix.socket"))
        self.times = times

    def _node(self, path: tuple[str, ...]) -> Any:
        assert path == ("instances", "c000")
        return self

    def get(self, *path: str, **params: Any) -> Any:
        if path:
            return super().get(*path, **params)
        self.times -= 1
        if self.times >= 0:
            raise LXDAPIException(self)
        return self

    def json(self) -> dict[str, object]:
        return {"error": "Invalid PID '\ufffd'", "metadata": "its state"}


def test_a_dying_instance_is_read_once_it_is_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuprov.drivers.lxd.api._DYING_STEP_S", 0.0)
    assert DyingApi(3).get("instances", "c000") == "its state"
    monkeypatch.setattr("gpuprov.drivers.lxd.api._DYING_S", 0.0)
    with pytest.raises(EngineError, match="incus could not read instances/c000"):
        DyingApi(1000).get("instances", "c000")


REQUEST = NodeRequest(name="c000", image="instance:base", labels={})


@pytest.mark.parametrize(("times", "made"), [(0, True), (1, True), (2, False)])
def test_a_copy_that_lxd_breaks_off_is_made_once_more(times: int, made: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    api = FaultyApi(TORN, times)
    driver = driver_of(api, monkeypatch)
    if made:
        driver.create_node(REQUEST)
    else:
        with pytest.raises(EngineError, match="could not"):
            driver.create_node(REQUEST)
    assert api.made == ["c000"] * made
    assert api.removed == ["c000"] * times, "what the broken copy left is removed before the next"


@pytest.mark.parametrize(
    ("said", "stands"),
    [
        ("no space left on device", None),
        ("no space left on device", {}),
        ("no space left on device", {**UNFINISHED, "user.gpuprov.fingerprint": "f"}),
        ("no space left on device", {"user.gpuprov.cluster": "lab", "user.gpuprov.kind": "image"}),
        ("UNIQUE constraint failed: instances.project_id, instances.name", UNFINISHED),
        ('This "instances" entry already exists', UNFINISHED),
    ],
)
def test_an_instance_that_somebody_else_made_of_that_name_is_not_removed(
    said: str, stands: dict[str, str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process may have made it since it was looked whether the name is free."""
    api = FaultyApi(said, 1)
    api.stands = stands
    with pytest.raises(EngineError, match="could not"):
        driver_of(api, monkeypatch).create_node(REQUEST)
    assert api.removed == []


@pytest.mark.parametrize(("privileged", "attempts"), [(True, 3), (False, 1)])
def test_only_a_privileged_node_is_started_again_where_lxd_lost_a_file(
    privileged: bool, attempts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuprov.drivers.lxd.again.PAUSE_S", 0.0)
    api = FaultyApi("Failed to handle idmapped storage: Failed to change ownership of: /rootfs/etc/passwd", attempts)
    api.stands = {**UNFINISHED, "security.privileged": str(privileged).lower()}
    driver = driver_of(api, monkeypatch)
    monkeypatch.setattr(driver, "_change_state", lambda _name, _action: api.fail())
    monkeypatch.setattr(driver, "_our_document", lambda _name: api.get("instances", "c000"))
    monkeypatch.setattr("gpuprov.drivers.lxd.driver.members.list_here", lambda _api: [])
    monkeypatch.setattr("gpuprov.drivers.lxd.driver.explain_start", lambda _api, _name, error: error)
    with pytest.raises(EngineError, match="lxd could not"):
        driver.start_node("c000")
    assert api.times == 0, "so often it was tried"
    if privileged:
        api.times = attempts - 1
        driver.start_node("c000")


def test_a_node_is_made_once_its_network_has_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuprov.drivers.lxd.again.PAUSE_S", 0.0)
    said = 'Failed to add device "eth0": open /var/lib/incus/networks/gpbr0/dnsmasq.hosts/c000.eth0: no such file'
    for times, made in ((24, True), (25, False)):
        api = FaultyApi(said, times)
        driver = driver_of(api, monkeypatch)
        with nullcontext() if made else pytest.raises(EngineError, match="could not"):
            driver.create_node(REQUEST)
        assert api.made == ["c000"] * made


def test_another_fault_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    api = FaultyApi("no space left on device", 1)
    with pytest.raises(EngineError):
        driver_of(api, monkeypatch).create_node(REQUEST)
    assert (api.made, api.removed) == ([], ["c000"])


def test_a_console_log_that_liblxc_read_by_half_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuprov.drivers.lxd.again.PAUSE_S", 0.0)
    assert driver_of(FaultyApi("message too long", 9), monkeypatch).logs("c000") == "booted"
    with pytest.raises(EngineError) as told:
        driver_of(FaultyApi("message too long", 10), monkeypatch).logs("c000")
    assert told.value.evidence == "message too long"


def test_a_node_without_a_console_log_has_an_empty_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert driver_of(FaultyApi("open : no such file or directory", 1), monkeypatch).logs("c000") == ""
    assert driver_of(FaultyApi("", 0), monkeypatch).logs("c000") == "booted"
    with pytest.raises(EngineError):
        driver_of(FaultyApi("permission denied", 1), monkeypatch).logs("c000")


class HalfRemoved:
    """An LXD that was killed while it removed a node: it fails for as long as there is a folder."""

    engine, command, kin = "lxd", "lxc", KIN["lxd"]

    def __init__(self, folder: Path) -> None:
        self.folder, self.socket = folder, folder.parent / "unix.socket"

    def get(self, *_path: str) -> dict[str, object]:
        return {"status": "Stopped", "devices": {}, "config": {}}

    def delete(self, *_path: str, **_limits: float) -> None:
        if self.folder.exists():
            words = f'Error deleting storage volume: Failed setting subvolume writable "{self.folder}": Failed to run'
            raise EngineError("lxd could not", evidence=words, fix="try")


@pytest.mark.parametrize(
    ("folder", "content", "removed"), [("c000", "", True), ("c000", "file", False), ("c001", "", False)]
)
def test_the_empty_folder_of_a_node_that_lxd_half_removed_goes(
    tmp_path: Path, folder: str, content: str, *, removed: bool
) -> None:
    place = tmp_path / folder
    (place / content).mkdir(parents=True)
    driver = LxdDriver(cast("Any", HalfRemoved(place)), name="lxd")
    if removed:
        driver._remove("c000")
    else:
        with pytest.raises(EngineError, match="could not"):
            driver._remove("c000")
    assert place.exists() is not removed


class FailedOperation:
    """A client of pylxd all of whose operations failed, with one reason."""

    def __init__(self, reason: str) -> None:
        self.api, self.reason = self, reason

    def __getitem__(self, _part: str) -> FailedOperation:
        return self

    def get(self, **_params: object) -> FailedOperation:
        return self

    def json(self) -> dict[str, object]:
        return {"metadata": {"status_code": 400, "err": self.reason}}


@pytest.mark.parametrize(
    ("said", "fix"),
    [
        ("No space left on device", "free some space in the storage pool: lxc storage list; gpuprov image list"),
        (
            "Unable to resolve container rootfs: lstat /p/containers/c000/rootfs: no such file or directory",
            "LXD died while removing it and its files are gone: gpuprov rm c000; then run the same command again",
        ),
        (
            'Missing source path "/usr/lib/libcuda.so.550" for disk "mount-usr-lib-libcuda.so.1"',
            "the host lacks a mounted file or folder; after a driver upgrade: gpuprov cluster up --name CLUSTER",
        ),
        ("anything else", "check the host with: gpuprov doctor"),
    ],
)
def test_the_next_command_for_lxd_s_own_words(said: str, fix: str) -> None:
    api = LxdApi(FailedOperation(said), engine="lxd", socket=Path())
    with pytest.raises(EngineError) as caught:
        api.finished({"operation": "/1.0/operations/1"}, ("instances", "c000", "state"), 1.0)
    assert caught.value.fix == fix


@pytest.mark.parametrize(
    ("path", "body", "what"),
    [
        (("instances", "c000", "exec"), {"command": ["true"]}, "lxd could not run a command in c000"),
        (("instances", "c000", "state"), {"action": "start"}, "lxd could not start c000"),
        (("instances", "c000"), {"config": {}}, "lxd could not change instances/c000"),
        (("instances", "c000"), {"restore": "s"}, "lxd could not restore c000"),
        (("instances", "c000", "snapshots"), {"name": "s"}, "lxd could not create the snapshot s of c000"),
        (("instances",), {"name": "c000"}, "lxd could not create c000"),
        (("networks",), {"name": "gpbr0"}, "lxd could not create the network gpbr0"),
        (("networks", "gpbr0"), {"config": {}}, "lxd could not change networks/gpbr0"),
    ],
)
def test_an_error_says_what_was_asked_for(path: tuple[str, ...], body: dict[str, object], what: str) -> None:
    """A reading verb that runs a command beside a `down` must not say that it could not change something."""
    assert f"lxd could not {describe_request('post', path, body)}" == what


def test_a_failed_operation_is_told_by_what_was_asked_for() -> None:
    api = LxdApi(FailedOperation("Instance is not running"), engine="lxd", socket=Path())
    answer: dict[str, Any] = {"operation": "/1.0/operations/1"}
    for deed, what in (("", "could not run a command in c000"), ("delete c000", "could not delete c000")):
        with pytest.raises(EngineError, match=what):
            api.finished(answer, ("instances", "c000", "exec"), 1.0, deed=deed)


def test_a_terminal_is_led_into_a_node_of_this_machine_whatever_remote_the_user_works_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    argv = driver_of(FaultyApi("", 0), monkeypatch).attach_argv("c000", ["id"], environment={"K": "v"})
    assert " ".join(argv) == "lxd exec --force-local --project default local:c000 --cwd /root --env K=v -- id"
