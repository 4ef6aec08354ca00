from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuprov.cluster import secrets
from gpuprov.core.errors import EngineError, HostNotReady, NotAllowed, UsageError
from gpuprov.drivers.networks import NetworkRequest
from gpuprov.lifecycle.cluster_down import cluster_down
from gpuprov.machine.survey import EngineDoor
from tests.fakes.doors import door_of
from tests.fakes.driver import FakeDriver
from tests.fakes.engine import FakeEngine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.fakes.world import World


@pytest.fixture
def keygen(monkeypatch: pytest.MonkeyPatch) -> None:
    def write(argv: Sequence[str], *, timeout_s: float) -> None:  # noqa: ARG001 - the signature of what it stands for
        private = Path(argv[-1])
        private.write_text("private\n")
        private.with_suffix(".pub").write_text("ssh-ed25519 AAAA new\n")

    monkeypatch.setattr(secrets, "run", write)


@pytest.mark.usefixtures("keygen")
@pytest.mark.parametrize("verb", ["up", "create"])
def test_a_first_run_that_fails_leaves_no_keys(world: World, verb: str) -> None:
    secrets.remove_keys("lab")
    world.engine.faults.raise_at(EngineError("no", evidence="e", fix="f"), "start_node", lasting=True)
    with pytest.raises(EngineError):
        world.up(1) if verb == "up" else world.create("web", role="plain")
    assert not secrets.key_folder("lab").exists()
    assert world.names == []


@pytest.mark.usefixtures("keygen")
def test_keys_that_were_there_outlive_a_failure(world: World) -> None:
    world.engine.faults.raise_at(EngineError("no", evidence="e", fix="f"), "start_node")
    with pytest.raises(EngineError):
        world.up(1)
    assert secrets.ensure_ssh_key("lab") == "ssh-ed25519 AAAA gpuprov-lab"


@pytest.mark.usefixtures("keygen")
def test_keep_on_failure_keeps_the_keys_for_the_nodes_that_it_keeps(world: World) -> None:
    secrets.remove_keys("lab")
    world.engine.faults.raise_at(EngineError("no", evidence="e", fix="f"), "start_node")
    with pytest.raises(EngineError):
        world.up(1, keep=True)
    assert secrets.private_keys() == [b"private\n"]


PATHS = ["", ".", "..", "../victim", "lab/..", "{folder}/victim"]


@pytest.mark.parametrize("name", PATHS)
def test_keys_of_what_is_no_clusters_name_are_never_removed(world: World, tmp_path: Path, name: str) -> None:
    victim = tmp_path / "data" / "victim"
    victim.mkdir()
    given = name.format(folder=tmp_path / "data")
    for remove in (
        secrets.remove_keys,
        lambda name: cluster_down(world.driver, name, world.host, reporter=world.reporter),
    ):
        with pytest.raises(UsageError, match="is not a valid cluster name"):
            remove(given)
    assert victim.exists()
    assert secrets.private_keys() == [b"private\n"]


def other_engine(
    engine: FakeEngine, *, silent: bool = False, installed: bool = True, closed: bool = False
) -> EngineDoor:
    def connect() -> FakeDriver:
        if closed:
            raise NotAllowed("this user has no access to the other one", evidence="e", fix="f")
        if silent:
            raise HostNotReady("the other one does not respond", evidence="e", fix="f")
        return FakeDriver(engine)

    return EngineDoor(name="other", open=connect, installed=lambda: installed)


def test_an_engine_that_this_user_may_not_use_has_no_cluster_with_these_keys(world: World) -> None:
    world.up(1)
    world.host.engines = (door_of(world.driver), other_engine(FakeEngine(), closed=True))
    assert "removed the ssh keys" in cluster_down(world.driver, "lab", world.host, reporter=world.reporter).changed
    assert [line for line in world.reporter.lines if "keys" in line] == []


@pytest.mark.parametrize(
    ("there", "silent", "installed", "words"),
    [
        ("lab", False, True, "other also has a cluster lab"),
        ("lab", True, True, "other may also have a cluster lab, but cannot be queried: the other one does not respond"),
        ("train", False, True, ""),
        ("lab", True, False, ""),
    ],
    ids=["has it", "is silent", "has another", "is not there"],
)
def test_keys_stay_for_the_cluster_of_that_name_on_another_engine(
    world: World, there: str, words: str, *, silent: bool, installed: bool
) -> None:
    other = FakeEngine()
    labels = {"gpuprov.cluster": there}
    FakeDriver(other).create_network(NetworkRequest(name="gpbr0", labels=labels, address="10.0.3.1/24"))
    world.up(1)
    elsewhere = other_engine(other, silent=silent, installed=installed)
    world.host.engines = (door_of(world.driver), elsewhere)
    changed = cluster_down(world.driver, "lab", world.host, reporter=world.reporter).changed
    assert world.names == []
    assert ("removed the ssh keys" in changed) is (not words)
    assert secrets.private_keys() == ([b"private\n"] if words else [])
    assert [line for line in world.reporter.lines if "keys" in line] == (
        [f"warn kept the ssh keys: {words}; when it no longer exists: gpuprov cluster down lab --engine fake"]
        * bool(words)
    )
