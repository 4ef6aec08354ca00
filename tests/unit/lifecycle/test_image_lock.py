"""While an image is built, others change the host: the build has a lock of its own, and the story starts over."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.cluster import images
from gpuprov.cluster.build_image import OWNER, EnsuredImage
from gpuprov.core.errors import EngineError, UsageError
from gpuprov.core.reporter import Silent
from gpuprov.drivers.base import BUILDER, LABEL_CLUSTER, LABEL_FINGERPRINT, LABEL_ROLE, ROLE_BUILDER
from gpuprov.lifecycle import start_stop
from tests.fakes.engine import FakeImage, FakeNode
from tests.fakes.faults import Killed

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuprov.cluster.build_image import BuildSite
    from gpuprov.provision.recipe import Recipe
    from tests.fakes.driver import FakeDriver
    from tests.fakes.world import World


class Builds:
    """What builds do here: each keeps a builder on its bridge, and `meanwhile` happens."""

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        self.world = world
        self.images = dict(world.engine.images)
        self.count = 0
        self.bridges: set[str] = set()
        self.meanwhile: Callable[[], object] = lambda: None
        self.changing = False  # roles that somebody edits
        world.engine.images.clear()
        monkeypatch.setattr(images, "ensure_image", self.build)

    def build(
        self, driver: FakeDriver, recipe: Recipe, *, site: BuildSite, reporter: object, fresh: bool
    ) -> EnsuredImage:
        assert reporter
        assert not fresh
        self.count += 1
        (attachment,) = site.attachments
        self.bridges.add(attachment.network)
        assert self.world.engine.networks[attachment.network].address
        labels = {LABEL_CLUSTER: OWNER, LABEL_ROLE: ROLE_BUILDER}
        self.world.engine.nodes[BUILDER] = FakeNode(name=BUILDER, labels=labels, status="running")
        self.meanwhile()
        driver.delete_node(BUILDER)
        fingerprint = "f" * 64 if self.changing else recipe.fingerprint
        labels = {**self.images["slurm"].labels, LABEL_FINGERPRINT: fingerprint}
        image = FakeImage(id=f"built-{self.count}", name=f"gpuprov-image-{self.count}", labels=labels)
        self.world.engine.images[image.id] = image
        return EnsuredImage(image=next(one for one in driver.list_images() if one.id == image.id), built=True)


@pytest.fixture
def builds(world: World, monkeypatch: pytest.MonkeyPatch) -> Builds:
    return Builds(world, monkeypatch)


def test_others_go_on_while_an_image_is_built(world: World, builds: Builds) -> None:
    world.engine.images.update(builds.images)
    world.create("web", role="plain", gpus="none")
    world.engine.images.clear()

    def meanwhile() -> None:
        def stop() -> None:
            start_stop.stop_nodes(world.driver, ["web"], world.host, reporter=Silent())

        with ThreadPoolExecutor(1) as pool:
            pool.submit(stop).result(timeout=10)
        assert world.engine.nodes["web"].status == "stopped"

    builds.meanwhile = meanwhile
    world.up(2)
    assert world.names == ["c000", "c001", "web"]
    assert builds.count == 1
    assert builds.bridges == {"gpbr998"}
    assert "gpbr998" not in world.engine.networks
    assert world.up(2).unchanged


def test_what_others_took_meanwhile_is_refused_and_the_image_stays(world: World, builds: Builds) -> None:
    def meanwhile() -> None:
        world.engine.images.update(builds.images)
        builds.meanwhile = lambda: None
        with ThreadPoolExecutor(1) as pool:
            order: dict[str, Any] = {"cluster": "other", "role": "plain", "gpus": "all", "sharing": "exclusive"}
            pool.submit(lambda: world.create("greedy", **order)).result(timeout=10)

    builds.meanwhile = meanwhile
    with pytest.raises(UsageError):
        world.up(2)
    assert world.names == ["greedy"]
    assert "gpbr998" not in world.engine.networks


def test_who_is_refused_does_not_wait_for_a_build(world: World, builds: Builds) -> None:
    with pytest.raises(UsageError):
        world.up(spec=world.spec(2, sharing="exclusive", per_node=4))
    assert builds.count == 0


def test_an_image_that_is_removed_before_it_is_used_is_built_again(world: World, builds: Builds) -> None:
    afresh = world.host.afresh
    removed: list[str] = []

    def remove() -> object:
        if not removed:
            removed.extend(world.engine.images)
            world.engine.images.clear()
        return afresh()

    world.host.afresh = remove  # type: ignore[method-assign,assignment]
    world.up(1)
    assert removed == ["built-1"]
    assert builds.count == 2


def test_what_was_built_counts_though_its_roles_have_changed_since(world: World, builds: Builds) -> None:
    builds.changing = True
    world.up(1)
    assert builds.count == 1
    assert world.engine.nodes["c000"].labels["gpuprov.image"] == "gpuprov-image-1"


def test_the_second_of_two_waits_and_finds_it(world: World, builds: Builds) -> None:
    began = threading.Event()
    go_on = threading.Event()

    def meanwhile() -> None:
        began.set()
        assert go_on.wait(10)

    builds.meanwhile = meanwhile
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(lambda: world.up(1))
        assert began.wait(10)
        second = pool.submit(lambda: world.up(1))
        while not any("waiting for an image build: process " in line for line in map(str, world.reporter.lines)):
            assert not second.done()
        go_on.set()
        first.result(timeout=20)
        assert second.result(timeout=20).unchanged
    assert builds.count == 1
    assert world.names == ["c000"]


def test_a_build_that_fails_leaves_nothing(world: World, builds: Builds) -> None:
    def fail() -> None:
        del world.engine.nodes[BUILDER]  # as ensure_image does
        raise EngineError("broke", evidence="e", fix="f")

    builds.meanwhile = fail
    with pytest.raises(EngineError, match="broke"):
        world.up(2)
    assert (world.engine.nodes, world.engine.networks) == ({}, {})


@pytest.mark.usefixtures("builds")
@pytest.mark.parametrize("verb", ["up", "down"])
def test_what_a_killed_build_left_goes_with_the_next_verb(world: World, verb: str) -> None:
    world.engine.faults.raise_at(Killed(), "delete_node", subject=BUILDER)
    with pytest.raises(Killed):
        world.up(2)
    world.engine.faults.clear()
    assert (list(world.engine.nodes), list(world.engine.networks)) == ([BUILDER], ["gpbr998"])
    if verb == "down":
        world.down()
        assert (world.engine.nodes, world.engine.networks) == ({}, {})
    world.up(2)
    assert world.names == ["c000", "c001"]
    assert set(world.engine.networks) == {"gpbr0", "gpbr1"}


def test_cluster_down_leaves_a_build_alone_that_is_under_way(world: World, builds: Builds) -> None:
    def down() -> None:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(world.down).result(timeout=10)
        assert BUILDER in world.engine.nodes
        assert "gpbr998" in world.engine.networks

    builds.meanwhile = down
    world.up(1)
    assert builds.count == 1
