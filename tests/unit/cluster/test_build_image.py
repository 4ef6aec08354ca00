from __future__ import annotations

import os
import random
import shutil
import signal
import threading
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest

from gpuprov.cluster.build_image import (
    IMAGE_FILE,
    PAYLOAD,
    BuildSite,
    BuildTools,
    EnsuredImage,
    ensure_image,
    find_built,
)
from gpuprov.cluster.built_images import delete_built, remove_superseded
from gpuprov.cluster.images import find_images
from gpuprov.core.errors import EngineError, GpuprovError, HostNotReady, NotOurs, PlaybookError
from gpuprov.core.fingerprint import short
from gpuprov.core.reporter import Silent
from gpuprov.drivers.base import BUILDER, LABEL_FINGERPRINT, LABEL_IMAGE, LABEL_PACKAGES, ExecResult, File, NodeRequest
from gpuprov.provision.events import TaskEvent
from gpuprov.provision.package_versions import ASK_VERSIONS, read_versions
from gpuprov.provision.playbook import Play, PlayResult, TaskFailed
from gpuprov.provision.recipe import Recipe
from gpuprov.roles.registry import ROLES
from gpuprov.shapes.node import Attachment
from gpuwork import where
from tests.fakes.driver import FakeDriver
from tests.fakes.engine import Command, FakeEngine, FakeImage
from tests.fakes.faults import Killed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from gpuprov.core.follower import Follower
    from gpuprov.provision.kept_bases import Base
    from gpuprov.shapes.engine import ImageState
    from tests.conftest import Ledger

EPHEMERAL = Attachment(network="gpbr0", interface="eth0", kind="veth", address="10.0.3.254/24", mac="00:16:3e:00:00:01")


@dataclass
class Workshop:
    """A fake engine, and what a build uses beside it; `done` lists what was used, in order."""

    engine: FakeEngine
    folder: Path
    recipe: Recipe
    done: list[str] = field(default_factory=list)
    plays: list[Play] = field(default_factory=list)
    fetched: list[str] = field(default_factory=list)
    packages: tuple[str, ...] = ()
    during_play: Callable[[], object] = lambda: None
    during_wheels: Callable[[Follower], object] = lambda _follower: None

    def rootfs(
        self,
        base: Base,
        *,
        cache: Path,
        tell: Callable[[str], object],
        stop: object,  # noqa: ARG002 - the tool's signature
    ) -> Path:
        tell("installed 1 of 1 packages")
        self.done.append(f"rootfs {base.suite}")
        self.packages = base.packages
        cache.mkdir(exist_ok=True)
        tar = cache / f"rootfs-{base.suite}.tar"
        tar.touch()
        os.utime(tar, (0, 0))  # all builds start from one
        return tar

    def wheels(self, _requirements: object, *, python: str, cache: Path, follower: Follower) -> list[Path]:
        follower.hear(["  Downloading numpy.whl (1 MB)"])
        self.during_wheels(follower)
        self.fetched.append(python)
        cache.mkdir(exist_ok=True)
        (cache / "numpy.whl").write_bytes(b"wheel")
        return [cache / "numpy.whl"]

    def play(self, play: Play, *, reporter: object) -> PlayResult:  # noqa: ARG002 - the tool's signature
        self.done.append("play")
        self.plays.append(play)
        self.during_play()
        return PlayResult(changed=(), ok=1)

    def build(
        self, driver: FakeDriver | None = None, *, reporter: Silent | None = None, fresh: bool = False
    ) -> EnsuredImage:
        return ensure_image(
            driver or FakeDriver(self.engine),
            self.recipe,
            site=BuildSite(attachments=(EPHEMERAL,), files=(), cache=self.folder / "cache"),
            reporter=reporter or Silent(),
            tools=BuildTools(rootfs=self.rootfs, wheels=self.wheels, play=self.play),
            fresh=fresh,
        )


def answer(command: Command) -> ExecResult:
    line = command.argv[-1]
    said = {"is-system-running": "running", "stat -c %u:%g /etc/munge": "102:103", "id -u work": "59400"}.get(line)
    if said is None:
        said = "3.11" if "python3" in line else "64030:64030"
    return ExecResult(exit_code=0, stdout=said + "\n", stderr="")


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    for folder in ("roles/base", "roles/cuda", "roles/slurm", "roles/work", "kernels/data", "gpuwork/jobs"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "kernels" / "__main__.py").write_text("main\n")
    (tmp_path / "kernels" / "data" / "golden.json").write_text("{}\n")
    (tmp_path / "gpuwork" / "jobs" / "one.py").write_text("one\n")
    recipe = Recipe(
        base="bookworm",
        packages=("git",),
        requirements=("numpy",),
        role=ROLES["slurm"].recipe,
        roles_path=tmp_path / "roles",
        smoke_kernels=tmp_path / "kernels",
        brought=(tmp_path / "gpuwork",),
    )
    engine = FakeEngine(answer=answer)
    engine.add_foreign_network("gpbr0", address="10.0.3.1/24")
    return Workshop(engine=engine, folder=tmp_path, recipe=recipe)


def test_a_build_leaves_one_image_with_its_labels_and_no_builder(workshop: Workshop) -> None:
    built = workshop.build()
    assert built.built
    assert built.image.labels[LABEL_FINGERPRINT] == workshop.recipe.fingerprint
    assert built.image.labels["gpuprov.munge-owner"] == "102:103"
    assert built.image.labels["gpuprov.account"] == "59400"
    assert workshop.recipe.fingerprint[:12] in built.image.name
    assert workshop.engine.nodes == {}
    assert (workshop.done, workshop.fetched) == (["rootfs bookworm", "play"], ["3.11"])


def test_the_second_build_does_nothing(workshop: Workshop) -> None:
    first = workshop.build()
    before = workshop.engine.dump()
    workshop.done.clear()
    workshop.fetched.clear()
    second = workshop.build()
    assert (second.image, second.built) == (first.image, False)
    assert workshop.done == workshop.fetched == []
    assert workshop.engine.dump() == before


def test_a_changed_recipe_makes_another_image(workshop: Workshop) -> None:
    first = workshop.build()
    workshop.recipe = replace(workshop.recipe, packages=("git", "vim"))
    second = workshop.build()
    assert second.built
    assert second.image.id != first.image.id


def test_a_recipe_that_changes_during_the_build_is_not_taken_for_built(workshop: Workshop) -> None:
    edited = workshop.recipe.roles_path / "base" / "new.yml"
    workshop.during_play = lambda: edited.write_text("new\n")
    workshop.build()
    assert workshop.build().built


def test_the_play_gets_the_packages_and_cleans_up_last(workshop: Workshop) -> None:
    workshop.build()
    (play,) = workshop.plays
    assert [(use.name, use.tasks) for use in play.roles] == [
        ("cuda", "begin"),
        ("base", "main"),
        ("slurm", "main"),
        ("work", "main"),
        ("cuda", "main"),
        ("base", "clean"),
    ]
    assert play.roles[1].variables["base_extra_packages"] == ["git"]
    assert [(target.name, target.engine) for target in play.targets] == [(BUILDER, "fake")]


@pytest.fixture
def own(workshop: Workshop) -> Path:
    """A role of the user's own, in the recipe."""
    folder = workshop.folder / "mine" / "motd"
    (folder / "tasks").mkdir(parents=True)
    (folder / "tasks/main.yml").write_text("[]\n")
    workshop.recipe = replace(workshop.recipe, own_roles=(folder,))
    return folder


def test_a_role_of_the_user_s_own_is_applied_after_gpuprov_s_and_before_the_cleaning(
    workshop: Workshop, own: Path
) -> None:
    found: list[tuple[Path, ...]] = []
    workshop.during_play = lambda: found.append(tuple(sorted(workshop.folder.glob("cache/.roles-*/*"))))
    workshop.build()
    (play,) = workshop.plays
    assert [use.name for use in play.roles][-3:] == ["cuda", "motd", "base"]
    assert play.gather_facts
    ((copy,),) = found
    assert (copy.parent, copy.name) == (play.more_roles_path, own.name)
    assert not copy.exists()
    assert not workshop.build().built
    (own / "tasks/main.yml").write_text("- debug:\n")
    assert workshop.build().built


def test_without_own_roles_no_facts_are_collected(workshop: Workshop) -> None:
    workshop.build()
    assert (workshop.plays[0].gather_facts, workshop.plays[0].more_roles_path) == (False, None)


def test_an_edit_during_the_build_is_in_the_next_image(workshop: Workshop, own: Path) -> None:
    before = workshop.recipe.fingerprint
    workshop.during_play = lambda: (own / "tasks/main.yml").write_text("# edited\n")
    assert workshop.build().image.labels[LABEL_FINGERPRINT] == before
    assert workshop.build().image.labels[LABEL_FINGERPRINT] == workshop.recipe.fingerprint != before


def test_a_role_of_the_user_s_own_that_fails_is_named_and_leaves_nothing(workshop: Workshop, own: Path) -> None:
    event = TaskEvent(kind="failed", host=BUILDER, role="motd", task="Greet", message="no such file")

    def fail() -> None:
        raise TaskFailed(event, folder=workshop.folder)

    workshop.during_play = fail
    with pytest.raises(PlaybookError, match=r"the role motd of image\.roles failed: task 'Greet'") as caught:
        workshop.build()
    assert f"role: {own}\nno such file" in caught.value.evidence
    assert workshop.engine.nodes == {}
    assert FakeDriver(workshop.engine).list_images() == []
    assert list(workshop.folder.glob("cache/.roles-*")) == []


def test_a_role_that_is_gone_is_told_before_anything_is_made(workshop: Workshop, own: Path) -> None:
    shutil.rmtree(own)
    before = workshop.engine.dump()
    with pytest.raises(HostNotReady, match=r"the role motd of image\.roles cannot be used"):
        workshop.build()
    assert (workshop.engine.dump(), workshop.done) == (before, [])


def test_wheels_and_kernels_are_in_the_builder_before_the_roles(workshop: Workshop) -> None:
    pushed: dict[str, File] = {}
    workshop.during_play = lambda: pushed.update(workshop.engine.nodes[BUILDER].files)
    workshop.build()
    assert pushed[f"{PAYLOAD}/wheels/numpy.whl"].content == b"wheel"
    assert pushed[f"{PAYLOAD}/smoke_kernels/__main__.py"].content == b"main\n"
    assert pushed[f"{PAYLOAD}/smoke_kernels/data/golden.json"].content == b"{}\n"
    assert pushed[f"{PAYLOAD}/gpuwork/jobs/one.py"].content == b"one\n"


def test_the_image_knows_its_name_where_the_program_that_records_runs_looks_for_it(workshop: Workshop) -> None:
    pushed: dict[str, File] = {}
    workshop.during_play = lambda: pushed.update(workshop.engine.nodes[BUILDER].files)
    built = workshop.build()
    assert pushed[IMAGE_FILE].content.decode() == f"{short(workshop.recipe.fingerprint)}\n"
    assert short(workshop.recipe.fingerprint) in built.image.name
    assert str(where.IMAGE_FILE) == IMAGE_FILE
    workshop.recipe = replace(workshop.recipe, brought=())
    pushed.clear()
    workshop.build()
    assert IMAGE_FILE not in pushed, "nothing there makes runs"


def test_the_base_has_what_the_roles_would_install_and_the_spec_s_packages_are_left_to_them(
    workshop: Workshop,
) -> None:
    defaults = workshop.recipe.roles_path / "slurm" / "defaults"
    defaults.mkdir()
    (defaults / "main.yml").write_text("slurm_packages: [slurmd]\n")
    workshop.build()
    assert {"python3", "slurmd"} <= set(workshop.packages)
    assert "git" not in workshop.packages


def test_wheels_are_fetched_while_the_base_is_built(workshop: Workshop) -> None:
    with_wheels = threading.Event()
    workshop.during_wheels = lambda _follower: with_wheels.set()
    rootfs = workshop.rootfs

    def slow_rootfs(*args: Any, **wanted: Any) -> Path:
        assert with_wheels.wait(10)
        return rootfs(*args, **wanted)

    with patch.object(workshop, "rootfs", slow_rootfs):
        assert workshop.build().built


def test_wheels_of_another_python_than_the_suite_s_usual_one_are_fetched_again(workshop: Workshop) -> None:
    def newer(command: Command) -> ExecResult:
        return ExecResult(exit_code=0, stdout="3.12\n", stderr="") if "python3" in command.argv[-1] else answer(command)

    workshop.engine.answer = newer
    assert workshop.build().built
    assert workshop.fetched == ["3.11", "3.12"]


def test_a_base_that_cannot_be_built_ends_the_fetching_of_wheels(workshop: Workshop) -> None:
    ended = []

    def fetch(follower: Follower) -> None:
        assert follower.stop.wait(10)
        ended.append(True)

    def fail(*_args: object, **_wanted: object) -> Path:
        raise HostNotReady("no mirror", evidence="why", fix="do")

    workshop.during_wheels = fetch
    with patch.object(workshop, "rootfs", fail), pytest.raises(HostNotReady, match="no mirror"):
        workshop.build()
    assert ended == [True]
    assert workshop.engine.nodes == {}


def test_wheels_that_cannot_be_fetched_leave_neither_builder_nor_image(workshop: Workshop) -> None:
    def fail(_follower: Follower) -> None:
        raise HostNotReady("no index", evidence="why", fix="do")

    workshop.during_wheels = fail
    with pytest.raises(HostNotReady, match="no index"):
        workshop.build()
    assert workshop.engine.nodes == {}
    assert FakeDriver(workshop.engine).list_images() == []


def test_how_far_the_base_and_the_wheels_are_is_told(workshop: Workshop) -> None:
    told: list[tuple[str, str]] = []

    class Heard(Silent):
        def node(self, name: str, state: str) -> None:
            told.append((name, state))

    workshop.build(reporter=Heard())
    assert ("packages", "installed 1 of 1 packages") in told
    assert ("wheels", "fetching numpy.whl (1 MB)") in told


def test_a_failed_role_leaves_neither_builder_nor_image(workshop: Workshop) -> None:
    def fail() -> None:
        raise PlaybookError("role failed", evidence="why", fix="do")

    workshop.during_play = fail
    with pytest.raises(PlaybookError, match="role failed"):
        workshop.build()
    assert workshop.engine.nodes == {}
    assert FakeDriver(workshop.engine).list_images() == []


APT = "E: You don't have enough free space\ndpkg: error: failed to write: No space left on device"
FULL: dict[str, tuple[str, GpuprovError]] = {
    "base": ("import_rootfs", EngineError("could not import", evidence="No space left on device", fix="look")),
    "roles": ("play", PlaybookError("Ansible task 'slurm: Install' failed", evidence=APT, fix="less LOG")),
    "wheels": ("push", EngineError("cannot write numpy.whl", evidence="tar: No space left on device", fix="look")),
    "builder": ("create_node:made", EngineError("could not create", evidence="No space left on device", fix="look")),
    "publish": ("publish_image", EngineError("could not copy", evidence="Disk quota exceeded", fix="look")),
}


@pytest.mark.parametrize("phase", FULL)
def test_a_pool_that_fills_up_is_told_in_every_phase_and_nothing_is_left(workshop: Workshop, phase: str) -> None:
    step, error = FULL[phase]

    def fill() -> None:
        workshop.engine.free_bytes = 1 << 20
        raise error

    free = workshop.engine.free_bytes
    if step == "play":
        workshop.during_play = fill
    else:
        workshop.engine.faults.raise_at(error, step)
    with pytest.raises(HostNotReady, match="fake's storage became full while the image was built") as caught:
        workshop.build()
    assert error.what in caught.value.evidence
    assert error.evidence in caught.value.evidence
    assert "GiB free" in caught.value.evidence
    assert "gpuprov image rm" in caught.value.fix
    assert workshop.engine.nodes == {}
    assert FakeDriver(workshop.engine).list_images() == []
    workshop.engine.free_bytes, workshop.during_play = free, lambda: None
    workshop.engine.faults.clear()
    assert workshop.build().built


def test_a_disk_with_four_gib_is_just_enough(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _folder: shutil._ntuple_diskusage(20 << 30, 16 << 30, 4 << 30))
    workshop.engine.free_bytes = (4 << 30) - 1
    with pytest.raises(HostNotReady, match="not enough space in the engine's storage") as caught:
        workshop.build()
    assert "4 GiB needed" in caught.value.evidence
    workshop.engine.free_bytes = 4 << 30
    assert workshop.build().built


SAMPLED_PAIRS = 25
STEPS = ["create_node:made", "start_node", "push", "run", "publish_image", "import_rootfs:done"]


@pytest.mark.parametrize("step", STEPS)
def test_an_engine_that_fails_leaves_neither_builder_nor_image(workshop: Workshop, step: str) -> None:
    workshop.engine.faults.raise_at(EngineError("broke", evidence="e", fix="f"), step)
    with pytest.raises(EngineError, match="broke"):
        workshop.build()
    assert workshop.engine.nodes == {}
    assert FakeDriver(workshop.engine).list_images() == []


@pytest.mark.parametrize("step", STEPS)
def test_a_killed_build_is_not_used_and_the_next_one_ends_well(workshop: Workshop, step: str) -> None:
    workshop.engine.faults.raise_at(Killed(), step)
    with pytest.raises(Killed):
        workshop.build()
    assert FakeDriver(workshop.engine).list_images() == []
    workshop.engine.faults.clear()
    assert workshop.build().built
    assert workshop.engine.nodes == {}


def killed(workshop: Workshop, step: int) -> bool:
    """Kill a build at this step, counted from 1; whether it came so far."""
    workshop.engine.faults.clear()
    workshop.engine.faults.raise_at(Killed(), nth=step)
    try:
        workshop.build()
    except Killed:
        return True
    finally:
        workshop.engine.faults.clear()
    return False


def ends_well(workshop: Workshop, wanted: dict[str, object]) -> None:
    workshop.build()
    assert workshop.engine.dump() == wanted
    assert not workshop.build().built
    workshop.engine.images.clear()


@pytest.fixture
def undisturbed(workshop: Workshop) -> dict[str, object]:
    """What a build leaves; it is gone again."""
    workshop.build()
    wanted: dict[str, object] = workshop.engine.dump()
    workshop.engine.images.clear()
    return wanted


@pytest.mark.slow
def test_a_build_killed_at_every_step(workshop: Workshop, undisturbed: dict[str, object], ledger: Ledger) -> None:
    steps = 0
    while killed(workshop, steps + 1):
        ends_well(workshop, undisturbed)
        steps += 1
    assert steps > 10
    ledger.add("fake", verb="image build", steps=steps, pairs=0)


@pytest.mark.slow
def test_a_build_killed_at_some_pairs_of_steps(workshop: Workshop, undisturbed: dict[str, object]) -> None:
    dice = random.Random("image build")
    for _ in range(SAMPLED_PAIRS):
        killed(workshop, dice.randint(1, 30))
        killed(workshop, dice.randint(1, 30))
        ends_well(workshop, undisturbed)


@pytest.mark.long
def test_a_build_killed_at_every_pair_of_steps(
    workshop: Workshop, undisturbed: dict[str, object], ledger: Ledger
) -> None:
    pairs = 0
    for first in count(1):
        if not killed(workshop, first):
            break
        ends_well(workshop, undisturbed)
        for second in count(1):
            killed(workshop, first)
            if not killed(workshop, second):
                break
            ends_well(workshop, undisturbed)
            pairs += 1
        workshop.engine.images.clear()
    assert pairs > 100
    ledger.add("fake", verb="image build", steps=0, pairs=pairs)


def test_an_interrupt_waits_for_the_image_that_the_engine_still_publishes(workshop: Workshop) -> None:
    """The engine goes on with a builder that an undo would find busy, or gone; a published image stays."""
    driver = FakeDriver(workshop.engine)
    publish, delete = driver.publish_image, driver.delete_node
    heard: list[str] = []

    def slow_publish(builder: str, name: str, labels: Mapping[str, str]) -> ImageState:
        heard.append("publish")
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        threading.Event().wait(0.05)
        image = publish(builder, name, labels)
        heard.append("published")
        return image

    def heard_delete(name: str) -> None:
        heard.append(f"delete {name}")
        delete(name)

    with (
        patch.object(driver, "publish_image", slow_publish),
        patch.object(driver, "delete_node", heard_delete),
        pytest.raises(KeyboardInterrupt),
    ):
        workshop.build(driver)
    assert heard == [f"delete {BUILDER}", "publish", "published", f"delete {BUILDER}"]
    assert workshop.engine.nodes == {}
    assert not workshop.build().built


@pytest.mark.parametrize("name", [BUILDER, "gpuprov-image-{image}"])
def test_a_foreign_instance_of_a_name_that_is_needed_is_told_first(workshop: Workshop, name: str) -> None:
    name = name.format(image=short(workshop.recipe.fingerprint))
    workshop.engine.add_foreign_node(name, status="running")
    before = workshop.engine.dump()
    with pytest.raises(NotOurs, match=name):
        workshop.build()
    assert workshop.engine.dump() == before
    assert workshop.done == []


def test_too_little_room_in_the_engine_is_said_before_anything_is_made(workshop: Workshop) -> None:
    workshop.engine.free_bytes = 1 << 30
    before = workshop.engine.dump()
    with pytest.raises(HostNotReady, match="not enough space") as caught:
        workshop.build()
    assert "1.0 GiB free" in caught.value.evidence
    assert (workshop.engine.dump(), workshop.done) == (before, [])


def test_too_little_room_for_the_cache_is_said_before_anything_is_made(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _folder: shutil._ntuple_diskusage(9, 8, 1))
    before = workshop.engine.dump()
    with pytest.raises(HostNotReady, match="not enough disk space") as caught:
        workshop.build()
    assert str(workshop.folder) in caught.value.evidence
    assert (workshop.engine.dump(), workshop.done) == (before, [])


def test_an_image_of_the_engine_can_be_the_base(workshop: Workshop) -> None:
    workshop.engine.images["image:mine"] = FakeImage(id="image:mine", name="mine", ours=False)
    workshop.recipe = replace(workshop.recipe, base="image:mine")
    assert workshop.build().built
    assert (workshop.done, workshop.fetched) == (["play"], ["3.11"])


def test_a_base_that_the_engine_lacks_is_named(workshop: Workshop) -> None:
    workshop.recipe = replace(workshop.recipe, base="image:mine")
    with pytest.raises(EngineError, match="'mine'"):
        workshop.build()
    assert workshop.engine.nodes == {}


def test_a_base_without_python_is_named(workshop: Workshop) -> None:
    def silent(command: Command) -> ExecResult:
        if "python3" in command.argv[-1]:
            return ExecResult(exit_code=127, stdout="", stderr="python3: not found")
        return answer(command)

    workshop.engine.answer = silent
    with pytest.raises(EngineError, match="lacks something") as caught:
        workshop.build()
    assert "python3: not found" in caught.value.evidence
    assert workshop.engine.nodes == {}


def test_an_image_is_removed_by_name_or_fingerprint_and_its_nodes_stay(workshop: Workshop) -> None:
    driver = FakeDriver(workshop.engine)
    for name in ("name", "fingerprint"):
        image = workshop.build().image
        driver.create_node(NodeRequest(name=f"from-{name}", image=image.id, labels={"gpuprov.cluster": "lab"}))
        removed = delete_built(driver, image.name if name == "name" else workshop.recipe.fingerprint[:8])
        assert removed.id == image.id
        assert driver.list_images() == []
    assert sorted(workshop.engine.nodes) == ["from-fingerprint", "from-name"]


@pytest.mark.parametrize("name", ["", "nothing", "gpuprov-image-"])
def test_a_name_that_is_no_image_removes_nothing(workshop: Workshop, name: str) -> None:
    image = workshop.build().image
    before = workshop.engine.dump()
    with pytest.raises(GpuprovError) as caught:
        delete_built(FakeDriver(workshop.engine), name)
    assert image.name in caught.value.evidence
    assert workshop.engine.dump() == before


def test_a_refreshed_image_is_another_one_of_the_same_recipe_and_is_taken_from_then_on(workshop: Workshop) -> None:
    driver = FakeDriver(workshop.engine)
    first = workshop.build().image
    assert not workshop.build().built
    second = workshop.build(fresh=True)
    assert second.built
    assert second.image.name.startswith(f"{first.name}-20")
    assert second.image.labels[LABEL_FINGERPRINT] == first.labels[LABEL_FINGERPRINT]
    assert find_built(driver, workshop.recipe) == second.image
    assert find_images(driver, {"slurm": workshop.recipe}, {}, host_ports=()) == ({"slurm": second.image}, None)


def test_images_record_the_packages_in_them(workshop: Workshop) -> None:
    workshop.engine.answer = lambda command: (
        ExecResult(exit_code=0, stdout="debian bookworm\nbash 5.2\n", stderr="")
        if command.argv[-1] == ASK_VERSIONS
        else answer(command)
    )
    found = read_versions(workshop.build().image.labels[LABEL_PACKAGES])
    assert found is not None
    assert (found.suite, found.versions) == ("bookworm", {"bash": "5.2"})


def test_an_older_image_stays_while_a_node_was_made_from_it(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = FakeDriver(workshop.engine)
    notes: list[str] = []
    reporter = Silent()
    monkeypatch.setattr(reporter, "note", notes.append)
    first, second = workshop.build().image, workshop.build(fresh=True).image
    workshop.engine.add_foreign_node("web")
    workshop.engine.nodes["web"].labels = {LABEL_IMAGE: first.name}
    assert remove_superseded(driver, second, reporter) == ()
    assert f"{first.name} is kept for web" in notes[0]
    workshop.engine.nodes["web"].labels = {LABEL_IMAGE: second.name}
    assert remove_superseded(driver, second, reporter) == (first.name,)
    assert driver.list_images() == [second]
