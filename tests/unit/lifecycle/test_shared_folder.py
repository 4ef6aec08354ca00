"""The folder that nodes share, from the option to the mounts, on a fake engine and host."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.cluster.state import observe_cluster
from gpuprov.core.errors import EngineError, HostNotReady, UsageError
from gpuprov.core.reporter import Silent
from gpuprov.drivers.base import LABEL_ACCOUNT
from gpuprov.lifecycle.cluster_order import ClusterOrder, read_share, resolve_spec
from gpuprov.lifecycle.cluster_up import UpOrder, cluster_up, preview_changes
from gpuprov.lifecycle.create_node import CloneOrder, clone_node
from gpuprov.lifecycle.start_stop import stop_nodes
from gpuprov.machine.folders import FolderLook
from gpuprov.shapes.base import changed
from gpuprov.shapes.cluster_spec import ClusterSpec, NodesSpec
from gpuprov.shapes.node import Mount
from gpuprov.spec.draft import CHOOSABLE
from gpuprov.spec.shared_folder import ACCOUNT_UID, SHARED
from gpuprov.spec.spec_error import SpecError
from tests.fakes.doors import door_of
from tests.fakes.driver import FakeDriver
from tests.fakes.world import World, make_world

if TYPE_CHECKING:
    from pathlib import Path

    from gpuprov.core.outcome import Outcome
    from tests.conftest import Recording

PLACE = "/srv/gpuprov/lab"
MOUNT = Mount(source=PLACE, target=SHARED, read_only=False)


def up(world: World, count: int = 2, **spec: Any) -> Outcome:
    return world.up(spec=world.spec(count, **{"share": True, **spec}))


def shared(world: World) -> dict[str, list[str]]:
    """By node, what it has at /shared."""
    return {
        name: [mount.source for mount in node.mounts if mount.target == SHARED]
        for name, node in sorted(world.engine.nodes.items())
    }


def plan(world: World, **spec: Any) -> tuple[str, ...]:
    wanted = world.spec(2, **{"share": True, **spec})
    return preview_changes(world.driver, wanted, world.host, reporter=Silent())


def test_every_node_of_a_new_cluster_mounts_the_folder_that_was_made_before_it(world: World) -> None:
    assert plan(world)[0] == f"create folder {PLACE} for all nodes"
    assert world.host.folders.there == {}
    result = up(world)
    assert result.changed[0] == f"create folder {PLACE} for all nodes"
    assert all(MOUNT in node.mounts for node in world.engine.nodes.values())
    assert world.host.folders.look(PLACE).owner == ACCOUNT_UID
    steps = [step for step, _ in world.engine.faults.passed]
    assert steps.index("make_folder:done") < steps.index("create_node")
    assert observe_cluster(world.driver, "lab").spec == world.spec(2, share=True)
    assert up(world).unchanged
    assert plan(world) == ()


def drafted(world: World, *, left: frozenset[str] = CHOOSABLE, role: str = "slurm") -> Outcome:
    """As `cluster up` does where nobody has said anything."""
    spec = changed(ClusterSpec(), nodes=NodesSpec(count=2, role=role))
    return cluster_up(world.driver, UpOrder(spec=spec, left=left), world.host, reporter=world.reporter)


@pytest.mark.parametrize(("role", "folder"), [("slurm", [PLACE]), ("worker", [PLACE]), ("plain", [])])
def test_a_new_cluster_whose_nodes_take_jobs_shares_a_folder_unless_told_otherwise(
    world: World, role: str, folder: list[str]
) -> None:
    drafted(world, role=role)
    assert shared(world) == {"c000": folder, "c001": folder}
    assert drafted(world, role=role).unchanged


def test_who_cannot_give_folders_gets_a_slurm_cluster_without_one(world: World) -> None:
    world.host.folders.can_give = False
    drafted(world)
    assert shared(world) == {"c000": [], "c001": []}


def test_a_cluster_that_shares_nothing_stays_so_whoever_runs_the_command(world: World) -> None:
    up(world, share=False)
    drafted(world, left=CHOOSABLE)
    assert shared(world) == {"c000": [], "c001": []}


def test_workers_without_a_folder_are_refused(world: World) -> None:
    world.host.folders.can_give = False
    with pytest.raises(UsageError, match="the workers of cluster lab need a folder that all nodes share") as caught:
        drafted(world, role="worker")
    assert caught.value.fix == "gpuprov cluster up --share, as root; or --role plain"
    assert world.names == []


def test_a_node_that_begins_a_cluster_shares_its_folder(world: World) -> None:
    world.create("c000")
    world.create("web", role="plain")
    assert shared(world) == {"c000": [PLACE], "web": []}


def test_a_cluster_without_the_key_has_no_folder_and_asks_no_host(world: World) -> None:
    world.up(2)
    assert shared(world) == {"c000": [], "c001": []}
    assert not [step for step, _ in world.engine.faults.passed if "folder" in step or step == "owner_on_host"]


def test_a_folder_of_the_user_s_is_mounted_in_place_of_the_cluster_s_own(world: World) -> None:
    world.host.folders.add("/data/results", owner=ACCOUNT_UID, empty=False)
    up(world, share="/data/results")
    assert set(world.host.folders.there) == {"/data/results"}
    assert shared(world) == {"c000": ["/data/results"], "c001": ["/data/results"]}


def test_the_owner_is_the_user_of_the_host_to_whom_the_engine_leads(world: World) -> None:
    world.engine.first_user = 1_000_000
    up(world)
    assert world.host.folders.look(PLACE).owner == 1_000_000 + ACCOUNT_UID


def test_in_privileged_nodes_the_account_is_that_of_the_host(world: World) -> None:
    world.engine.first_user = 1_000_000
    up(world, nodes=NodesSpec(count=2, privileged=True))
    assert world.host.folders.look(PLACE).owner == ACCOUNT_UID


def test_where_they_have_other_users_privileged_nodes_do_not_share_with_others(world: World) -> None:
    world.engine.first_user = 1_000_000
    up(world, 1)
    with pytest.raises(UsageError, match="c001 cannot share the folder") as caught:
        world.create("c001", privileged=True)
    assert "nodes.privileged" in caught.value.fix
    world.create("c001", role="plain", privileged=True)
    assert up(world, 1).unchanged


def test_where_they_have_the_same_users_privileged_nodes_share_too(world: World) -> None:
    up(world, 1)
    world.create("c001", privileged=True)
    assert shared(world)["c001"] == [PLACE]


def test_an_engine_that_does_not_tell_the_owner_is_refused_before_anything_is_changed(world: World) -> None:
    world.engine.first_user = None
    with pytest.raises(EngineError, match="does not tell"):
        up(world)
    assert (world.names, world.engine.networks, world.host.folders.there) == ([], {}, {})


def test_nodes_from_create_node_and_clone_share_it_and_plain_ones_do_not(world: World) -> None:
    up(world, 1)
    world.create("extra")
    world.create("web", role="plain")
    stop_nodes(world.driver, ["extra"], world.host, reporter=world.reporter)
    clone_node(world.driver, CloneOrder(source="extra", name="copy"), world.host, reporter=world.reporter)
    assert shared(world) == {"c000": [PLACE], "copy": [PLACE], "extra": [PLACE], "web": []}
    plan = preview_changes(world.driver, world.spec(1, share=True), world.host, reporter=Silent())
    assert plan == ("start node extra",)


def test_create_node_makes_a_folder_that_is_gone(world: World) -> None:
    up(world, 1)
    world.host.folders.there.clear()
    result = world.create("c001")
    assert f"create folder {PLACE} for all nodes" in result.changed
    assert world.host.folders.look(PLACE).owner == ACCOUNT_UID


def test_a_cluster_that_gets_the_key_later_is_repaired_in_place_and_gives_it_up_as_well(world: World) -> None:
    world.begin_with(2)
    world.host.folders.add("/data/results", owner=ACCOUNT_UID, empty=False)
    lines = plan(world)
    assert lines[1:] == tuple(f"repair node {name}: mounts {SHARED} (until now none)" for name in world.names)
    assert up(world).changed[:3] == lines
    assert shared(world) == {"c000": [PLACE], "c001": [PLACE]}
    up(world, share="/data/results")
    assert shared(world) == {"c000": ["/data/results"], "c001": ["/data/results"]}
    up(world, share=False)
    assert shared(world) == {"c000": [], "c001": []}
    assert set(world.host.folders.there) == {PLACE, "/data/results"}


def test_a_node_that_lost_the_mount_gets_it_back(world: World) -> None:
    up(world)
    node = world.engine.nodes["c001"]
    node.mounts = ()
    assert plan(world) == (f"repair node c001: mounts {SHARED} (until now none)",)
    up(world)
    assert MOUNT in world.engine.nodes["c001"].mounts


def test_nodes_whose_image_has_no_account_are_refused_before_anything_is_changed(world: World) -> None:
    world.begin_with(2)
    del world.engine.nodes["c001"].labels[LABEL_ACCOUNT]
    before = world.engine.dump()
    with pytest.raises(UsageError, match="c001 cannot share a folder") as caught:
        up(world)
    assert "no account work" in caught.value.evidence
    assert "gpuprov cluster down lab" in caught.value.fix
    assert (world.engine.dump(), world.host.folders.there) == (before, {})
    assert world.up(2).unchanged


def test_an_image_or_a_source_without_the_account_makes_no_node_that_shares(world: World) -> None:
    up(world, 1)
    image = world.engine.images["slurm"]
    world.engine.images["old"] = replace(
        image,
        id="old",
        name="gpuprov-image-old",
        labels={key: text for key, text in image.labels.items() if key != LABEL_ACCOUNT},
    )
    with pytest.raises(UsageError, match="extra cannot share a folder"):
        world.create("extra", image="old", role="slurm")
    world.create("extra", image="old", role="plain")


@pytest.mark.parametrize(
    ("seen", "kind"),
    [
        (FolderLook(kind="link", at="/srv/gpuprov"), UsageError),
        (FolderLook(kind="file", at=PLACE), UsageError),
        (FolderLook(kind="folder", at=PLACE, owner=1000), UsageError),
        (FolderLook(kind="hidden", at="/srv"), HostNotReady),
    ],
)
def test_what_cannot_be_shared_is_refused_before_anything_is_changed(
    world: World, seen: FolderLook, kind: type[Exception]
) -> None:
    world.host.folders.there[PLACE] = seen
    for act in (up, plan):
        with pytest.raises(kind, match=f"the folder {PLACE} cannot be shared"):
            act(world)
    assert (world.names, world.engine.networks, world.host.folders.there) == ([], {}, {PLACE: seen})


def test_a_user_who_cannot_make_the_folder_is_told_how_and_uses_one_that_is_there(world: World) -> None:
    world.host.folders.can_give = False
    with pytest.raises(HostNotReady) as caught:
        up(world, share="/data/results")
    assert f"sudo install -d -m 0750 -o {ACCOUNT_UID} -g {ACCOUNT_UID} /data/results" in caught.value.fix
    world.host.folders.add("/data/results", owner=ACCOUNT_UID)
    up(world, share="/data/results")
    assert shared(world)["c000"] == ["/data/results"]


def test_the_cluster_s_own_folder_is_root_s_to_make_and_then_anybody_s_to_go_on_with(world: World) -> None:
    world.host.folders.can_give = False
    with pytest.raises(HostNotReady) as caught:
        up(world)
    assert caught.value.fix == "run the command as root"
    world.host.folders.can_give = True
    up(world)
    world.host.folders.there[PLACE] = FolderLook(kind="hidden", at=PLACE)
    assert up(world, 3).changed[0].startswith("create node c002")
    assert shared(world)["c002"] == [PLACE]


def test_a_mount_of_the_user_s_at_the_same_place_is_refused(world: World) -> None:
    up(world, 1)
    with pytest.raises(SpecError, match="invalid value"):
        world.create("c001", mounts=(_mount("/usr"),))


def _mount(source: str) -> Any:
    from gpuprov.shapes.cluster_spec import MountSpec

    return MountSpec(source=source, target=SHARED)


@pytest.fixture
def beside(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recording: Recording) -> World:
    """Another engine of the same host, which has a cluster that shares a folder."""
    (tmp_path / "beside").mkdir()
    other = make_world(tmp_path / "beside", monkeypatch, recording)
    other.host.folders.add("/data/lab", owner=ACCOUNT_UID)
    other.up(spec=other.spec(1, share="/data/lab"))
    driver = other.driver
    driver.name = "docker"
    world.host.engines = (door_of(driver),)
    return other


@pytest.mark.parametrize("folder", ["/data/lab", "/data/lab/part", "/data"])
def test_a_folder_of_another_cluster_is_refused_also_in_it_and_around_it(
    world: World, beside: World, folder: str
) -> None:
    assert beside.names == ["c000"]
    world.host.folders.add(folder, owner=ACCOUNT_UID)
    with pytest.raises(UsageError, match="cannot be shared by nodes of cluster lab") as caught:
        up(world, share=folder, network=_network())
    assert caught.value.evidence == "cluster lab on docker shares /data/lab"
    assert world.names == []


def test_a_folder_is_another_cluster_s_also_while_only_its_nodes_say_so(world: World, beside: World) -> None:
    beside.engine.networks = {
        name: changed(network, labels={**network.labels, "gpuprov.spec": ""})
        for name, network in beside.engine.networks.items()
    }
    world.host.folders.add("/data/lab", owner=ACCOUNT_UID)
    with pytest.raises(UsageError, match="cannot be shared by nodes of cluster lab"):
        up(world, share="/data/lab", network=_network())
    beside.engine.nodes.clear()
    up(world, share="/data/lab", network=_network())


def _network() -> Any:
    from gpuprov.shapes.cluster_spec import NetworkSpec

    return NetworkSpec(bridge="gpbr7", subnet="10.9.7.0/24", private_bridge="gpbr8", private_subnet="10.9.8.0/24")


def test_a_failed_run_takes_back_the_folder_that_it_made_and_no_other(world: World) -> None:
    error = EngineError("no", evidence="no", fix="no")
    world.engine.faults.raise_at(error, "create_node", lasting=True)
    with pytest.raises(EngineError):
        up(world)
    assert world.host.folders.there == {}
    world.host.folders.add(PLACE, owner=ACCOUNT_UID)
    with pytest.raises(EngineError):
        up(world)
    assert set(world.host.folders.there) == {PLACE}


def test_a_folder_in_which_something_is_already_stays_after_a_failed_run(world: World) -> None:
    def write() -> None:
        world.host.folders.there[PLACE] = replace(world.host.folders.there[PLACE], empty=False)
        raise EngineError("no", evidence="no", fix="no")

    world.engine.faults.at("start_node", act=write)
    with pytest.raises(EngineError):
        up(world)
    assert set(world.host.folders.there) == {PLACE}
    assert any(f"could not undo the folder {PLACE}" in line for line in world.reporter.lines)


@pytest.mark.parametrize(
    ("said", "share"),
    [(None, None), ("true", True), ("True", True), ("false", False), ("/data/x", "/data/x"), ("yes", "yes")],
)
def test_the_option_says_what_the_spec_says(said: str | None, share: bool | str | None) -> None:
    assert read_share(said) == share


def test_an_order_changes_the_recorded_key_and_no_order_keeps_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeDriver, "name", "lxd")  # a spec names an engine that there is
    up(world)
    assert resolve_spec(world.driver, ClusterOrder())[0].spec.share is True
    assert resolve_spec(world.driver, ClusterOrder(share="/data/x"))[0].spec.share == "/data/x"
    draft, _ = resolve_spec(world.driver, ClusterOrder(share=False))
    order = UpOrder(spec=draft.spec, left=draft.left)
    cluster_up(world.driver, order, world.host, reporter=world.reporter)
    assert shared(world) == {"c000": [], "c001": []}
