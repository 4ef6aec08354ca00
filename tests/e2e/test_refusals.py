"""Bad input: a clear error in three parts, the exit code that docs promise, and nothing changed."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.e2e.conftest import Finished, Gpuprov, World
    from tests.e2e.places import Place

CREATE = ("create-node", "--cluster", "gpte2e", "--gpu-mode", "simulated")
UP = ("cluster", "up", "--name", "gpte2e")
pytestmark = pytest.mark.usefixtures("cluster")


@pytest.fixture(scope="module", autouse=True)
def nothing_changes(world: World, cluster: Finished) -> Iterator[None]:  # noqa: ARG001 - it is there before we look
    before = world.look()
    yield
    assert world.look() == before


def has_three_parts(finished: Finished) -> None:
    what, evidence, fix = (finished.stderr.find(f"\n{mark}") for mark in ("error: ", "evidence: ", "fix: "))
    assert -1 <= what < evidence < fix or finished.stderr.startswith("error: "), finished.all
    assert "evidence: " in finished.stderr, finished.all
    assert finished.stderr.partition("\nfix: ")[2].strip(), finished.all
    assert finished.stdout == "", finished.all


REFUSED = {
    "a path as a name": ((*CREATE, "../x"), 2, "'../x' is not a valid node name"),
    "a name of 64 characters": ((*CREATE, "a" * 64), 2, "is not a valid node name"),
    "an upper-case name": ((*CREATE, "E009"), 2, "'E009' is not a valid node name"),
    "a name that a node has": ((*CREATE, "e001"), 2, "the name e001 is taken"),
    "an address that is none": ((*CREATE, "new", "--addr", "10.78.3"), 2, "is not an IPv4 address"),
    "an address of another network": ((*CREATE, "new", "--addr", "10.9.9.9"), 2, "gpteb0 is 10.78.3.0/24"),
    "the gateway's address": ((*CREATE, "new", "--addr", "10.78.3.1"), 2, "the gateway"),
    "a node's address": ((*CREATE, "new", "--addr", "10.78.3.3"), 2, "in use by node e001"),
    "a GPU that is not there": ((*CREATE, "new", "--gpus", "gpu9"), 2, "there is no GPU '9'"),
    "more GPUs than there are": ((*CREATE, "new", "--gpus", "9"), 2, "there are fewer than 9 GPUs"),
    "a mount that is none": ((*CREATE, "new", "--mount", "data"), 2, "'data' is not a valid mount"),
    "a mount of nothing": ((*CREATE, "new", "--mount", "/no/such:/data"), 2, "does not exist on the host"),
    "a mount from a path that goes up": ((*CREATE, "new", "--mount", "/tmp/../etc:/data"), 2, "contains `..`"),
    "a mount to a path that goes up": (
        (*CREATE, "new", "--mount", "/tmp:/data/../../x"),
        2,
        "not an absolute path without",
    ),
    "a mount over the devices": ((*CREATE, "new", "--mount", "/tmp:/dev/x"), 2, "would hide files that the node needs"),
    "an image that is a path": ((*CREATE, "new", "--image", "../../1.0"), 4, "has no image '../../1.0'"),
    "a base that is a path": (("image", "build", "--base", "../../tmp/x"), 2, "image.base: '../../tmp/x'"),
    "a base image that is a path": (("image", "build", "--base", "image:../x"), 2, "image.base: 'image:../x'"),
    "an image that is not there": ((*CREATE, "new", "--image", "nothing"), 4, "has no image 'nothing'"),
    "no node": ((*UP, "-n", "0"), 2, "nodes.count: is 0 (allowed: 1 to 253)"),
    "too many nodes": ((*UP, "-n", "300"), 2, "nodes.count: is 300 (allowed: 1 to 253)"),
    "a word for a number": ((*UP, "-n", "four"), 2, "'four' is not a valid integer"),
    "more exclusive GPUs than there are": ((*UP, "-n", "6", "--sharing", "exclusive"), 2, "not enough GPUs"),
    "a spec that is not there": (("cluster", "up", "-f", "/no/such.yaml"), 2, "/no/such.yaml"),
    "no name of a cluster to remove": (("cluster", "down", ""), 2, "'' is not a valid cluster name"),
    "a cluster to remove that is a path up": (("cluster", "down", ".."), 2, "'..' is not a valid cluster name"),
    "a cluster to remove that is a path": (("cluster", "down", "/no/x"), 2, "'/no/x' is not a valid cluster name"),
    "a cluster to remove that is a path, engine said": (("cluster", "down", "../x", "--engine", "lxd"), 2, "'../x'"),
    "a cluster to see that is a path": (("cluster", "status", "../x"), 2, "'../x' is not a valid cluster name"),
    "a cluster to verify that is a path": (("verify", "--cluster", "../x"), 2, "'../x' is not a valid cluster name"),
    "a verb that is none": (("frobnicate",), 2, "No such command 'frobnicate'"),
    "a node that is not there": (("stop", "nobody"), 2, "there is no node nobody"),
    "a port that is none": (("expose", "e000", "70000"), 2, "70000 is not a port"),
}


@pytest.mark.parametrize(("argv", "exit_code", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_refused(gpuprov: Gpuprov, argv: tuple[str, ...], exit_code: int, words: str) -> None:
    refused = gpuprov(*argv, expect=exit_code)
    has_three_parts(refused)
    assert words in refused.stderr, refused.all


def test_an_image_to_remove_that_is_a_path_is_none(gpuprov: Gpuprov) -> None:
    said = gpuprov("image", "rm", "../x")
    last = said.stderr.splitlines()[-1].strip()  # it may have waited for another test
    assert (said.stdout, last) == ("unchanged\n", "there is no image ../x")


def test_keys_stay_where_another_engine_has_the_cluster(gpuprov: Gpuprov) -> None:
    said = gpuprov("cluster", "down", "gpte2e", "--engine", "docker")
    assert said.stdout == "unchanged\n"
    assert "kept the ssh keys: lxd also has a cluster gpte2e" in said.stderr


def test_an_error_as_json(gpuprov: Gpuprov) -> None:
    error = gpuprov.json(*UP, "-n", "0", expect=2)["error"]
    assert sorted(error) == ["evidence", "exit_code", "fix", "what"]
    assert error["exit_code"] == 2
    assert all(error.values())


def test_a_spec_with_many_faults_reports_them_all(gpuprov: Gpuprov, tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(
        "version: gpuprov/v1\n"
        "nam: lab\n"
        "nodes:\n"
        "  count: many\n"
        "  prefix: Bad_Prefix\n"
        "gpus: {sharing: both}\n"
        "network: {subnet: 10.78.3.7/24}\n"
    )
    refused = gpuprov("cluster", "up", "-f", str(path), expect=2)
    has_three_parts(refused)
    for words in ("nam:", "did you mean name?", "nodes.count", "nodes.prefix", "gpus.sharing", "network.subnet"):
        assert words in refused.stderr, refused.all
    for line in (2, 4, 5, 6, 7):
        assert f"line {line}" in refused.stderr or f":{line}:" in refused.stderr, refused.all


def test_no_engine(gpuprov: Gpuprov, tmp_path: Path) -> None:
    refused = gpuprov(*UP, expect=3, variables={"LXD_DIR": str(tmp_path)})
    has_three_parts(refused)
    assert f"no socket at {tmp_path}" in refused.stderr
    assert "gpuprov host prepare" in refused.stderr


@pytest.mark.parametrize("engine", ["lxd", "incus"])
def test_no_permission_on_the_engines_socket(request: pytest.FixtureRequest, gpuprov: Gpuprov, engine: str) -> None:
    if engine == "incus":
        request.getfixturevalue("incus")
    # the capability only lets `nobody` find the program, wherever it is installed
    caps = ("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")
    nobody = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *caps)
    refused = gpuprov(*UP, "--engine", engine, expect=3, before=nobody, variables={"HOME": "/nonexistent"})
    has_three_parts(refused)
    assert f"this user has no access to {engine}" in refused.stderr
    assert "usermod -aG" in refused.stderr


@contextmanager
def link(host: Callable[..., str], name: str, *kind: str) -> Iterator[None]:
    host("ip", "link", "add", name, *kind)
    try:
        host("ip", "link", "set", name, "up")
        yield
    finally:
        host("ip", "link", "delete", name)


def other_spec(place: Place, folder: Path, **network: str) -> str:
    path = folder / "other.yaml"
    path.write_text(place.spec(count=1, **network))
    return str(path)


def test_an_address_that_something_else_has(gpuprov: Gpuprov, place: Place, host: Callable[..., str]) -> None:
    host("ip", "netns", "add", f"{place.mark}s")
    try:
        with link(host, f"{place.mark}2", "type", "veth", "peer", "name", f"{place.mark}3", "netns", f"{place.mark}s"):
            host("ip", "link", "set", f"{place.mark}2", "master", "gpteb0")
            host("ip", "-n", f"{place.mark}s", "address", "add", "10.78.3.77/24", "dev", f"{place.mark}3")
            host("ip", "-n", f"{place.mark}s", "link", "set", f"{place.mark}3", "up")
            refused = gpuprov(*CREATE, "new", "--addr", "10.78.3.77", expect=2)
        has_three_parts(refused)
        assert "the address 10.78.3.77 is in use" in refused.stderr
    finally:
        host("ip", "netns", "delete", f"{place.mark}s")


def test_a_subnet_that_the_host_uses(gpuprov: Gpuprov, place: Place, host: Callable[..., str], tmp_path: Path) -> None:
    with link(host, f"{place.mark}2", "type", "bridge"):
        host("ip", "address", "add", f"{place.address(1, 9)}/24", "dev", f"{place.mark}2")
        refused = gpuprov("cluster", "up", "-f", other_spec(place, tmp_path), expect=2)
    has_three_parts(refused)
    assert f"the subnet {place.subnet(1)} is in use on this host" in refused.stderr
    assert f"{place.mark}2" in refused.stderr


def test_a_foreign_bridge_of_the_host_is_left_alone(
    gpuprov: Gpuprov, place: Place, host: Callable[..., str], tmp_path: Path
) -> None:
    with link(host, f"{place.mark}2", "type", "bridge"):
        refused = gpuprov("cluster", "up", "-f", other_spec(place, tmp_path, private_bridge=f"{place.mark}2"), expect=4)
        assert f"{place.mark}2" in host("ip", "link", "show", f"{place.mark}2")
    has_three_parts(refused)
    assert f"{place.mark}2 exists and was not created by gpuprov" in refused.stderr


def test_a_foreign_network_of_the_engine_is_left_alone(
    gpuprov: Gpuprov, place: Place, lxc: Callable[..., str], tmp_path: Path
) -> None:
    lxc("network", "create", f"{place.mark}2", "ipv4.address=none", "ipv6.address=none")
    try:
        refused = gpuprov("cluster", "up", "-f", other_spec(place, tmp_path, bridge=f"{place.mark}2"), expect=4)
        has_three_parts(refused)
        assert f"{place.mark}2 exists and was not created by gpuprov" in refused.stderr
        gpuprov("cluster", "down", place.cluster, "--yes")
        assert f"{place.mark}2" in lxc("network", "list", "--format", "csv")
    finally:
        lxc("network", "delete", f"{place.mark}2")


def test_a_foreign_instance_is_left_alone(gpuprov: Gpuprov, lxc: Callable[..., str]) -> None:
    pool = lxc("storage", "list", "--format", "csv").partition(",")[0]
    lxc("init", "--empty", "e004", "--storage", pool)
    try:
        for argv in ((*UP, "-n", "5"), (*CREATE, "e004")):
            refused = gpuprov(*argv, expect=4)
            has_three_parts(refused)
            assert "the name e004 is taken by an instance that gpuprov did not create" in refused.stderr
        for verb in ("rm", "stop", "start", "show"):
            assert "gpuprov did not create" in gpuprov(verb, "e004", expect=2).stderr
        assert "e004" in lxc("list", "--format", "csv", "--columns", "n").split()
    finally:
        lxc("delete", "e004")
