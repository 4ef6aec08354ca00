from __future__ import annotations

import os
from typing import TYPE_CHECKING, cast

import pytest

from gpuprov.core.errors import HostNotReady
from tests.contract.engines import Bench, DockerSite, FakeSite, LxdSite, Site

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpuprov.drivers.base import Driver

SITES: dict[str, Callable[[], Site]] = {"fake": FakeSite, "lxd": LxdSite, "docker": DockerSite}
ENGINES = [pytest.param(name, marks=[] if name == "fake" else pytest.mark.engine) for name in SITES]


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
    name = "gptbr9"
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
