from __future__ import annotations

import os
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import pytest

from gpuprov.core.errors import HostNotReady
from tests.conftest import share_engines
from tests.contract.engines import Bench, DockerSite, FakeSite, LxdSite, Site, bridge

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpuprov.drivers.base import Driver

SITES: dict[str, Callable[[], Site]] = {
    "fake": FakeSite,
    "lxd": LxdSite,
    "incus": partial(LxdSite, "incus"),
    "docker": DockerSite,
}
ENGINES = [pytest.param(name, marks=[] if name == "fake" else pytest.mark.engine) for name in SITES]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config) -> None:
    """The processes of a parallel run, one for each engine, share what a run has alone."""
    share_engines(config)
    for open_here in SITES.values():  # what a killed run left: in this one, another process may have that engine
        with suppress(HostNotReady):
            open_here().sweep()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """All tests of an engine in one process, which alone has that engine."""
    from xdist.scheduler import LoadScopeScheduling

    class ByEngine(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            words = nodeid.partition("[")[2].rstrip("]").split("-")
            return next((word for word in words if word in SITES), nodeid)

    return ByEngine(config, log)


# Incus is driven by LXD's driver: of its tests these alone are not long, which meet most of what differs.
OF_INCUS = frozenset(
    {
        "test_facts_are_the_machine_s",
        "test_a_node_s_life",
        "test_a_glance_shows_the_names_of_the_same_nodes",
        "test_ports_and_labels_that_are_changed_at_once_are_all_there",
        "test_a_frozen_node_is_seen_and_goes_on_when_started",
        "test_a_foreign_instance_is_left_alone",
        "test_networks_are_as_asked",
        "test_nodes_reach_each_other_on_both_networks_and_the_host_on_one",
        "test_a_node_shows_the_settings_of_its_request",
        "test_other_settings_are_seen_and_put_right_and_the_node_runs",
        "test_a_network_shows_the_settings_of_its_request",
        "test_of_two_at_once_with_one_name_one_is_made",
        "test_streams_and_status_are_told_apart",
        "test_the_exit_status_is_the_command_s",
        "test_a_command_that_takes_too_long_is_killed_in_the_node",
        "test_the_console_log_is_text",
        "test_owner_and_mode_are_as_asked",
        "test_only_the_leased_device_opens",
        "test_the_account_writes_in_one_node_and_reads_in_another",
        "test_a_builder_becomes_an_image_and_nodes_come_from_it",
        "test_an_image_is_no_node_to_work_on",
        "test_a_snapshot_brings_files_back",
        "test_what_a_node_has_written_is_its_use_of_the_storage",
    }
)


@pytest.hookimpl(tryfirst=True)  # before those that are long are left out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        call = getattr(item, "callspec", None)
        if call and call.params.get("whole_bench") == "incus" and item.originalname not in OF_INCUS:  # type: ignore[attr-defined]
            item.add_marker(pytest.mark.long)


def open_site(engine: str) -> Site:
    try:
        return SITES[engine]()
    except HostNotReady as lack:
        if os.environ.get("CI"):
            pytest.fail(f"CI must have a real {engine}: {lack}")
        pytest.skip(f"no real {engine} here: {lack.what}: {lack.evidence}")


@pytest.fixture(scope="session", params=ENGINES)
def whole_bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    site = open_site(cast("str", request.param))
    if site.real:
        request.getfixturevalue("real_engines")
    site.sweep()  # what a killed run left
    try:
        yield Bench(site)
    finally:
        site.sweep()


@pytest.fixture(scope="session")
def node(whole_bench: Bench) -> str:
    """A running node that all tests share; none changes its configuration."""
    return whole_bench.create(start=True)


@pytest.fixture
def bench(whole_bench: Bench, node: str) -> Iterator[Bench]:  # noqa: ARG001 - it is there before the test and stays
    """The bench; the nodes that a test makes go with it."""
    before = whole_bench.names()
    yield whole_bench
    for name in whole_bench.names() - before:
        state = whole_bench.driver.find_node(name)
        if state and state.ours:
            whole_bench.driver.delete_node(name)


@pytest.fixture
def driver(bench: Bench) -> Driver:
    return bench.driver


@pytest.fixture
def foreign(bench: Bench) -> Iterator[str]:
    """An instance that gpuprov did not create; whatever a test tries, it is the same afterwards."""
    name = f"{bench.new_name()}-foreign"
    bench.site.add_foreign_node(name)
    before = bench.site.foreign(name)
    yield name
    assert bench.site.foreign(name) == before


@pytest.fixture
def foreign_network(bench: Bench) -> Iterator[str]:
    """A network that gpuprov did not create; whatever a test tries, it is the same afterwards."""
    name = bridge(9)
    if name not in [network.name for network in bench.driver.list_networks()]:
        bench.site.add_foreign_network(name)
    before = bench.site.foreign(name)
    yield name
    assert bench.site.foreign(name) == before


@pytest.fixture
def real(bench: Bench) -> None:
    """Only where nodes have a kernel."""
    if not bench.real:
        pytest.skip(f"nodes of {bench.driver.name} are records only")
