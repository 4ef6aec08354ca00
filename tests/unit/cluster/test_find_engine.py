from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from gpuprov.cluster import find_engine
from gpuprov.cluster.find_engine import find_elsewhere, observe_wherever
from gpuprov.core.errors import EngineError, HostNotReady, UsageError
from gpuprov.core.reporter import Silent
from gpuprov.drivers.base import NodeRequest
from gpuprov.drivers.networks import NetworkRequest
from gpuprov.shapes.choices import ENGINES
from tests.fakes.doors import door_of, door_without
from tests.fakes.driver import FakeDriver
from tests.fakes.engine import FakeEngine, FakeImage

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuprov.drivers.base import NodeState
    from gpuprov.drivers.networks import NetworkState
    from gpuprov.machine.survey import EngineDoor

engine_of_nodes = partial(find_engine.engine_of_nodes, reporter=Silent())
engine_of_cluster = partial(find_engine.engine_of_cluster, reporter=Silent())
engine_of_image = partial(find_engine.engine_of_image, reporter=Silent())


def engine(name: str, *nodes: str, foreign: str = "", network: str = "") -> FakeDriver:
    made = FakeEngine()
    made.images["i"] = FakeImage(id="i", name="i", ours=False)
    driver = FakeDriver(made)
    for node in nodes:
        driver.create_node(NodeRequest(name=node, image="i", labels={"gpuprov.cluster": "lab"}))
    if foreign:
        made.add_foreign_node(foreign)
    if network:
        driver.create_network(NetworkRequest(name="gpbr0", labels={"gpuprov.cluster": network}, address="10.0.3.1/24"))
    driver.name = name
    return driver


def opening(*drivers: FakeDriver, installed: tuple[str, ...] = ()) -> list[EngineDoor]:
    """These engines run on the machine and no others; besides, some are installed."""
    running = {driver.name: driver for driver in drivers}
    return [
        door_of(running[name]) if name in running else door_without(name, installed=name in installed)
        for name in ENGINES
    ]


def test_a_node_is_found_on_the_engine_that_has_it() -> None:
    machine = opening(engine("lxd", "c000"), engine("docker", "w0", "w1"))
    assert engine_of_nodes(["c000"], machine).name == "lxd"
    assert engine_of_nodes(["w0", "w1"], machine).name == "docker"


def test_a_name_on_both_engines_is_refused_and_both_are_named() -> None:
    machine = opening(engine("lxd", "c000"), engine("docker", "c000"))
    with pytest.raises(UsageError, match="more than one engine has node c000") as caught:
        engine_of_nodes(["c000"], machine)
    assert caught.value.evidence == "lxd has c000; docker has c000"
    assert caught.value.fix == "select one: --engine lxd or --engine docker"


def test_nodes_of_two_engines_are_not_for_one_verb() -> None:
    with pytest.raises(UsageError, match="more than one"):
        engine_of_nodes(["c000", "w0"], opening(engine("lxd", "c000"), engine("docker", "w0")))


def test_what_is_foreign_counts_only_where_nothing_is_ours() -> None:
    machine = opening(engine("lxd", foreign="w0"), engine("docker", "w0", foreign="db"))
    assert engine_of_nodes(["w0"], machine).name == "docker"
    assert engine_of_nodes(["db"], machine).name == "docker"  # where the verb refuses it, by its name


def test_a_node_that_nobody_has_is_the_default_engines_where_the_verb_accepts_that() -> None:
    assert engine_of_nodes(["c009"], opening(engine("lxd"), engine("docker")), absent_too=True).name == "lxd"


@pytest.mark.parametrize(
    ("engines", "evidence"),
    [
        ([engine("lxd"), engine("docker", "w0", "w1")], "nodes in docker: w[0-1]"),
        ([engine("lxd", "c000"), engine("docker", "w0")], "nodes in lxd: c000; nodes in docker: w0"),
        ([engine("lxd", foreign="db"), engine("docker")], "nodes: none"),
        ([engine("docker", "w0")], "nodes: w0"),
    ],
)
def test_where_nobody_has_a_node_the_nodes_of_all_engines_are_named(engines: list[FakeDriver], evidence: str) -> None:
    with pytest.raises(UsageError, match="there is no node c009") as caught:
        engine_of_nodes(["c009"], opening(*engines))
    assert caught.value.evidence == evidence
    assert caught.value.fix == "list the nodes: gpuprov list"


def test_a_copy_of_the_node_on_another_engine_is_named() -> None:
    docker = engine("docker", "c009")
    docker.engine.copy("c009", "spare")
    del docker.engine.nodes["c009"]
    with pytest.raises(UsageError, match="there is no node c009") as caught:
        engine_of_nodes(["c009"], opening(engine("lxd", "c000"), docker))
    assert caught.value.evidence == "spare is a copy of c009; nodes in lxd: c000"
    assert "rename spare c009" in caught.value.fix


def test_an_engine_that_does_not_answer_is_not_passed_over_in_silence() -> None:
    with pytest.raises(EngineError, match="there is no node c000 on the engines that respond") as caught:
        engine_of_nodes(["c000"], opening(engine("docker", "w0"), installed=("lxd",)))
    assert caught.value.evidence == "lxd: lxd is not running on this machine: no socket; docker"
    assert caught.value.fix == "gpuprov host prepare; or query a single engine: --engine docker"
    beside = opening(engine("lxd"), installed=("docker",))
    for find in (engine_of_cluster, engine_of_image):
        with pytest.raises(EngineError, match="on the engines that respond"):
            find("lab", beside)
    for find, what in ((engine_of_cluster, "cluster lab"), (engine_of_image, "image slurm")):
        with pytest.raises(EngineError, match=f"there is no {what} on the engines that respond"):
            find(what.partition(" ")[2], opening(engine("docker"), installed=("lxd",)))


def test_what_is_gone_is_looked_for_on_the_one_engine_that_is_installed() -> None:
    machine = opening(engine("docker", "w0"))
    assert engine_of_nodes(["c000"], machine, absent_too=True).name == "docker"
    assert engine_of_cluster("lost", machine).name == "docker"
    assert engine_of_image("slurm", machine).name == "docker"


def test_of_several_that_are_installed_none_that_is_silent_is_passed_over() -> None:
    assert engine_of_nodes(["c000"], opening(engine("docker"), engine("incus")), absent_too=True).name == "incus"
    with pytest.raises(EngineError, match="on the engines that respond"):
        engine_of_nodes(["c000"], opening(engine("docker"), installed=("incus",)))


def test_the_one_engine_that_is_installed_says_why_it_does_not_answer() -> None:
    with pytest.raises(HostNotReady, match="docker is not running"):
        engine_of_cluster("lab", opening(installed=("docker",)))


def test_a_cluster_is_known_by_its_nodes_or_its_network() -> None:
    machine = opening(engine("lxd", "c000"), engine("docker", network="train"))
    assert engine_of_cluster("lab", machine).name == "lxd"
    assert engine_of_cluster("train", machine).name == "docker"
    with pytest.raises(UsageError, match="more than one engine has cluster lab"):
        engine_of_cluster("lab", opening(engine("lxd", "c000"), engine("docker", network="lab")))


class Counting(FakeDriver):
    """Notes what it is asked for."""

    def __init__(self, asked: list[str], driver: FakeDriver) -> None:
        super().__init__(driver.engine)
        self.name, self._asked = driver.name, asked

    def list_nodes(self) -> list[NodeState]:
        self._asked.append(f"{self.name} nodes")
        return super().list_nodes()

    def list_networks(self) -> list[NetworkState]:
        self._asked.append(f"{self.name} networks")
        return super().list_networks()


@pytest.mark.parametrize("cluster", ["lab", "train", "none"])
def test_a_cluster_that_is_looked_for_is_observed_and_no_engine_is_asked_twice(cluster: str) -> None:
    asked: list[str] = []
    engines = (engine("lxd", "c000"), engine("docker", network="train"))
    machine = opening(*(Counting(asked, driver) for driver in engines))
    driver, state = observe_wherever(cluster, machine, reporter=Silent())
    assert (driver.name, state.name) == ({"train": "docker"}.get(cluster, "lxd"), cluster)
    assert [node.name for node in state.nodes] == (["c000"] if cluster == "lab" else [])
    assert sorted(asked) == ["docker networks", "docker nodes", "lxd networks", "lxd nodes"]


def test_a_cluster_of_two_engines_is_not_observed() -> None:
    with pytest.raises(UsageError, match="more than one engine has cluster lab"):
        machine = opening(engine("lxd", "c000"), engine("docker", network="lab"))
        observe_wherever("lab", machine, reporter=Silent())


def test_a_new_cluster_is_for_incus_where_that_is_there_and_lxd_is_not() -> None:
    machine = opening(engine("incus"), engine("docker"))
    assert engine_of_cluster("new", machine, creates=True).name == "incus"
    assert engine_of_cluster("new", opening(engine("lxd"), engine("incus")), creates=True).name == "lxd"
    with pytest.raises(HostNotReady):
        engine_of_cluster("new", opening(engine("docker"), installed=("incus",)), creates=True)


def test_a_new_cluster_is_for_the_default_engine_even_if_another_answers_alone() -> None:
    with pytest.raises(HostNotReady, match="lxd is not running"):
        engine_of_cluster("new", opening(engine("docker")), creates=True)
    assert engine_of_cluster("new", opening(engine("lxd"), engine("docker")), creates=True).name == "lxd"


def test_without_any_engine_the_default_one_says_why() -> None:
    with pytest.raises(HostNotReady, match="lxd is not running"):
        engine_of_nodes(["c000"], opening(installed=("lxd", "docker")))
    with pytest.raises(HostNotReady, match="lxd is not running"):
        engine_of_nodes(["c000"], opening())


@pytest.mark.parametrize(
    "find",
    [
        partial(engine_of_nodes, ["c000"]),
        partial(engine_of_cluster, "lab"),
        partial(engine_of_cluster, "lab", creates=True),
        partial(engine_of_image, "slurm"),
        partial(observe_wherever, "lab", reporter=Silent()),
    ],
)
def test_a_host_that_knows_no_engine_says_so(find: Callable[[list[EngineDoor]], object]) -> None:
    with pytest.raises(HostNotReady, match="lxd is not on this host") as caught:
        find([])
    assert caught.value.evidence == "its engines: none"
    assert caught.value.fix == "sudo gpuprov host prepare --engine lxd"


def test_an_engine_that_a_host_does_not_know_is_named_where_it_is_needed() -> None:
    with pytest.raises(HostNotReady, match="lxd is not on this host") as caught:
        engine_of_cluster("new", [door_of(engine("docker"))], creates=True)
    assert caught.value.evidence == "its engines: docker"


def test_a_cluster_of_the_same_name_elsewhere_is_found_and_a_silent_engine_is_not_taken_for_an_empty_one() -> None:
    machine = opening(engine("lxd", "c000"), engine("docker", network="lab"))
    assert find_elsewhere("lab", machine, without="lxd") == ("docker also has a cluster lab",)
    assert find_elsewhere("lab", machine, without="docker") == ("lxd also has a cluster lab",)
    assert find_elsewhere("train", machine, without="lxd") == ()
    silent = opening(engine("lxd"), engine("docker"), installed=("incus",))
    assert find_elsewhere("train", silent, without="lxd") == (
        "incus may also have a cluster train, but cannot be queried: incus is not running on this machine",
    )
