"""What is recorded with a cluster says what is in its nodes, without the files of its first `cluster up`."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from gpuprov.cluster.images import node_recipe
from gpuprov.drivers.base import LABEL_FINGERPRINT
from gpuprov.lifecycle.cluster_order import ClusterOrder, resolve_spec
from gpuprov.roles.registry import ROLES
from gpuprov.shapes.base import changed
from gpuprov.spec.spec_error import SpecError, in_spec

if TYPE_CHECKING:
    from pathlib import Path

    from gpuprov.shapes.cluster_spec import ClusterSpec
    from tests.fakes.world import World


@pytest.fixture
def lab(tmp_path: Path, world: World) -> Path:
    """A spec file with what it refers to, of the cluster of the world."""
    folder = tmp_path / "mine"
    (folder / "motd/tasks").mkdir(parents=True)
    (folder / "motd/tasks/main.yml").write_text("[]\n")
    (folder / "needs.txt").write_text("submitit\n")
    image = "{python: [torch], requirements: needs.txt, roles: [motd]}"
    (folder / "lab.yaml").write_text(f"version: gpuprov/v1\nname: {world.spec().name}\nimage: {image}\n")
    return folder


def ordered(world: World, count: int, file: Path | None = None) -> ClusterSpec:
    """What is asked for; the engine has the name of a real one, so that it can be recorded."""
    return changed(resolve_spec(world.driver, ClusterOrder(file=file, count=count))[0].spec, engine="lxd")


def first_up(world: World, lab: Path) -> ClusterSpec:
    """Two nodes by the file, from an image that is there."""
    asked = ordered(world, 2, lab / "lab.yaml")
    recipe = node_recipe(asked, ROLES[asked.nodes.role].recipe, world.gpus, init="systemd")
    image = world.engine.images[asked.nodes.role]
    image.labels = {**image.labels, LABEL_FINGERPRINT: recipe.fingerprint}
    world.up(spec=asked)
    return asked


def test_the_recorded_spec_means_the_same_image(world: World, lab: Path) -> None:
    asked = first_up(world, lab)
    (lab / "lab.yaml").unlink()
    (lab / "needs.txt").unlink()
    more = ordered(world, 3)
    assert more.image == asked.image
    assert more.image.python == ("torch", "submitit")
    world.up(spec=more)
    assert len(world.names) == 3


def test_a_role_that_is_gone_is_named_before_anything_is_changed(world: World, lab: Path) -> None:
    first_up(world, lab)
    shutil.rmtree(lab / "motd")
    before = world.engine.dump()
    more = ordered(world, 3)
    with pytest.raises(SpecError) as caught:
        world.up(spec=more)
    assert [in_spec(problem).partition(" (")[0] for problem in caught.value.problems] == [
        f"image.roles[0]: '{lab}/motd' does not exist on the host"
    ]
    with pytest.raises(SpecError, match="does not exist on the host"):
        world.create("web")
    assert world.engine.dump() == before
