"""An engine that is a member of an LXD cluster: what is on this host is used, and nothing of the cluster changes."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import pytest

from gpuprov.core.errors import EngineError, HostNotReady, NotOurs
from gpuprov.drivers.base import LABEL_CLUSTER, NodeRequest
from gpuprov.drivers.lxd import member_labels, member_networks, networks
from gpuprov.drivers.lxd.driver import LxdDriver
from gpuprov.drivers.networks import NetworkRequest
from gpuprov.shapes.engine import EngineCluster
from gpuprov.shapes.node import Attachment
from tests.fakes.engine_cluster import EngineCluster as FakeCluster

if TYPE_CHECKING:
    from collections.abc import Iterator

LABELS = {LABEL_CLUSTER: "lab", "gpuprov.fingerprint": "1"}
ALONE = {LABEL_CLUSTER: "lab", "gpuprov.begun": "{}"}
SPANS = {**ALONE, "gpuprov.hosts": "hoff,hinton"}


@pytest.fixture(autouse=True)
def passages(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Nothing of this machine's firewall and links is looked at; returns which bridges were let through."""
    let_through: list[str] = []

    @contextmanager
    def released(_bridge: str, _labels: object) -> Iterator[None]:
        yield

    monkeypatch.setattr(networks, "released", released)
    monkeypatch.setattr(networks, "tell_isolated", list)
    monkeypatch.setattr(networks, "find_lost", lambda _name, _config, _rules: [])
    monkeypatch.setattr(networks, "end_lost", lambda _api, _name: None)
    monkeypatch.setattr(networks, "let_through", let_through.append)
    monkeypatch.setattr(networks, "end_passage", lambda _name: None)
    monkeypatch.setattr(member_networks, "_WAIT_S", 0.0)
    return let_through


@pytest.fixture
def cluster() -> FakeCluster:
    made = FakeCluster()
    made.add_instance("theirs", "m1")
    made.add_instance("c001", "m2", **LABELS)
    return made


def driver(cluster: FakeCluster, member: str = "m1") -> LxdDriver:
    opened = LxdDriver(cast("Any", cluster.api(member)), name="lxd")
    opened.host = f"host-{member}"
    return opened


def node(name: str = "c000") -> NodeRequest:
    return NodeRequest(name=name, image="instance:base", labels=LABELS)


def request(labels: dict[str, str], name: str = "gpbr0") -> NetworkRequest:
    return NetworkRequest(name=name, labels=labels, address="10.0.3.1/24")


# --- nodes


def test_a_node_is_made_on_this_member(cluster: FakeCluster) -> None:
    driver(cluster).create_node(node())
    assert cluster.instances["c000"]["location"] == "m1"
    driver(cluster, "m2").create_node(node("c002"))
    assert cluster.instances["c002"]["location"] == "m2"


def test_of_an_engine_in_no_cluster_no_member_is_asked() -> None:
    alone = FakeCluster()
    driver(alone, "").create_node(node())
    assert alone.instances["c000"]["location"] == "none"
    assert [found.name for found in driver(alone, "").list_nodes()] == ["c000"]
    assert driver(alone, "").facts().cluster is None
    assert driver(alone, "").builder == "gpuprov-build"


def test_what_is_on_another_member_is_a_name_that_is_taken_and_nothing_else(cluster: FakeCluster) -> None:
    cluster.add_instance("gpuprov-image-0123", "m2", kind="image")
    seen = {found.name: found for found in driver(cluster).list_nodes()}
    assert set(seen) == {"theirs", "c001"}
    assert (seen["theirs"].host, seen["theirs"].member) == ("host-m1", "")
    other = seen["c001"]
    assert (other.host, other.member, other.status, other.ours) == ("m2", "m2", "running", False)
    assert (other.labels, other.devices, other.addresses, other.mounts) == ({}, (), {}, ())
    there = {found.name: found.ours for found in driver(cluster, "m2").list_nodes()}
    assert (there["theirs"], there["c001"]) == (False, True)


def test_what_is_on_a_member_that_is_away_takes_its_name_still(cluster: FakeCluster) -> None:
    cluster.members["m2"] = False
    seen = {found.name: (found.status, found.member) for found in driver(cluster).list_nodes()}
    assert seen == {"theirs": ("running", ""), "c001": ("error", "m2")}
    with pytest.raises(NotOurs) as told:
        driver(cluster).create_node(node("c001"))
    assert "an instance on m2, another member of the engine's cluster" in told.value.evidence
    assert "rename" not in told.value.fix


@pytest.mark.parametrize("do", ["start_node", "stop_node", "delete_node", "logs"])
def test_nothing_is_done_to_what_is_on_another_member(cluster: FakeCluster, do: str) -> None:
    with pytest.raises(NotOurs) as told:
        getattr(driver(cluster), do)("c001")
    assert told.value.what == "c001 is an instance on m2, another member of the engine's cluster, and is not changed"
    assert told.value.fix.startswith("run the command on m2")
    assert cluster.done == []


def test_each_member_has_a_builder_and_images_of_its_own(cluster: FakeCluster) -> None:
    one, other = driver(cluster), driver(cluster, "m2")
    assert len({one.builder, other.builder, "gpuprov-build"}) == 3
    for opened in (one, other):
        opened.create_node(NodeRequest(name=opened.builder, image="image:1", labels={LABEL_CLUSTER: "(images)"}))
        published = opened.publish_image(opened.builder, "abcdef", {"gpuprov.fingerprint": "abcdef"})
        assert opened.find_image("abcdef") == published
        assert opened.find_image(published.name) == published
        assert opened.list_images() == [published]
    assert one.list_images() != other.list_images()


# --- pools and facts


def test_the_engine_tells_its_cluster(cluster: FakeCluster) -> None:
    cluster.members["m2"] = False
    assert driver(cluster).facts().cluster == EngineCluster(member="m1", members=("m1", "m2"), away=("m2",))


def test_a_pool_that_this_member_has_is_used(cluster: FakeCluster) -> None:
    cluster.pools = {"gpuprov": {"m2"}, "local": {"m1", "m2"}}
    assert driver(cluster).facts().storage == "local (btrfs)"
    assert driver(cluster, "m2").facts().storage == "gpuprov (btrfs)"


def test_without_a_pool_the_commands_are_told_and_none_is_made(cluster: FakeCluster) -> None:
    cluster.pools = {"local": {"m2"}}
    with pytest.raises(HostNotReady) as told:
        driver(cluster).facts()
    assert told.value.what == "the LXD cluster has no storage pool for nodes on m1"
    create = "lxc storage create gpuprov btrfs"
    assert told.value.fix.endswith(f"{create} --target m1; {create} --target m2; {create}")
    assert cluster.done == []


# --- networks of one host


def test_a_network_is_made_on_all_members_and_is_ours_on_one(cluster: FakeCluster, passages: list[str]) -> None:
    one, other = driver(cluster), driver(cluster, "m2")
    one.create_network(request(ALONE))
    one.complete_network(request(ALONE))
    made = [what for member, what in cluster.done if "networks" in what]
    assert made == ["post networks/gpbr0@m1", "post networks/gpbr0@m2", "post networks/gpbr0"]
    assert passages == ["gpbr0"]
    (mine,), (theirs,) = one.list_networks(), other.list_networks()
    assert (mine.ours, mine.address, mine.labels) == (True, "10.0.3.1/24", ALONE)
    assert (theirs.ours, theirs.address, theirs.managed, theirs.joinable) == (False, "10.0.3.1/24", True, "")
    for change in (
        lambda: other.set_network_labels("gpbr0", {"gpuprov.spec": "x"}),
        lambda: other.delete_network("gpbr0"),
        lambda: other.isolate_network("gpbr0"),
        lambda: other.complete_network(request(ALONE)),
    ):
        with pytest.raises(NotOurs):
            change()
    with pytest.raises(EngineError, match="exists already"):
        other.create_network(request(ALONE))
    assert one.list_networks() == [mine]


def test_labels_are_changed_while_another_member_is_away(cluster: FakeCluster) -> None:
    one = driver(cluster)
    one.create_network(request(ALONE))
    cluster.members["m2"] = False
    before = dict(cluster.networks["gpbr0"]["config"])
    one.set_network_labels("gpbr0", {"gpuprov.spec": "new", "gpuprov.begun": ""})
    assert one.list_networks()[0].labels == {LABEL_CLUSTER: "lab", "gpuprov.spec": "new"}
    assert cluster.networks["gpbr0"]["config"] == before, "a change of the network would need all members"


def test_a_network_goes_with_what_was_recorded_of_it(cluster: FakeCluster) -> None:
    one = driver(cluster)
    one.create_network(request(ALONE))
    one.delete_network("gpbr0")
    assert (cluster.networks, cluster.announced, cluster.profiles) == ({}, {}, {})
    one.delete_network("gpbr0")


@pytest.mark.parametrize("verb", ["create", "delete"])
def test_networks_need_all_members_and_nothing_is_changed_without_one(cluster: FakeCluster, verb: str) -> None:
    one = driver(cluster)
    if verb == "delete":
        one.create_network(request(ALONE))
    before = (dict(cluster.networks), dict(cluster.profiles))
    cluster.members["m2"] = False
    with pytest.raises(EngineError) as told:
        one.create_network(request(ALONE)) if verb == "create" else one.delete_network("gpbr0")
    assert "a member of its cluster is unreachable" in told.value.what
    assert told.value.fix == "start m2; see: lxc cluster list"
    assert (cluster.networks, cluster.profiles) == before


def test_a_network_that_somebody_uses_keeps_its_labels(cluster: FakeCluster) -> None:
    one = driver(cluster)
    one.create_network(request(ALONE))
    one.set_network_labels("gpbr0", {"gpuprov.spec": "x"})
    cluster.instances["theirs"]["devices"]["eth0"] = {"type": "nic", "parent": "gpbr0"}
    with pytest.raises(EngineError, match="in use"):
        one.delete_network("gpbr0")
    assert one.list_networks()[0].labels == {**ALONE, "gpuprov.spec": "x"}


class Killed(BaseException):
    """A process ends here."""


STEPS = ("post profiles", "post networks/gpbr0@m1", "post networks/gpbr0@m2", "post networks/gpbr0")


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("tidy", [True, False], ids=["failed", "killed"])
def test_what_ends_while_a_network_is_made_is_gone_on_with(cluster: FakeCluster, step: str, *, tidy: bool) -> None:
    ended = False

    def end(_member: str, what: str) -> None:
        nonlocal ended
        ended = ended or what.startswith(step)
        if ended:
            raise Killed if not tidy else EngineError("lxd could not", evidence="it broke", fix="try")

    cluster.reach = end
    with pytest.raises((Killed, EngineError)):
        driver(cluster).create_network(request(ALONE))
    cluster.reach = lambda _member, _what: None
    assert driver(cluster).list_networks() == [], "what is not finished is not there: it is made again"
    driver(cluster).create_network(request(ALONE))
    assert driver(cluster).list_networks()[0].labels == ALONE
    driver(cluster).delete_network("gpbr0")
    assert (cluster.networks, cluster.announced, cluster.profiles) == ({}, {}, {})


def test_a_removal_that_was_killed_in_the_middle_is_gone_on_with(cluster: FakeCluster) -> None:
    driver(cluster).create_network(request(ALONE))

    def end(_member: str, what: str) -> None:
        if what == "delete networks/gpbr0":
            raise Killed

    cluster.reach = end
    with pytest.raises(Killed):
        driver(cluster).delete_network("gpbr0")
    cluster.reach = lambda _member, _what: None
    assert driver(cluster).list_networks()[0].ours
    driver(cluster).delete_network("gpbr0")
    assert (cluster.networks, cluster.profiles) == ({}, {})


def test_what_somebody_else_has_announced_is_left_alone(cluster: FakeCluster) -> None:
    cluster.announced["gpbr0"] = {"m1"}
    assert not driver(cluster).list_networks()[0].ours
    with pytest.raises(EngineError) as told:
        driver(cluster).create_network(request(ALONE))
    assert "lxc network delete gpbr0" in told.value.fix
    assert (cluster.announced, cluster.profiles) == ({"gpbr0": {"m1"}}, {})


def test_what_a_killed_run_recorded_makes_no_network_of_somebody_else_ours(cluster: FakeCluster) -> None:
    member_labels.keep_labels(cast("Any", cluster.api("m1")), "gpbr0", SPANS)
    cluster.networks["gpbr0"] = {"name": "gpbr0", "managed": True, "status": "Created", "config": {"user.a": "b"}}
    for member in ("m1", "m2"):
        (seen,) = driver(cluster, member).list_networks()
        assert (seen.ours, seen.joinable) == (False, "")
    with pytest.raises(NotOurs):
        driver(cluster).delete_network("gpbr0")


def test_a_profile_that_somebody_copied_records_nothing(cluster: FakeCluster) -> None:
    driver(cluster).create_network(request(SPANS))
    (name,) = cluster.profiles
    cluster.profiles["copy"] = {**cluster.profiles[name], "name": "copy"}
    kept = member_labels.read_kept(cast("Any", cluster.api("m1")))
    assert kept == {"gpbr0": {"m1": SPANS}}


def test_a_network_of_the_time_before_the_engine_was_in_a_cluster_keeps_its_labels(cluster: FakeCluster) -> None:
    config = {"user.gpuprov.cluster": "lab", "user.gpuprov.spec": "old", "ipv4.address": "10.0.3.1/24"}
    cluster.networks["gpbr0"] = {"name": "gpbr0", "managed": True, "status": "Created", "config": config}
    one = driver(cluster)
    assert one.list_networks()[0].labels == {LABEL_CLUSTER: "lab", "gpuprov.spec": "old"}
    one.set_network_labels("gpbr0", {"gpuprov.spec": "new"})
    assert one.list_networks()[0].labels == {LABEL_CLUSTER: "lab", "gpuprov.spec": "new"}
    assert not driver(cluster, "m2").list_networks()[0].ours


# --- networks of a cluster over two hosts that are members of the same engine cluster


def test_two_hosts_of_a_cluster_share_a_network_and_have_labels_of_their_own(cluster: FakeCluster) -> None:
    one, other = driver(cluster), driver(cluster, "m2")
    one.create_network(request(SPANS))
    (seen,) = other.list_networks()
    assert (seen.ours, seen.joinable) == (False, "lab")
    other.create_network(request(SPANS))
    for opened, host in ((one, "hoff"), (other, "hinton")):
        opened.set_network_labels("gpbr0", {"gpuprov.host": host})
    for opened, host in ((one, "hoff"), (other, "hinton")):
        (seen,) = opened.list_networks()
        assert (seen.labels["gpuprov.host"], seen.joinable, seen.address) == (host, "", "10.0.3.1/24")
    one.delete_network("gpbr0")
    assert "gpbr0" in cluster.networks
    assert other.list_networks()[0].labels["gpuprov.host"] == "hinton"
    one.delete_network("gpbr0")
    other.delete_network("gpbr0")
    assert (cluster.networks, cluster.profiles) == ({}, {})


@pytest.mark.parametrize(
    ("labels", "why"),
    [
        (ALONE, "exists already"),
        ({**SPANS, LABEL_CLUSTER: "other"}, "exists already"),
        ({**SPANS, "gpuprov.begun": "{1}"}, "by another member"),
    ],
    ids=["one host", "another cluster", "other subnets"],
)
def test_no_other_cluster_takes_part_in_it(cluster: FakeCluster, labels: dict[str, str], why: str) -> None:
    driver(cluster).create_network(request(SPANS))
    profiles = dict(cluster.profiles)
    with pytest.raises(EngineError, match=why):
        driver(cluster, "m2").create_network(request(labels))
    assert cluster.profiles == profiles


@pytest.mark.parametrize("step", STEPS)
def test_two_hosts_that_make_it_at_once_make_one(cluster: FakeCluster, step: str, monkeypatch: Any) -> None:
    """The other host comes to the same request while the first one is at a step, and waits until that is through."""
    monkeypatch.setattr(member_networks, "_WAIT_S", 10.0)
    monkeypatch.setattr(member_networks, "_STEP_S", 0.0)
    import threading

    turn, other_waits = threading.Event(), threading.Event()
    raised: list[BaseException] = []

    def meet(member: str, what: str) -> None:
        if member == "m1" and what.startswith(step) and not turn.is_set():
            turn.set()
            other_waits.wait(5.0)

    real = member_networks._finished

    def finished(api: Any, name: str) -> Any:
        other_waits.set()
        return real(api, name)

    monkeypatch.setattr(member_networks, "_finished", finished)
    cluster.reach = meet

    def run(member: str) -> None:
        try:
            driver(cluster, member).create_network(request(SPANS))
        except BaseException as error:  # noqa: BLE001 - shown below
            raised.append(error)
        other_waits.set()

    first = threading.Thread(target=run, args=("m1",))
    first.start()
    turn.wait(5.0)
    run("m2")
    first.join(10.0)
    assert raised == []
    for member in ("m1", "m2"):
        assert driver(cluster, member).list_networks()[0].labels == SPANS


def test_a_node_is_attached_to_it_by_the_name_of_its_bridge(cluster: FakeCluster) -> None:
    attachment = Attachment(
        network="gpbr0", interface="eth0", kind="veth", address="10.0.3.2/24", mac="00:16:3e:00:00:01"
    )
    wanted = NodeRequest(name="c000", image="instance:base", labels=LABELS, attachments=(attachment,))
    driver(cluster).create_node(wanted)
    assert cluster.instances["c000"]["devices"]["eth0"]["parent"] == "gpbr0"
