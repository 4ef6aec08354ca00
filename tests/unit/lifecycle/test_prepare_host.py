from __future__ import annotations

import os
import sys
import threading
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import structs

import gpuprov.lifecycle.prepare_host as prepare_host_module
from gpuprov.cluster.image_parts import ImageParts
from gpuprov.core.errors import HostNotReady
from gpuprov.core.group_files import LOCK_NAME, Gates
from gpuprov.core.lock import host_lock
from gpuprov.core.reporter import Silent
from gpuprov.core.units import GIB
from gpuprov.drivers.base import LABEL_CLUSTER
from gpuprov.drivers.networks import NetworkRequest
from gpuprov.gpu.observe import observe
from gpuprov.lifecycle.prepare_host import (
    HostOrder,
    describe_storage,
    own_program,
    prepare_host,
    undo_host,
    variables_for,
)
from gpuprov.machine.apt_progress import COMING
from gpuprov.machine.installed_packages import STATUS
from gpuprov.provision.events import TaskEvent
from gpuprov.provision.playbook import Play, PlayResult, TaskFailed
from gpuprov.shapes.engine import EngineCluster
from tests.fakes.doors import door_of
from tests.fakes.driver import FakeDriver
from tests.fakes.engine import FakeEngine
from tests.fakes.host import FakeHost
from tests.fakes.places import NOWHERE

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from gpuprov.core.reporter import Reporter
    from gpuprov.gpu.models import HostGpus
    from gpuprov.provision.recipe import Recipe
    from gpuprov.shapes.choices import Engine, GpuMode

ORDER = HostOrder(roles_path=Path("/roles"), pool_size_gib=12, bridges=("br7",), variables=(("host_lxd_dir", "/x"),))


class Plays:
    def __init__(self, *, changed: tuple[str, ...] = (), failure: TaskFailed | None = None) -> None:
        self.seen: list[Play] = []
        self._changed = changed
        self._failure = failure

    def __call__(self, play: Play, *, reporter: object) -> PlayResult:  # noqa: ARG002 - the tool's signature
        self.seen.append(play)
        if self._failure:
            raise self._failure
        return PlayResult(changed=self._changed, ok=3)


class Notes(Silent):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def no_gpus(_mode: GpuMode) -> HostGpus:
    raise AssertionError("nobody asks for GPUs here")


@pytest.fixture
def host(tmp_path: Path) -> FakeHost:
    doors = []
    for name in ("lxd", "docker"):
        driver = FakeDriver(FakeEngine())
        driver.name = name
        doors.append(door_of(driver))
    made = FakeHost(folder=tmp_path, observe=no_gpus, engines=tuple(doors))
    made.run_records.prepare()
    return made


@pytest.fixture(autouse=True)
def _root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)


def test_prepare_applies_the_role_to_this_machine(host: FakeHost) -> None:
    plays = Plays(changed=("host: Install packages",))
    outcome = prepare_host(ORDER, host, reporter=Silent(), run=plays)
    assert outcome.changed == ("Install packages",)
    assert [phase.name for phase in outcome.phases] == ["host prepare"]
    (play,) = plays.seen
    (use,) = play.roles
    assert (use.name, use.tasks) == ("host", "main")
    assert use.variables == {
        "host_engine": "lxd",
        "host_pool_size_gib": 12,
        "host_bridges": ["br7"],
        "host_start_timeout_s": 60,
        "host_restore_program": "",
        "host_lxd_dir": "/x",
    }
    assert [target.engine for target in play.targets] == [None]


def test_an_engine_has_longer_to_start_where_the_user_says_so(host: FakeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUPROV_SILENCE_S", "1200")
    plays = Plays()
    prepare_host(ORDER, host, reporter=Silent(), run=plays)
    assert plays.seen[0].roles[0].variables["host_start_timeout_s"] == 240


def test_systemd_starts_this_gpuprov_at_boot_and_without_systemd_a_person_is_told(host: FakeHost) -> None:
    notes = Notes()
    order = replace(ORDER, program="/opt/gpuprov/current/bin/gpuprov")
    plays = Plays(changed=("host: Install packages",))
    prepare_host(order, host, reporter=notes, run=plays)
    assert plays.seen[0].roles[0].variables["host_restore_program"] == order.program
    assert any(
        note.startswith("there is no systemd: after each reboot, run: sudo gpuprov host") for note in notes.notes
    )


def test_a_program_is_named_by_the_place_that_an_upgrade_keeps(tmp_path: Path) -> None:
    (tmp_path / "versions").mkdir()
    (tmp_path / "versions/gpuprov").touch()
    (tmp_path / "gpuprov").symlink_to(tmp_path / "versions/gpuprov")
    assert own_program([str(tmp_path / "gpuprov")]) == str(tmp_path / "gpuprov")
    assert own_program([str(tmp_path / "pytest")]) == ""


def test_how_far_apt_is_is_told_meanwhile(host: FakeHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: SimpleQueue[tuple[str, str]] = SimpleQueue()

    class Heard(Silent):
        def node(self, name: str, state: str) -> None:
            told.put((name, state))

    class Installing(Plays):
        def __call__(self, play: Play, *, reporter: object) -> PlayResult:
            (tmp_path / COMING).mkdir(parents=True)
            (tmp_path / COMING / "lxd_5.0.2_amd64.deb").write_bytes(b"x")
            assert told.get(timeout=30) == ("apt", "fetching lxd; fetched 0 packages (0 MB)")
            return super().__call__(play, reporter=reporter)

    monkeypatch.setattr(prepare_host_module, "APT_LOOK_S", 0.01)
    prepare_host(ORDER, replace(host, root=tmp_path), reporter=Heard(), run=Installing())
    assert told.empty(), "it is told once"


def test_the_record_of_run_is_made_for_those_who_may_use_the_engine(host: FakeHost) -> None:
    host.run_records.place.rmdir()
    outcome = prepare_host(ORDER, host, reporter=Silent(), run=Plays())
    assert outcome.changed == (f"made {host.run_records.place}",)
    assert prepare_host(ORDER, host, reporter=Silent(), run=Plays()).unchanged


def test_nothing_to_do_is_an_unchanged_outcome(host: FakeHost) -> None:
    assert prepare_host(ORDER, host, reporter=Silent(), run=Plays()).unchanged


@pytest.mark.parametrize(
    ("engine", "changed", "says"),
    [
        ({}, True, "nodes are put on memory, 12.0 GiB free"),
        ({}, False, ""),
        ({"free_bytes": None}, True, ""),
        ({"copy_on_write": False, "name": "incus"}, False, "host prepare --engine incus --pool-size 30"),
        (
            {"copy_on_write": False, "cluster": EngineCluster(member="m1", members=("m1",))},
            False,
            "no pool is created in",
        ),
    ],
)
def test_what_nodes_are_put_on_is_told_where_it_is_new_or_slow(
    host: FakeHost, engine: dict[str, Any], changed: bool, says: str
) -> None:
    facts = structs.replace(host.open("lxd").facts(), free_bytes=12 * GIB)
    note = describe_storage(structs.replace(facts, **engine), changed=changed)
    assert bool(note) == bool(says)
    assert says in note


def test_without_a_size_the_role_chooses_one(host: FakeHost) -> None:
    plays = Plays()
    prepare_host(replace(ORDER, pool_size_gib=None), host, reporter=Silent(), run=plays)
    assert plays.seen[0].roles[0].variables["host_pool_size_gib"] == 0


def test_prepare_restores_what_a_reboot_took(host: FakeHost) -> None:
    driver = host.open("lxd")
    for name in ("gpbr0", "gpbr1"):
        driver.create_network(NetworkRequest(name=name, labels={LABEL_CLUSTER: "lab"}))
    driver.isolate_network("gpbr1")
    assert prepare_host(ORDER, host, reporter=Silent(), run=Plays()).changed == ("isolated network gpbr0",)
    assert prepare_host(ORDER, host, reporter=Silent(), run=Plays()).unchanged


class BareMachine:
    """No mmdebstrap until the play has installed it; what is made of the first image is in `made`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, host: FakeHost) -> None:
        self.installed = threading.Event()
        self.made: list[str] = []
        self.host = replace(host, observe=lambda mode: observe(root=NOWHERE, mode=mode))
        monkeypatch.setattr(prepare_host_module, "can_build", self.installed.is_set)
        monkeypatch.setattr(prepare_host_module, "LOOK_S", 0.01)
        monkeypatch.setattr(ImageParts, "early_wheels", lambda _parts, _stop: self.made.append("wheels"))
        monkeypatch.setattr(ImageParts, "base", lambda _parts, _stop: self.make_base())

    def make_base(self) -> None:
        self.made.append("base")

    def prepare(self, plays: Plays, reporter: Silent, *, bare: bool = True) -> None:
        def install(play: Play, *, reporter: object) -> PlayResult:
            result = plays(play, reporter=reporter)
            self.installed.set()
            return result

        prepare_host(replace(ORDER, first_image=bare), self.host, reporter=reporter, run=install)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, host: FakeHost) -> BareMachine:
    return BareMachine(monkeypatch, host)


def test_on_a_bare_machine_the_parts_of_the_first_image_are_made_meanwhile(machine: BareMachine) -> None:
    plays = Plays()
    machine.prepare(plays, Silent())
    assert machine.made == ["wheels", "base"]
    assert plays.seen[0].roles[0].variables["host_image_tools_first"] is True


def test_a_machine_that_could_build_images_before_is_not_kept_waiting_for_one(machine: BareMachine) -> None:
    machine.installed.set()
    plays = Plays()
    machine.prepare(plays, Silent())
    assert machine.made == []
    assert "host_image_tools_first" not in plays.seen[0].roles[0].variables


def test_a_refresh_makes_the_parts_once_and_says_so(machine: BareMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    refreshed: list[str] = []

    def refresh(recipe: Recipe, *_: object, **__: object) -> tuple[str, ...]:
        refreshed.append(recipe.base)
        return ("built the base",)

    monkeypatch.setattr(prepare_host_module, "refresh_cache", refresh)
    order = replace(ORDER, first_image=True, refresh=True)
    outcome = prepare_host(order, machine.host, reporter=Silent(), run=Plays())
    assert (machine.made, refreshed) == ([], ["bookworm"])
    assert outcome.changed[-1] == "built the base"


def test_a_machine_that_cannot_be_prepared_makes_no_part_of_an_image(machine: BareMachine, tmp_path: Path) -> None:
    plays = Plays(failure=failure(tmp_path / "play", "Install packages", "no mirror"))
    with pytest.raises(TaskFailed, match="Install packages"):
        machine.prepare(plays, Silent())
    assert "base" not in machine.made


def test_a_machine_is_ready_without_the_first_image(machine: BareMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise HostNotReady("no mirror", evidence="why", fix="do")

    monkeypatch.setattr(machine, "make_base", fail)
    notes = Notes()
    machine.prepare(Plays(), notes)
    assert "no mirror; `cluster up` tries again" in notes.notes


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give folders to groups")
def test_the_lock_is_open_to_the_group_of_an_engine_that_has_just_been_installed(
    host: FakeHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups: set[int] = set()

    def lock(here: FakeHost, reporter: Reporter) -> AbstractContextManager[bool]:
        return host_lock(reporter, gates=Gates(folder=here.folder, groups=frozenset(groups)))

    monkeypatch.setattr(FakeHost, "lock", lock)

    def install(play: Play, *, reporter: object) -> PlayResult:
        groups.add(54001)
        return Plays()(play, reporter=reporter)

    prepare_host(ORDER, host, reporter=Silent(), run=install)
    assert (tmp_path / "54001" / LOCK_NAME).stat().st_ino == (tmp_path / "owner" / LOCK_NAME).stat().st_ino


@pytest.mark.parametrize("cached", [False, True])
def test_undo_says_what_stays_and_how_to_remove_it(
    host: FakeHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, cached: bool
) -> None:
    cache = tmp_path / "cache"
    if cached:
        cache.mkdir()
    monkeypatch.setattr("gpuprov.lifecycle.prepare_host.default_cache", lambda: cache)
    has_packages(tmp_path, "btrfs-progs")
    host = replace(host, root=tmp_path, engines=host.engines[:1])
    prepare_host(ORDER, host, reporter=Silent(), run=Plays())
    has_packages(tmp_path, "lxd", "lxd-client", "mmdebstrap", "btrfs-progs")
    plays, notes = Plays(), Notes()
    undo_host(ORDER, replace(host, root=tmp_path), reporter=notes, run=plays)
    assert plays.seen[0].roles[0].tasks == "undo"
    assert "apt-get remove lxd lxd-client mmdebstrap && apt-get" in "\n".join(notes.notes)
    assert "; btrfs-progs: may have been there before" in "\n".join(notes.notes)
    assert (f"rm -r {cache}" in "\n".join(notes.notes)) is cached


def has_packages(root: Path, *packages: str) -> None:
    status = root / STATUS
    status.parent.mkdir(parents=True, exist_ok=True)
    status.write_text(
        "\n".join(f"Package: {name}\nStatus: install ok installed\nPriority: optional\n" for name in packages)
        + "\nPackage: dpkg-dev\nStatus: deinstall ok config-files\n"
    )


@pytest.mark.parametrize(
    "there", [("docker.io", "docker-cli", "mmdebstrap"), ("docker.io", "mmdebstrap"), ("docker-ce",)]
)
def test_undo_names_the_packages_that_this_release_has(
    host: FakeHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: tuple[str, ...]
) -> None:
    monkeypatch.setattr("gpuprov.lifecycle.prepare_host.default_cache", lambda: tmp_path / "cache")
    has_packages(tmp_path)
    host = replace(host, root=tmp_path, engines=host.engines[1:])
    order = replace(ORDER, engine="docker")
    prepare_host(order, host, reporter=Silent(), run=Plays())
    has_packages(tmp_path, *there)
    notes = Notes()
    undo_host(order, host, reporter=notes, run=Plays())
    removal = f"packages are kept; to remove them: apt-get remove {' '.join(there)} && apt-get autoremove"
    assert notes.notes == ([] if there == ("docker-ce",) else [removal])


def test_undo_proposes_nothing_that_another_engine_needs(
    host: FakeHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuprov.lifecycle.prepare_host.default_cache", lambda: tmp_path / "cache")
    host, notes = replace(host, root=tmp_path), Notes()
    has_packages(tmp_path)
    prepare_host(ORDER, host, reporter=Silent(), run=Plays())
    has_packages(tmp_path, "lxd", "mmdebstrap", "btrfs-progs", "docker.io")
    undo_host(ORDER, host, reporter=notes, run=Plays())
    assert "\n".join(notes.notes) == (
        "packages are kept; to remove them: apt-get remove lxd btrfs-progs && apt-get autoremove; "
        "mmdebstrap: may have been there before, or another engine needs them"
    )


@pytest.mark.parametrize("verb", ["prepare", "undo"])
def test_without_root_it_names_the_command_with_sudo(
    host: FakeHost, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(sys, "argv", ["/opt/venv/bin/gpuprov", "host", verb])
    plays = Plays()
    with pytest.raises(HostNotReady, match="needs root") as caught:
        (prepare_host if verb == "prepare" else undo_host)(ORDER, host, reporter=Silent(), run=plays)
    assert caught.value.fix == f"sudo /opt/venv/bin/gpuprov host {verb} --engine lxd"
    with pytest.raises(HostNotReady, match="needs root") as caught:
        undo_host(replace(ORDER, engine="docker"), host, reporter=Silent(), run=plays)
    assert caught.value.fix.endswith("gpuprov host undo --engine docker")
    assert plays.seen == []


def failure(folder: Path, task: str, message: str) -> TaskFailed:
    folder.mkdir()
    event = TaskEvent(kind="failed", host="localhost", role="host", task=task, message=message)
    return TaskFailed(event, folder=folder)


def test_a_requirement_that_does_not_hold_is_about_the_host(host: FakeHost, tmp_path: Path) -> None:
    message = "/var: 3 GiB free, 14 GiB needed\nfix: make room"
    plays = Plays(failure=failure(tmp_path / "play", "Require enough disk space for the pool", message))
    with pytest.raises(HostNotReady, match="requirement not met: enough disk space for the pool") as caught:
        prepare_host(ORDER, host, reporter=Silent(), run=plays)
    assert caught.value.evidence == "/var: 3 GiB free, 14 GiB needed"
    assert caught.value.fix == "make room"
    assert not (tmp_path / "play").exists()


def test_a_task_that_failed_keeps_its_log(host: FakeHost, tmp_path: Path) -> None:
    plays = Plays(failure=failure(tmp_path / "play", "Install packages", "no mirror"))
    with pytest.raises(TaskFailed, match="Install packages") as caught:
        prepare_host(ORDER, host, reporter=Silent(), run=plays)
    assert "no mirror" in caught.value.evidence
    assert (tmp_path / "play").exists()


def test_the_roles_refusals_are_told_from_its_faults_by_name() -> None:
    """Every assert of the role begins as `explain` looks for, and carries its fix."""
    import yaml

    tasks = Path(__file__).parents[3] / "roles" / "host" / "tasks"
    asserts = [
        task
        for path in tasks.glob("*.yml")
        for task in yaml.safe_load(path.read_text(encoding="utf-8"))
        if "ansible.builtin.assert" in task
    ]
    assert len(asserts) >= 4
    for task in asserts:
        assert task["name"].startswith("Require ")
        assert "\nfix: " in task["ansible.builtin.assert"]["fail_msg"]


OWN = {"host_lxd_dir": "/srv/own", "host_log_dir": "/srv/own/logs", "host_run_dir": "/srv/own"}


@pytest.mark.parametrize(
    ("engine", "variable", "folder", "expected"),
    [
        ("lxd", "LXD_DIR", "/srv/own/", OWN),
        ("lxd", "LXD_DIR", "/var/lib/lxd", {}),
        ("lxd", "LXD_DIR", "/var/snap/lxd/common/lxd", {}),
        ("lxd", "LXD_DIR", "", {}),
        ("lxd", "INCUS_DIR", "/srv/own", {}),
        ("incus", "INCUS_DIR", "/srv/own", OWN),
        ("incus", "INCUS_DIR", "/var/lib/incus/", {}),
        ("docker", "LXD_DIR", "/srv/own", {}),
    ],
)
def test_the_lxd_or_incus_of_the_environment_is_meant(
    engine: Engine, variable: str, folder: str, expected: dict[str, str]
) -> None:
    assert dict(variables_for(engine, {variable: folder})) == expected
    assert variables_for(engine, {}) == ()
