"""What becomes of the folder that nodes shared when their cluster goes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.cluster.built_images import LABEL_PURPOSE, PURPOSE
from gpuprov.core.errors import EngineError, GpuprovError, HostNotReady, UsageError
from gpuprov.drivers.base import LABEL_CLUSTER
from gpuprov.lifecycle.cluster_down import cluster_down
from gpuprov.lifecycle.leaving import JobsPolicy
from gpuprov.machine.folders import FolderLook
from gpuprov.shapes.base import changed
from gpuprov.shapes.cluster_spec import NodesSpec
from gpuprov.spec.shared_folder import ACCOUNT_UID
from tests.fakes.doors import door_of, door_without
from tests.fakes.world import World, make_world

if TYPE_CHECKING:
    from pathlib import Path

    from gpuprov.core.outcome import Outcome
    from tests.conftest import Recording

PLACE = "/srv/gpuprov/lab"
REMOVED = f"removed the folder {PLACE}"


def up(world: World, **spec: Any) -> None:
    world.up(spec=world.spec(1, **{"share": True, **spec}))


def write(world: World, path: str = PLACE) -> None:
    """A job leaves a result."""
    world.host.folders.there[path] = replace(world.host.folders.there[path], empty=False)


def purge(world: World, **how: Any) -> Outcome:
    return cluster_down(world.driver, "lab", world.host, reporter=world.reporter, purge=True, **how)


def kept(world: World) -> list[str]:
    return [line for line in world.reporter.lines if "the folder that the nodes shared" in line]


def test_results_stay_when_a_cluster_goes_and_the_next_one_finds_them(world: World) -> None:
    up(world)
    write(world)
    assert REMOVED not in world.down().changed
    (line,) = kept(world)
    assert f"kept {PLACE}" in line
    assert "gpuprov cluster down lab --purge" in line
    again = f"note {PLACE} is not empty: the jobs and files in it stay"
    assert again not in world.reporter.lines
    up(world)
    assert again in world.reporter.lines
    assert world.host.folders.look(PLACE).empty is False
    assert (world.engine.nodes["c000"].mounts[-1].source, world.names) == (PLACE, ["c000"])


def test_a_cluster_that_shared_nothing_says_nothing(world: World) -> None:
    world.up(1)
    world.down()
    assert kept(world) == []
    world.up(1)
    assert not [line for line in purge(world).changed if "folder" in line]


def test_a_folder_that_an_earlier_cluster_left_is_not_said_to_be_of_this_one(world: World) -> None:
    up(world)
    write(world)
    world.down()
    world.reporter.lines.clear()
    world.up(1)
    world.down()
    assert kept(world) == []
    assert f"kept {PLACE}, which an earlier cluster of that name has left" in str(world.reporter.lines)


def test_purge_removes_the_folder_last_and_in_one_step(world: World) -> None:
    up(world)
    write(world)
    world.engine.faults.clear()
    assert purge(world).changed[-1] == REMOVED
    assert (world.host.folders.there, world.host.folders.aside, kept(world)) == ({}, [], [])
    steps = [step for step, _ in world.engine.faults.passed]
    assert steps.index("delete_node:done") < steps.index("set_folder_aside") < steps.index("clear_folder")
    assert purge(world).unchanged


def test_what_was_left_can_be_purged_when_the_cluster_is_gone(world: World) -> None:
    up(world)
    world.down()
    assert purge(world).changed == (REMOVED,)
    assert world.host.folders.there == {}


def test_a_folder_of_the_user_s_stays_whatever_is_asked(world: World) -> None:
    world.host.folders.add("/data/results", owner=ACCOUNT_UID)
    up(world, share="/data/results")
    with pytest.raises(UsageError, match="/data/results is not removed"):
        purge(world)
    assert world.names == ["c000"]
    world.down()
    assert [line for line in kept(world) if line.endswith("it is not gpuprov's to remove")]
    assert set(world.host.folders.there) == {"/data/results"}


@pytest.mark.parametrize(
    ("seen", "evidence"),
    [
        (FolderLook(kind="link", at=PLACE), "is a symbolic link"),
        (FolderLook(kind="link", at="/srv/gpuprov"), "/srv/gpuprov is a symbolic link"),
        (FolderLook(kind="file", at=PLACE), "is not a folder"),
        (FolderLook(kind="hidden", at="/srv"), "/srv cannot be read"),
        (FolderLook(kind="folder", at=PLACE, owner=1000), "it belongs to user 1000"),
        (FolderLook(kind="folder", at=PLACE, owner=0, empty=False), "it belongs to user 0"),
        (FolderLook(kind="folder", at=PLACE, owner=ACCOUNT_UID, mounts=(f"{PLACE}/disk",)), f"{PLACE}/disk"),
    ],
)
def test_what_gpuprov_has_not_made_is_not_purged_and_the_cluster_stays(
    world: World, seen: FolderLook, evidence: str
) -> None:
    up(world)
    world.host.folders.there[PLACE] = seen
    with pytest.raises(UsageError, match=f"the folder {PLACE} is not removed") as caught:
        purge(world)
    assert evidence in caught.value.evidence
    assert world.names == ["c000"]
    assert world.host.folders.there == {PLACE: seen}
    world.down()
    assert world.names == []


def test_only_root_purges_and_others_are_told_before_anything_is_changed(world: World) -> None:
    up(world)
    world.host.folders.can_give = False
    with pytest.raises(HostNotReady, match="cannot be removed by this user") as caught:
        purge(world)
    assert caught.value.fix == "as root: gpuprov cluster down lab --purge"
    assert world.names == ["c000"]


@pytest.mark.parametrize("first_user", [0, 1_000_000])
@pytest.mark.parametrize("privileged", [False, True])
def test_it_is_known_by_the_account_s_number_in_any_kind_of_nodes(
    world: World, first_user: int, *, privileged: bool
) -> None:
    world.engine.first_user = first_user
    up(world, nodes=NodesSpec(count=1, privileged=privileged))
    assert purge(world).changed[-1] == REMOVED


def test_a_copy_of_a_node_that_mounts_the_folder_keeps_it(world: World) -> None:
    up(world)
    world.engine.copy("c000", "backup")
    with pytest.raises(UsageError, match="is not removed") as caught:
        purge(world)
    assert caught.value.evidence == f"the instance backup on fake mounts {PLACE}"


@pytest.fixture
def beside(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recording: Recording) -> World:
    """Another engine of the host with a cluster of the same name, that shared the folder while nobody looked."""
    (tmp_path / "beside").mkdir()
    other = make_world(tmp_path / "beside", monkeypatch, recording)
    up(other)
    driver = other.driver
    driver.name = "docker"
    world.host.engines = (door_of(driver),)
    return other


def test_a_folder_that_another_engine_s_cluster_shares_stays(world: World, beside: World) -> None:
    assert beside.names == ["c000"]
    world.host.folders.add(PLACE, owner=ACCOUNT_UID)
    with pytest.raises(UsageError, match="is not removed") as caught:
        purge(world)
    assert caught.value.evidence == f"cluster lab on docker shares {PLACE}"
    assert set(world.host.folders.there) == {PLACE}


def test_a_folder_stays_while_an_engine_does_not_say_whether_it_uses_it(world: World) -> None:
    up(world)
    world.host.engines = (door_without("docker", installed=True),)
    with pytest.raises(UsageError, match="is not removed") as caught:
        purge(world)
    assert caught.value.evidence.startswith("docker may use it, but cannot be queried")
    world.host.engines = (door_without("docker", installed=False),)
    assert purge(world).changed[-1] == REMOVED


def test_jobs_are_refused_and_the_folder_stays(world: World) -> None:
    up(world)
    world.slurm.jobs["c000"] = "17"
    with pytest.raises(GpuprovError, match="job"):
        purge(world)
    assert set(world.host.folders.there) == {PLACE}
    assert purge(world, policy=JobsPolicy(force=True)).changed[-1] == REMOVED


def test_what_an_image_build_left_keeps_no_network_of_a_cluster(world: World) -> None:
    world.up(1)
    left = changed(
        world.engine.networks["gpbr0"], name="gpbr998", labels={LABEL_CLUSTER: "an image", LABEL_PURPOSE: PURPOSE}
    )
    world.engine.networks[left.name] = left
    stuck = EngineError("no", evidence="File exists", fix="look")
    world.engine.faults.raise_at(stuck, "delete_network", subject="gpbr998", lasting=True)
    assert "removed network gpbr0" in world.down().changed
    assert [line for line in world.reporter.lines if line.startswith("warn leftovers of an interrupted image build")]
    assert list(world.engine.networks) == ["gpbr998"]
