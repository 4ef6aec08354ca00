"""A cluster over two hosts from end to end, each host a member that serves what the controller asks."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.cluster.between_hosts import look_between
from gpuprov.cluster.state import observe_cluster
from gpuprov.core.errors import EngineError, GpuprovError, HostNotReady, PartDone, TimedOut, Unreachable, UsageError
from gpuprov.fleet.agree import HostsUpOrder
from gpuprov.fleet.find_hosted import find_spanning, get_host_of_node
from gpuprov.fleet.found_nodes import locate_nodes
from gpuprov.fleet.hosted_order import HostedOrder
from gpuprov.fleet.hosts_down import down_over_hosts
from gpuprov.fleet.hosts_up import look_and_plan_over_hosts, up_over_hosts
from gpuprov.fleet.node_there import create_over_hosts
from gpuprov.fleet.nodes_work import change_nodes_there
from gpuprov.fleet.verify_hosts import verify_over_hosts
from gpuprov.lifecycle.leaving import SPARE_JOBS
from gpuprov.lifecycle.remove_nodes import remove_nodes
from gpuprov.shapes.base import changed
from gpuprov.shapes.cluster_spec import (
    ClusterSpec,
    GpuSpec,
    HostSpec,
    JobsSpec,
    NetworkSpec,
    NodesSpec,
    OverlaySpec,
    PlacementSpec,
)
from gpuprov.shapes.node_order import NodeOrder
from gpuprov.shapes.orders import NodesOrder
from gpuprov.spec.draft import CHOOSABLE, Draft
from tests.fakes.faults import Killed
from tests.fakes.hosts_in_worlds import SINCE, HostsInWorlds, keep_keys_below

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from gpuprov.fleet.done import BroughtUp
    from gpuprov.fleet.hosted_cluster import SpanningCluster
    from gpuprov.link.several import HostAnswer
    from tests.conftest import Recording

pytestmark = pytest.mark.slow

NAMES = ("hoff", "hinton")


class Controller:
    """A machine that knows the hosts."""

    def __init__(self, hosts: HostsInWorlds, reporter: Recording) -> None:
        self.hosts, self.reporter = hosts, reporter

    def order(self, count: int = 4, *, left: frozenset[str] = CHOOSABLE, **more: Any) -> HostsUpOrder:
        spec = ClusterSpec(
            nodes=NodesSpec(count=count),
            gpus=GpuSpec(mode="simulated"),
            hosts=tuple(HostSpec(name=name, internal_ip=f"192.0.2.{n}") for n, name in enumerate(NAMES, 11)),
            placement=PlacementSpec(strategy="spread"),
        )
        draft = Draft(spec=changed(spec, **more), left=left, engine_open=True)
        return HostsUpOrder(draft=draft, known=self.hosts.machines, policy=SPARE_JOBS)

    def up(self, count: int = 4, **more: Any) -> BroughtUp:
        return up_over_hosts(self.order(count, **more), self.hosts, reporter=self.reporter)

    def plan(self, count: int = 4, **more: Any) -> tuple[str, ...]:
        return look_and_plan_over_hosts(self.order(count, **more), self.hosts, reporter=self.reporter).lines

    def find(self) -> SpanningCluster:
        found = find_spanning("lab", self.hosts.machines, self.hosts)
        assert found is not None
        return found


@pytest.fixture
def lab(tmp_path: Path, recording: Recording, monkeypatch: pytest.MonkeyPatch) -> Controller:
    keep_keys_below(tmp_path / "data", monkeypatch)
    return Controller(HostsInWorlds(tmp_path, recording, NAMES), recording)


def files(lab: Controller, path: str) -> set[bytes]:
    return {node.files[path].content for world in lab.hosts.worlds.values() for node in world.engine.nodes.values()}


def test_a_cluster_over_two_hosts_has_one_slurm_and_one_key(lab: Controller) -> None:
    result = lab.up()
    assert result.error is None
    assert [(row.name, row.host, row.work, row.health) for row in result.rows] == [
        ("c000", "hoff", "idle", "ok"),
        ("c001", "hoff", "idle", "ok"),
        ("c002", "hinton", "idle", "ok"),
        ("c003", "hinton", "idle", "ok"),
    ]
    assert len(files(lab, "/etc/munge/munge.key")) == 1
    assert len(files(lab, "/etc/slurm/slurm.conf")) == 1
    assert len(files(lab, "/etc/hosts")) == 1
    ends = {host: world.host.overlays.there["lab"] for host, world in lab.hosts.worlds.items()}
    assert (ends["hoff"].local, ends["hoff"].peers, ends["hoff"].mtu) == ("192.0.2.11", ("192.0.2.12",), 1450)
    assert ends["hinton"].peers == ("192.0.2.11",)
    assert "hoff: create network gpbr0 10.0.3.1/24" in result.outcome.changed
    assert any("is not encrypted between hosts" in line for line in lab.reporter.lines)


def test_what_a_killed_run_left_takes_no_gpu_from_the_next(lab: Controller) -> None:
    faults = lab.hosts.worlds["hoff"].engine.faults
    faults.raise_at(Killed(), "create_node:files", subject="c000", lasting=True)
    gpus = GpuSpec(mode="simulated", sharing="exclusive")
    with pytest.raises(Killed):
        lab.up(8, gpus=gpus)
    faults.clear()
    result = lab.up(8, gpus=gpus)
    assert result.error is None
    assert [row.host for row in result.rows] == ["hoff"] * 4 + ["hinton"] * 4


def test_a_host_whose_engine_is_silent_gets_no_second_nodes_on_another_engine(lab: Controller) -> None:
    lab.up()

    def as_of_another_engine(told: dict[str, Any]) -> dict[str, Any]:
        return {**told, "engine": "docker", "exists": False, "nodes": [], "record": ""}

    lab.hosts.spoiled["hinton", "part"] = as_of_another_engine
    with pytest.raises(HostNotReady, match="hinton has its nodes of cluster lab on lxd") as caught:
        lab.up(6)
    assert "engine: docker" in caught.value.fix
    assert all(verb == "part" for _, verb in lab.hosts.asked[-2:])


def test_a_second_run_changes_nothing_in_two_questions(lab: Controller) -> None:
    first = lab.up()
    lab.hosts.asked.clear()
    second = lab.up()
    assert (second.outcome.changed, second.error) == ((), None)
    assert [(row.name, row.work) for row in second.rows] == [(row.name, row.work) for row in first.rows]
    assert lab.hosts.asked == [(host, verb) for verb in ("part", "plan") for host in NAMES]
    assert lab.plan() == ()


def test_limits_of_jobs_that_change_are_told_and_no_node_is_verified_for_them(lab: Controller) -> None:
    lab.up()
    order = replace(lab.order(jobs=JobsSpec(time="12h")), verify=True)
    result = up_over_hosts(order, lab.hosts, reporter=lab.reporter)
    assert result.outcome.changed == tuple(f"{host}: record jobs.time: 12h (until now unset)" for host in NAMES)
    assert result.report is None
    more = replace(lab.order(5, jobs=JobsSpec(time="6h")), verify=True)
    assert up_over_hosts(more, lab.hosts, reporter=lab.reporter).report is not None


def test_a_plan_says_what_would_be_done_and_changes_nothing(lab: Controller) -> None:
    lines = lab.plan(2)
    assert "hinton: create network gpbr0 10.0.3.1/24" in lines
    assert any(line.startswith("hoff: create node c000") for line in lines)
    assert not any(world.engine.nodes or world.engine.networks for world in lab.hosts.worlds.values())
    lab.up(2)
    assert any("renew /etc/hosts" in line for line in lab.plan(3)), "the nodes that stay need the new one's name"


def test_it_grows_where_there_is_room_and_shrinks_where_the_nodes_are(lab: Controller) -> None:
    lab.up(2)
    grown = lab.up(6)
    assert [row.host for row in grown.rows] == ["hoff", "hinton", "hoff", "hoff", "hinton", "hinton"]
    assert {row.work for row in grown.rows} == {"idle"}
    shrunk = lab.up(2)
    assert [row.name for row in shrunk.rows] == ["c000", "c001"]
    assert "hinton: remove node c005" in shrunk.outcome.changed
    assert lab.up(2).outcome.unchanged


def test_values_that_nobody_said_are_free_on_all_hosts(lab: Controller) -> None:
    lab.hosts.worlds["hinton"].host.more_interfaces = ["gpbr1"]
    lab.up(2)
    bridges = {host: set(world.engine.networks) for host, world in lab.hosts.worlds.items()}
    assert bridges == {"hoff": {"gpbr2", "gpbr3"}, "hinton": {"gpbr2", "gpbr3"}}


def test_too_little_room_on_all_hosts_together_changes_nothing(lab: Controller) -> None:
    with pytest.raises(UsageError, match="its hosts have room for 8") as caught:
        lab.up(9, gpus=GpuSpec(mode="simulated", sharing="exclusive"))
    assert "hoff: room for 4" in caught.value.evidence
    assert not any(world.engine.networks for world in lab.hosts.worlds.values())


def test_a_new_cluster_needs_all_its_hosts(lab: Controller) -> None:
    lab.hosts.away = {"hinton"}
    with pytest.raises(GpuprovError, match="a new cluster needs all its hosts") as caught:
        lab.up()
    assert not isinstance(caught.value, PartDone), "nothing was done"
    assert not lab.hosts.worlds["hoff"].engine.networks


def test_a_host_that_is_away_keeps_its_nodes_and_the_others_go_on(lab: Controller) -> None:
    lab.up()
    lab.hosts.away = {"hinton"}
    result = lab.up(5)
    error = result.error
    assert isinstance(error, PartDone)
    assert f"hinton is unreachable since {SINCE}" in error.evidence
    rows = {row.name: (row.host, row.status, row.health) for row in result.rows}
    assert rows["c004"][:2] == ("hoff", "running")
    assert rows["c003"] == ("hinton", "unreachable", f"hinton is unreachable since {SINCE}")
    seen = lab.find()
    assert [row.status for row in seen.rows] == ["running", "running", "unreachable", "unreachable", "running"]
    assert seen.away == {"hinton": SINCE}
    lab.hosts.away = set()
    back = lab.up(5)
    assert back.error is None
    assert any(line.startswith("hinton: renew") for line in back.outcome.changed)
    assert {row.work for row in back.rows} == {"idle"}


def test_hosts_that_only_the_spec_names_are_found_with_those_that_were_added(lab: Controller) -> None:
    machines = lab.hosts.machines
    hosts = lab.order().draft.spec.hosts
    lab.up(hosts=tuple(changed(host, address=machines[host.name].address) for host in hosts))
    added = {"hoff": machines["hoff"]}
    lab.hosts.asked.clear()
    found = find_spanning("lab", added, lab.hosts)
    assert found is not None
    assert {row.name: row.status for row in found.rows}["c003"] == "running"
    assert lab.hosts.asked == [(host, "part") for host in NAMES]
    lab.hosts.away = {"hinton"}
    found = find_spanning("lab", added, lab.hosts)
    assert found is not None
    assert (list(found.parts), list(found.machines), found.away) == (["hoff"], list(NAMES), {"hinton": SINCE})


def test_a_host_that_fails_is_named_and_the_next_run_goes_on(lab: Controller) -> None:
    engine = lab.hosts.worlds["hinton"].engine
    engine.faults.raise_at(EngineError("no space", evidence="full", fix="free some"), "create_node", subject="c003")
    result = lab.up()
    assert isinstance(result.error, PartDone)
    assert "no space" in result.error.evidence
    assert not engine.nodes, "its own part was undone"
    assert sorted(lab.hosts.worlds["hoff"].engine.nodes) == ["c000", "c001"]
    assert lab.up().error is None
    assert len(files(lab, "/etc/munge/munge.key")) == 1, "the key is that of the nodes that are there"


def test_down_asks_the_host_that_knows_the_jobs_first(lab: Controller) -> None:
    lab.up()
    lab.hosts.worlds["hoff"].slurm.jobs = {"c003": "7"}
    with pytest.raises(UsageError, match="job"):
        down_over_hosts(lab.find(), lab.hosts, SPARE_JOBS)
    assert lab.hosts.worlds["hinton"].engine.nodes, "nothing was removed anywhere"
    lab.hosts.worlds["hoff"].slurm.jobs = {}
    lab.hosts.asked.clear()
    done = down_over_hosts(lab.find(), lab.hosts, SPARE_JOBS)
    assert [host for host, verb in lab.hosts.asked if verb == "down"] == list(NAMES)
    assert done.failed == {}
    assert any(line.startswith("hinton: removed overlay") for line in done.outcome.changed)
    for world in lab.hosts.worlds.values():
        assert [*world.engine.nodes, *world.engine.networks, *world.host.overlays.there] == []
    assert find_spanning("lab", lab.hosts.machines, lab.hosts) is None


def test_what_is_shared_by_nodes_of_one_host_alone_is_refused(lab: Controller) -> None:
    with pytest.raises(UsageError, match="cannot share a folder"):
        lab.up(share=True, left=CHOOSABLE - {"share"})


def test_a_part_that_another_controller_has_overtaken_is_refused(lab: Controller) -> None:
    """Both have asked, and one has acted before the other."""
    order = lab.order(2)
    late = HostsInWorlds.work
    world = lab.hosts.worlds["hoff"]

    def overtake(requests: Any) -> Any:
        lab.hosts.work = lambda requests: late(lab.hosts, requests)  # type: ignore[method-assign]
        lab.up(4)
        return lab.hosts.work(requests)

    lab.hosts.work = overtake  # type: ignore[method-assign]
    result = up_over_hosts(order, lab.hosts, reporter=lab.reporter)
    assert result.error is not None
    assert "changed" in result.error.evidence
    assert sorted(world.engine.nodes) == ["c000", "c001"]
    assert observe_cluster(world.driver, "lab").spec.nodes.count == 4  # type: ignore[union-attr]


def test_a_node_is_found_on_its_host(lab: Controller) -> None:
    lab.up()
    machines = lab.hosts.machines
    assert get_host_of_node("c003", machines, lab.hosts)[0].name == "hinton"
    with pytest.raises(UsageError, match="there is no node c009"):
        get_host_of_node("c009", machines, lab.hosts)
    lab.hosts.away = {"hinton"}
    with pytest.raises(PartDone, match="no host that answers has a node c003"):
        get_host_of_node("c003", machines, lab.hosts)


def test_secrets_are_in_no_word_that_is_told(lab: Controller) -> None:
    lab.up()
    (key,) = files(lab, "/etc/munge/munge.key")
    told = "\n".join(lab.reporter.lines)
    assert key.hex()[:16] not in told
    assert base64.b64encode(key).decode()[:16] not in told


def test_a_verb_on_one_host_keeps_the_nodes_of_others_in_its_files(lab: Controller) -> None:
    lab.up()
    world = lab.hosts.worlds["hoff"]
    remove_nodes(world.driver, ["c001"], world.host, reporter=lab.reporter)
    conf = world.file("c000", "/etc/slurm/slurm.conf")
    assert "NodeName=c003" in conf
    assert "NodeName=c001" not in conf
    with pytest.raises(UsageError, match="no single node can be added to cluster lab, which spans hosts"):
        world.create("c007")
    back = lab.up()
    assert {row.work for row in back.rows} == {"idle"}
    assert "hoff: create node c001 10.0.3.3 role slurm, 1 GPU shared (simulated)" in back.outcome.changed


ENCRYPTED = NetworkSpec(overlay=OverlaySpec(encryption="wireguard"))


def test_an_encrypted_overlay_has_a_key_of_each_host_and_a_second_run_changes_nothing(lab: Controller) -> None:
    plan = lab.plan(network=ENCRYPTED)
    assert any(line.startswith("hoff: create overlay") for line in plan)
    assert not any(world.host.overlays.keys for world in lab.hosts.worlds.values()), "a plan makes no keys"
    result = lab.up(network=ENCRYPTED)
    assert result.error is None
    ends = {host: world.host.overlays for host, world in lab.hosts.worlds.items()}
    hoff, hinton = ends["hoff"].there["lab"], ends["hinton"].there["lab"]
    assert hoff.tunnel is not None
    assert hinton.tunnel is not None
    assert (hoff.tunnel.key, hinton.tunnel.key) == (ends["hoff"].keys["lab"], ends["hinton"].keys["lab"])
    assert [(peer.key, peer.reached_at) for peer in hoff.tunnel.peers] == [(hinton.tunnel.key, "192.0.2.12")]
    assert (hoff.peers, hoff.mtu, hoff.tunnel.mtu) == ((hinton.local,), 1370, 1420)
    assert not any("is not encrypted" in line for line in lab.reporter.lines)
    lab.hosts.asked.clear()
    assert lab.up(network=ENCRYPTED).outcome.unchanged
    assert "key" not in [verb for _, verb in lab.hosts.asked]


def test_a_host_that_has_lost_its_key_makes_another_and_all_are_told(lab: Controller) -> None:
    lab.up(network=ENCRYPTED)
    hinton, hoff = (lab.hosts.worlds[name].host.overlays for name in ("hinton", "hoff"))
    old = hinton.keys.pop("lab")
    lab.hosts.asked.clear()
    lab.up(network=ENCRYPTED)
    assert ("hinton", "key") in lab.hosts.asked
    assert ("hoff", "key") not in lab.hosts.asked
    tunnel = hoff.there["lab"].tunnel
    assert tunnel is not None
    assert [peer.key for peer in tunnel.peers] == [hinton.keys["lab"]] != [old]


def test_a_cluster_can_be_encrypted_later_and_no_more(lab: Controller) -> None:
    lab.up()
    lab.up(network=ENCRYPTED)
    end = lab.hosts.worlds["hoff"].host.overlays.there["lab"]
    assert (end.mtu, end.tunnel is not None) == (1370, True), "the MTU was chosen, so it follows"
    lab.up()
    end = lab.hosts.worlds["hoff"].host.overlays.there["lab"]
    assert (end.local, end.mtu, end.tunnel) == ("192.0.2.11", 1450, None)


def test_a_host_without_wireguard_refuses_before_anything_is_changed(
    lab: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> tuple[str, ...]:
        raise HostNotReady("this host cannot encrypt the overlay", evidence="no wg", fix="apt-get")

    monkeypatch.setattr(lab.hosts.worlds["hinton"].host.overlays, "preview", refuse)
    with pytest.raises(GpuprovError, match="nothing was changed: hosts refuse their part"):
        lab.up(network=ENCRYPTED)
    assert not any(world.host.overlays.keys for world in lab.hosts.worlds.values())
    assert not any(world.engine.networks for world in lab.hosts.worlds.values())


def test_the_way_between_hosts_is_tried_through_the_tunnel(lab: Controller) -> None:
    lab.up(network=ENCRYPTED)
    world = lab.hosts.worlds["hoff"]
    state = observe_cluster(world.driver, "lab")
    seen = look_between(world.driver, state, world.host.called("hoff"), away=())
    assert seen is not None
    overlay = seen["overlay"]
    assert overlay["wanted"]["peers"] == {"hinton": lab.hosts.worlds["hinton"].host.overlays.there["lab"].local}
    assert overlay["peers"] == list(overlay["wanted"]["peers"].values())


def fail_part(lab: Controller, host: str, spoil: Any) -> None:
    """Have the work of one host answered otherwise."""
    honest = lab.hosts.work
    lab.hosts.work = lambda requests: [  # type: ignore[method-assign]
        spoil(answer) if answer.machine.name == host else answer for answer in honest(requests)
    ]


def test_the_host_that_failed_is_named_where_no_other_one_has_nodes(lab: Controller) -> None:
    fail_part(lab, "hoff", lambda answer: replace(answer, document=None, error=EngineError("hoff: no disk")))
    result = up_over_hosts(replace(lab.order(1), verify=True), lab.hosts, reporter=lab.reporter)
    assert isinstance(result.error, PartDone)
    assert list(result.failed) == ["hoff"]


def test_what_a_host_failed_at_is_told_before_what_came_of_it(lab: Controller) -> None:
    honest, late = lab.hosts.work, TimedOut("the nodes are not ready", evidence="c000 down", fix="look at c000")
    errors: dict[str, dict[str, GpuprovError]] = {"up": {"hinton": EngineError("no disk")}, "ready": {"hoff": late}}

    def work(requests: Any) -> Any:
        verb = next((request.verb for request in requests.values()), "")
        failed = errors.get(verb, {})
        answers = honest(requests)
        return [
            replace(answer, document=None, error=failed[name]) if (name := answer.machine.name) in failed else answer
            for answer in answers
        ]

    lab.hosts.work = work  # type: ignore[method-assign]
    result = lab.up()
    assert list(result.failed) == ["hinton", "hoff"]
    assert result.error is not None
    assert "no disk" in result.error.evidence
    assert "c000 down" in result.error.evidence


def test_an_answer_that_cannot_be_read_does_not_hide_what_others_did(lab: Controller) -> None:
    fail_part(lab, "hinton", lambda answer: replace(answer, document={"changed": 5}))
    result = lab.up()
    assert isinstance(result.error, PartDone)
    assert list(result.failed) == ["hinton"]
    assert any(line.startswith("hoff: create node c000") for line in result.outcome.changed)
    done = down_over_hosts(lab.find(), lab.hosts, SPARE_JOBS)
    assert list(done.failed) == ["hinton"]
    assert any(line.startswith("hoff: ") for line in done.outcome.changed)


def test_a_host_that_was_away_does_not_bring_back_an_older_spec(lab: Controller) -> None:
    lab.up(2)
    lab.hosts.away = {"hoff"}
    lab.up(2, nodes=NodesSpec(count=2, memory_gib=1))
    lab.hosts.away = set()
    spec = lab.find().spec
    assert spec is not None
    assert spec.nodes.memory_gib == 1
    assert lab.up(2, nodes=NodesSpec(count=2, memory_gib=1)).error is None
    assert lab.up(2, nodes=NodesSpec(count=2, memory_gib=1)).outcome.unchanged


def test_nodes_of_which_ctrl_c_ended_the_removal_take_jobs_again(lab: Controller) -> None:
    lab.up()
    known, asked = lab.hosts.machines, lab.hosts.asked
    found = locate_nodes(["c003"], known, lab.hosts)
    honest = lab.hosts.work

    def interrupted(requests: Any) -> Any:
        if any(request.verb == "nodes" for request in requests.values()):
            raise KeyboardInterrupt
        return honest(requests)

    lab.hosts.work = interrupted  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        change_nodes_there(found, NodesOrder(act="rm", nodes=("c003",)), lab.hosts, reporter=lab.reporter)
    assert asked[-2:] == [("hoff", "out-of-service"), ("hoff", "in-service")]
    lab.hosts.work = honest  # type: ignore[method-assign]
    assert {row.work for row in lab.find().rows} == {"idle"}


@pytest.mark.parametrize("nodes", [5, None, "c003"])
def test_nodes_that_are_no_list_are_refused_in_words(lab: Controller, nodes: object) -> None:
    lab.up()
    honest = lab.hosts.ask
    lab.hosts.ask = lambda requests, *_: [  # type: ignore[method-assign]
        replace(answer, document={"parts": {"lab": {"nodes": nodes}}}) for answer in honest(requests)
    ]
    with pytest.raises(GpuprovError, match="gave an unexpected answer"):
        locate_nodes(["c003"], lab.hosts.machines, lab.hosts)


@pytest.mark.parametrize("names", [(), ("c000",)], ids=["too few", "those of another host"])
def test_a_host_speaks_for_its_own_nodes_alone(lab: Controller, names: tuple[str, ...]) -> None:
    lab.up(2)

    def spoil(answer: Any) -> Any:
        nodes = [{**node, "node": name} for name in names for node in answer.document["nodes"][:1]]
        return replace(answer, document={**answer.document, "nodes": nodes})

    fail_part(lab, "hinton", spoil)
    found = verify_over_hosts(lab.find(), lab.hosts)
    assert list(found.failed) == ["hinton"]
    assert [node.node for node in found.report.nodes] == ["c000", "c001"]
    assert not found.report.passed


def test_a_new_cluster_is_refused_as_a_whole_where_one_host_has_another_version(lab: Controller) -> None:
    lab.hosts.outdated = {"hinton"}
    with pytest.raises(GpuprovError, match="a new cluster needs all its hosts") as caught:
        lab.up()
    assert caught.value.fix == "bring it up to date: gpuprov host add hinton"
    assert not any(world.engine.nodes or world.engine.networks for world in lab.hosts.worlds.values())
    assert {verb for _, verb in lab.hosts.asked} == {"part"}


def verbs_of(lab: Controller, host: str) -> list[str]:
    return [verb for name, verb in lab.hosts.asked if name == host]


def test_nodes_that_leave_are_held_once_all_hosts_have_agreed(lab: Controller) -> None:
    lab.up()
    lab.hosts.asked.clear()
    held: list[tuple[str, ...]] = []
    lab.hosts.worlds["hoff"].slurm.on_drain = held.append
    assert lab.up(2).error is None
    assert held == [("c002", "c003")]
    assert verbs_of(lab, "hoff") == ["part", "plan", "out-of-service", "up", "ready"]


def test_a_job_on_a_node_that_is_to_leave_is_spared_and_ends_by_force(lab: Controller) -> None:
    lab.up()
    slurm = lab.hosts.worlds["hoff"].slurm
    for world in lab.hosts.worlds.values():
        world.slurm.jobs = {"c003": "7"}
    with pytest.raises(UsageError, match="there are jobs on"):
        lab.up(2)
    assert sorted(lab.hosts.worlds["hinton"].engine.nodes) == ["c002", "c003"]
    assert slurm.drains == {}
    order = replace(lab.order(2), policy=replace(SPARE_JOBS, force=True))
    assert up_over_hosts(order, lab.hosts, reporter=lab.reporter).error is None
    assert "c003" not in lab.hosts.worlds["hinton"].engine.nodes


def spoil_hold(lab: Controller, spoil: Callable[[HostAnswer], HostAnswer]) -> None:
    """Have something happen when a host holds nodes, before anybody hears of it."""
    honest = lab.hosts.work

    def work(requests: Any) -> Any:
        held = any(request.verb == "out-of-service" for request in requests.values())
        return [spoil(answer) if held else answer for answer in honest(requests)]

    lab.hosts.work = work  # type: ignore[method-assign]


def lose(answer: HostAnswer) -> HostAnswer:
    lost = Unreachable("the connection to hoff was lost", evidence="ssh printed nothing", fix="look")
    return replace(answer, document=None, error=lost)


def interrupt(_answer: HostAnswer) -> HostAnswer:
    raise KeyboardInterrupt


@pytest.mark.parametrize(("spoil", "kind"), [(lose, Unreachable), (interrupt, KeyboardInterrupt)])
def test_nodes_take_jobs_again_where_nobody_heard_that_they_were_held(
    lab: Controller, spoil: Callable[[HostAnswer], HostAnswer], kind: type[BaseException]
) -> None:
    lab.up()
    held: list[tuple[str, ...]] = []
    lab.hosts.worlds["hoff"].slurm.on_drain = held.append
    spoil_hold(lab, spoil)
    with pytest.raises(kind):
        lab.up(2)
    found, order = locate_nodes(["c003"], lab.hosts.machines, lab.hosts), NodesOrder(act="stop", nodes=("c003",))
    with pytest.raises(kind):
        change_nodes_there(found, order, lab.hosts, reporter=lab.reporter)
    assert held == [("c002", "c003"), ("c003",)]
    assert verbs_of(lab, "hoff")[-3:] == ["find", "out-of-service", "in-service"]
    assert lab.hosts.worlds["hoff"].slurm.drains == {}
    assert sorted(lab.hosts.worlds["hinton"].engine.nodes) == ["c002", "c003"]


def test_a_wait_that_failed_is_told_and_not_repeated(lab: Controller) -> None:
    honest, late = lab.hosts.work, TimedOut("the nodes are not ready", evidence="c003 down", fix="look")

    def work(requests: Any) -> Any:
        waited = any(request.verb == "ready" for request in requests.values())
        return [replace(one, document=None, error=late) if waited else one for one in honest(requests)]

    lab.hosts.work = work  # type: ignore[method-assign]
    with pytest.raises(TimedOut, match="not ready"):
        lab.up()
    assert verbs_of(lab, "hoff").count("ready") == 1


def test_nodes_of_a_host_that_failed_are_not_waited_for(lab: Controller) -> None:
    fail_part(lab, "hinton", lambda answer: replace(answer, document=None, error=EngineError("no disk")))
    result = lab.up()
    assert list(result.failed) == ["hinton"]
    assert [(row.name, row.work) for row in result.rows if row.host == "hoff"] == [("c000", "idle"), ("c001", "idle")]


def test_of_a_node_that_is_gone_already_it_is_not_said_that_it_goes(lab: Controller) -> None:
    lab.up(2)
    order = HostedOrder(node=NodeOrder(name="c009", cluster="lab", gpu_mode="simulated"), host="hoff")
    create_over_hosts(order, lab.hosts.machines, lab.hosts, reporter=lab.reporter)
    world = lab.hosts.worlds["hoff"]
    remove_nodes(world.driver, ["c009"], world.host, reporter=lab.reporter)
    lab.reporter.lines.clear()
    lab.up(2)
    assert not any("remove 1 node" in line for line in lab.reporter.lines)
    assert "c009" not in lab.find().whole.homes
