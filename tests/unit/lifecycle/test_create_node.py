from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.core.errors import EngineError, GpuprovError, NotOurs, UsageError
from gpuprov.drivers.base import LABEL_CLUSTER, LABEL_FINGERPRINT, LABEL_GPUS, LABEL_ROLE, LABEL_SHARING
from gpuprov.gpu.allocate import GpusTaken
from gpuprov.lifecycle.create_node import CloneOrder, clone_node
from gpuprov.lifecycle.remove_nodes import remove_nodes
from gpuprov.machine import links
from gpuprov.shapes.cluster_spec import MountSpec, NodesSpec
from gpuprov.shapes.node import Attachment, Mount
from tests.fakes.engine import FakeImage, FakeNode

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.fakes.world import World


@contextmanager
def refused(world: World, kind: type[GpuprovError], exit_code: int, *, fix: str = "") -> Iterator[None]:
    """The block is refused with all three parts, and nothing is changed."""
    before = world.engine.dump()
    with pytest.raises(kind) as caught:
        yield
    assert type(caught.value) is kind
    assert caught.value.exit_code == exit_code
    assert caught.value.what
    assert caught.value.evidence
    assert caught.value.fix
    assert fix in caught.value.fix
    assert world.engine.dump() == before


def test_one_more_in_a_cluster(world: World) -> None:
    world.begin_with(2)
    outcome = world.create("c004", address="10.0.3.6")
    node = world.engine.nodes["c004"].state()
    assert dict(node.addresses) == {"eth0": "10.0.3.6/24", "eth1": "10.0.5.5/24"}
    assert node.status == "running"
    assert node.complete
    assert node.labels[LABEL_ROLE] == "slurm"
    assert outcome.changed[0] == "created node c004 10.0.3.6 role slurm, 1 GPU shared (simulated)"
    assert "NodeName=c004" in world.file("c000", "/etc/slurm/slurm.conf")
    assert "10.0.3.6 c004" in world.file("c001", "/etc/hosts")


def test_the_first_of_a_cluster_makes_its_networks(world: World) -> None:
    world.create("c000", role="plain")
    assert sorted(world.engine.networks) == ["gpbr0", "gpbr1"]
    assert world.engine.nodes["c000"].labels[LABEL_ROLE] == "plain"
    world.down()
    assert world.names == []
    assert world.engine.networks == {}


def test_a_cluster_that_begins_with_its_first_node_is_the_one_that_up_completes(world: World) -> None:
    (created,) = [line for line in world.create("c000").changed if line.startswith("created")]
    assert "role slurm" in created
    assert world.create("c001").changed[0].startswith("created node c001 10.0.3.3 role slurm")
    world.up(4)
    assert {node.labels[LABEL_ROLE] for node in world.engine.nodes.values()} == {"slurm"}
    assert world.names == ["c000", "c001", "c002", "c003"]
    assert world.driver.run("c000", ["sh", "-c", "sinfo"]).stdout.count("idle") == 4
    assert not any("plain" in line for line in world.reporter.lines)


@pytest.mark.parametrize(
    ("order", "way"),
    [
        ({"name": "web"}, "; for nodes with Slurm: gpuprov cluster up -n 4"),
        ({"name": "c005", "cluster": "b"}, "; for nodes with Slurm: gpuprov cluster up --name b -n 4"),
        ({"name": "c000", "image": "mine"}, ""),
        ({"name": "c000", "network": "private"}, ""),
    ],
)
def test_a_first_node_that_cannot_be_slurms_is_plain_and_that_is_said(
    world: World, order: dict[str, Any], way: str
) -> None:
    world.engine.images["mine"] = FakeImage(id="mine", name="mine", ours=False)
    outcome = world.create(**order)
    assert "role plain" in outcome.changed[0]
    (note,) = [line for line in world.reporter.lines if line.startswith("note") and "plain" in line]
    assert note == f"note {order['name']} is a plain node, without Slurm{way}"


def test_up_on_a_plain_node_that_would_be_the_controller_is_refused_and_its_fix_helps(world: World) -> None:
    world.create("c000", role="plain")
    assert not any("plain node" in line for line in world.reporter.lines), "who asks for it need not be told"
    with refused(world, UsageError, 2, fix="gpuprov rm c000"):
        world.up(4)
    with pytest.raises(UsageError, match="no Slurm controller for c001"):
        world.create("c001", role="slurm")
    remove_nodes(world.driver, ["c000"], world.host, reporter=world.reporter)
    world.up(4)
    assert {node.labels[LABEL_ROLE] for node in world.engine.nodes.values()} == {"slurm"}


def test_a_name_without_number_leaves_the_low_addresses_to_numbered_nodes(world: World) -> None:
    world.begin_with(2)
    world.create("web", role="plain")
    assert not any(path.startswith("/etc/slurm") for path in world.engine.nodes["web"].files)
    assert world.engine.nodes["web"].state().addresses["eth0"] == "10.0.3.253/24"
    world.create("c002")
    assert world.engine.nodes["c002"].state().addresses["eth0"] == "10.0.3.4/24"


@pytest.mark.parametrize(
    ("order", "gpus"),
    [({}, 1), ({"gpus": "2"}, 2), ({"gpus": "all"}, 4), ({"gpus": "none"}, 0), ({"gpus": "1,3"}, 2)],
)
def test_gpus(world: World, order: dict[str, Any], gpus: int) -> None:
    world.create("c000", **order)
    node = world.engine.nodes["c000"]
    assert len([uuid for uuid in node.labels[LABEL_GPUS].split(",") if uuid]) == gpus
    assert bool(node.devices) == bool(gpus)


@pytest.mark.parametrize(
    ("network", "interfaces"), [("both", {"eth0", "eth1"}), ("nat", {"eth0"}), ("private", {"eth1"})]
)
def test_networks(world: World, network: str, interfaces: set[str]) -> None:
    world.create("c000", network=network)
    assert set(world.engine.nodes["c000"].state().addresses) == interfaces


def test_mounts_and_privilege(world: World, tmp_path: Path) -> None:
    mount = MountSpec(source=str(tmp_path), target="/mnt/data", read_only=True)
    world.create("c000", mounts=(mount,), privileged=True)
    node = world.engine.nodes["c000"]
    assert node.privileged
    assert Mount(source=str(tmp_path), target="/mnt/data", read_only=True) in node.mounts


def test_an_image_by_name(world: World) -> None:
    world.engine.images["mine"] = FakeImage(id="mine", name="mine", ours=False)
    world.create("c000", image="mine", role="plain")
    assert world.engine.nodes["c000"].labels["gpuprov.image"] == "mine"


@pytest.mark.parametrize(
    "name", ["../x", "x" * 64, "Upper", "", "a b", "-a", "a-", "9a", "a_b", "ünï", "a\n", "c000;rm", "."]
)
def test_bad_names(world: World, name: str) -> None:
    with refused(world, UsageError, 2):
        world.create(name)


@pytest.mark.parametrize(
    "address",
    [
        "10.0.3.1",
        "10.0.3.0",
        "10.0.3.255",
        "10.0.4.6",
        "10.0.3.2",
        "10.0.3.77",
        "10.0.3.6/16",
        "10.0.3.300",
        "",
        "x",
        "::1",
        "10.0.3.6/24/24",
        "10.0.3.254",
    ],
)
def test_bad_addresses(world: World, address: str) -> None:
    world.begin_with(2)
    nic = Attachment(network="br", interface="eth0", kind="veth", address="10.0.3.77/24", mac="", gateway=None)
    world.engine.nodes["foreign"] = FakeNode(name="foreign", attachments=(nic,))
    world.engine.nodes["other"] = FakeNode(
        name="other",
        labels={LABEL_CLUSTER: "other", LABEL_FINGERPRINT: "f"},
        attachments=(Attachment(network="br", interface="eth1", kind="macvlan", address="10.0.5.253/24", mac=""),),
    )
    with refused(world, UsageError, 2):
        world.create("c004", address=address)


@pytest.mark.parametrize("gpus", ["5", "9,10", "GPU-nonsense", "-1", "", "1,1", "x", "0-1", "1,,2"])
def test_gpus_that_are_not_there(world: World, gpus: str) -> None:
    world.begin_with(1)
    with refused(world, UsageError, 2):
        world.create("c004", gpus=gpus)


def test_an_exclusive_gpu_is_nobody_else_s(world: World) -> None:
    world.create("c000", gpus="0,1,2,3", sharing="exclusive")
    for sharing in ("exclusive", "shared"):
        with refused(world, GpusTaken, 2):
            world.create("c001", gpus="1", sharing=sharing)
    world.create("c001", gpus="none")
    assert world.engine.nodes["c000"].labels[LABEL_SHARING] == "exclusive"


def test_a_shared_gpu_cannot_be_had_exclusively(world: World) -> None:
    world.begin_with(4)
    with refused(world, GpusTaken, 2):
        world.create("c004", sharing="exclusive")


@pytest.mark.parametrize("source", ["relative", "/no/such/folder", "/proc/../no"])
def test_mounts_that_cannot_be(world: World, source: str) -> None:
    before = world.engine.dump()
    with pytest.raises(UsageError):
        world.create("c000", mounts=(MountSpec(source=source, target="/mnt/data"),))
    assert world.engine.dump() == before


def test_names_that_are_taken(world: World) -> None:
    world.begin_with(1)
    world.engine.add_foreign_node("c001", status="running")
    with refused(world, UsageError, 2):
        world.create("c000")
    with refused(world, NotOurs, 4):
        world.create("c001")
    with refused(world, UsageError, 2):
        world.create("c000", cluster="other")


def test_a_foreign_bridge_is_left_alone(world: World) -> None:
    world.engine.add_foreign_network("gpbr0", address="10.0.3.1/24")
    world.create("c000")
    assert world.engine.nodes["c000"].state().addresses == {"eth0": "10.0.7.2/24", "eth1": "10.0.9.1/24"}
    assert set(world.engine.networks) == {"gpbr0", "gpbr2", "gpbr3"}
    assert not world.engine.networks["gpbr0"].ours
    assert "gpbr2 instead of gpbr0, 10.0.7.0/24 instead of 10.0.3.0/24" in str(world.reporter.lines)


def test_an_image_that_is_not_there(world: World) -> None:
    with refused(world, EngineError, 4):
        world.create("c000", image="absent")


def test_slurm_without_a_controller(world: World) -> None:
    with refused(world, UsageError, 2):
        world.create("c004", role="slurm")


def test_slurm_with_a_controller_that_is_stopped(world: World) -> None:
    world.begin_with(2)
    world.driver.stop_node("c000")
    with refused(world, UsageError, 2):
        world.create("c004")
    with pytest.raises(UsageError, match="controller c000 of cluster lab is stopped"):
        world.create("c004")
    world.create("c004", role="plain")


def test_an_image_that_is_not_for_slurm(world: World) -> None:
    world.engine.images["mine"] = FakeImage(id="mine", name="mine", ours=False)
    world.begin_with(1)
    with refused(world, UsageError, 2):
        world.create("c001", image="mine")


def test_what_a_killed_run_left_is_replaced(world: World) -> None:
    world.begin_with(1)
    world.create("c001")
    del world.engine.nodes["c001"].labels[LABEL_FINGERPRINT]
    world.create("c001")
    assert world.engine.nodes["c001"].state().complete


@pytest.mark.parametrize("step", ["create_node:made", "start_node", "start_node:done"])
@pytest.mark.parametrize("alone", [True, False])
def test_a_failure_takes_back_what_was_made(world: World, step: str, alone: bool) -> None:
    if not alone:
        world.begin_with(2)
    before = world.engine.dump()
    world.engine.faults.raise_at(EngineError("broke", evidence="e", fix="f"), step, subject="c004")
    with pytest.raises(EngineError, match="broke"):
        world.create("c004", role="plain")
    assert world.engine.dump() == before


def test_a_clone_has_its_source_s_files_and_a_lease_of_its_own(world: World) -> None:
    world.up(spec=world.spec(2, sharing="exclusive"))
    world.driver.stop_node("c001")
    clone_node(world.driver, CloneOrder(source="c001", name="c002"), world.host, reporter=world.reporter)
    source, clone = world.engine.nodes["c001"], world.engine.nodes["c002"]
    assert clone.status == "running"
    assert clone.labels[LABEL_GPUS] != source.labels[LABEL_GPUS]
    assert clone.devices != source.devices
    assert clone.state().addresses["eth0"] == "10.0.3.4/24"


def test_a_running_node_is_not_cloned(world: World) -> None:
    world.begin_with(2)
    with refused(world, UsageError, 2):
        clone_node(world.driver, CloneOrder(source="c001", name="c002"), world.host, reporter=world.reporter)


REACHABLE = '[{"dst": "10.0.3.6", "lladdr": "00:16:3e:00:00:01", "state": ["REACHABLE"]}]'
STALE = '[{"dst": "10.0.3.6", "lladdr": "00:16:3e:00:00:01", "state": ["STALE"]}]'
PLUGGED = '[{"mac": "00:16:3e:00:00:01", "ifname": "veth1"}]'


@pytest.mark.parametrize(
    ("answer", "neighbours", "ports", "taken"),
    [
        (None, "[]", "[]", True),
        (ConnectionRefusedError(), "[]", "[]", True),
        (TimeoutError(), REACHABLE, PLUGGED, True),
        (TimeoutError(), REACHABLE, "[]", False),
        (TimeoutError(), STALE, PLUGGED, False),
        (OSError(113, "no route"), "", "", False),
    ],
)
def test_an_address_that_answers_is_taken(
    monkeypatch: pytest.MonkeyPatch, answer: OSError | None, neighbours: str, ports: str, taken: bool
) -> None:
    def connect(*_: object, **__: object) -> SimpleNamespace:
        if answer:
            raise answer
        return SimpleNamespace(close=lambda: None)

    monkeypatch.setattr("socket.create_connection", connect)
    monkeypatch.setattr(
        links,
        "run",
        lambda argv, **_: SimpleNamespace(stdout=neighbours if argv[0] == "ip" else ports, exit_code=0),
    )
    assert links.answers("10.0.3.6", "gpbr0") is taken


def test_an_address_at_which_something_answers_is_refused(world: World) -> None:
    world.begin_with(2)
    world.host.answering.add("10.0.3.9")
    with pytest.raises(UsageError, match=r"10\.0\.3\.9 is in use"):
        world.create("c007", address="10.0.3.9")
    assert world.names == ["c000", "c001"]


def test_a_cluster_with_nodes_of_any_name_is_as_asked(world: World) -> None:
    world.begin_with(2)
    for name in ("web", "abc", "db"):
        world.create(name, role="plain")
    assert world.up(2).unchanged


def test_a_role_that_needs_the_first_network_gets_no_node_without_it(world: World) -> None:
    world.begin_with(2)
    before = world.engine.dump()
    with pytest.raises(UsageError, match="c002 cannot be a node of Slurm on the private network only") as caught:
        world.create("c002", network="private")
    assert world.engine.dump() == before
    assert caught.value.fix == "omit --network, or use --role plain"
    assert world.create("c002", network="private", role="plain").changed[0].startswith("created node c002 10.0.5.3 ")
    assert world.create("c003", network="nat").changed
    assert world.up(2).unchanged


def test_slurm_whose_controller_was_removed(world: World) -> None:
    world.begin_with(2)
    del world.engine.nodes["c000"]
    with pytest.raises(UsageError, match="cluster lab has no controller for Slurm nodes") as caught:
        world.create("c002")
    assert caught.value.fix == "gpuprov cluster up"
    world.up(2)
    world.create("c002")
    assert "NodeName=c002" in world.file("c000", "/etc/slurm/slurm.conf")


def test_a_controller_whose_role_was_changed_is_said(world: World) -> None:
    world.begin_with(2)
    world.engine.nodes["c000"].labels[LABEL_ROLE] = "plain"
    with pytest.raises(UsageError, match="no controller") as caught:
        world.up(2)
    assert caught.value.fix.endswith("; or, if c000 is not needed: gpuprov rm c000; gpuprov cluster up")


def test_a_role_that_the_nodes_of_a_cluster_do_not_have_is_not_recorded(world: World) -> None:
    world.begin_with(2)
    with pytest.raises(UsageError, match="cluster lab has no broker for worker nodes") as caught:
        world.up(spec=world.spec(2, nodes=NodesSpec(count=2, role="worker")))
    assert caught.value.evidence == "the broker is c000, which has role 'slurm'"
    assert caught.value.fix.startswith(
        "create another cluster: gpuprov cluster up --name lab-worker --role worker; or,"
    )
    assert world.up(2).unchanged
