"""What a bundle tells of an engine, held to the schemas of docs/."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from gpuprov.core.bundle_parts import as_json
from gpuprov.lifecycle.bundle import cluster_parts, engine_parts
from gpuprov.lifecycle.engine_state import spec_document
from gpuprov.shapes.base import changed, write
from gpuprov.shapes.cluster_spec import ClusterSpec, MountSpec
from gpuprov.shapes.engine import FactsOfEngine
from gpuprov.shapes.node import Attachment, Exposure, Mount
from tests.fakes.driver import FakeDriver
from tests.fakes.engine import FakeNode
from tests.schemas import SCHEMAS, validate

if TYPE_CHECKING:
    from tests.fakes.world import World


@pytest.fixture
def parts(world: World, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The documents of an engine with two nodes of ours, a copy of one and a foreign instance."""
    monkeypatch.setattr(FakeDriver, "name", "lxd")
    base = world.spec(1)
    mounts = (MountSpec(source=str(world.host.folder), target="/data"),)
    world.up(spec=changed(base, nodes=changed(base.nodes, environment=("A=1", "DB_PASSWORD=x"), mounts=mounts)))
    world.create("web", role="plain", gpus="none")
    world.driver.stop_node("web")
    world.driver.snapshot_node("web", "good")
    world.driver.expose("web", Exposure(host_port=8080, node_port=80))
    world.engine.copy("c000", "backup")
    address = Attachment(network="br", interface="eth0", kind="veth", address="10.0.9.9/24", mac="00:16:3e:00:00:09")
    mount = Mount(source="/home/them", target="/data")
    world.engine.nodes["theirs"] = FakeNode(name="theirs", attachments=(address,), mounts=(mount,))
    driver = world.driver
    told = {
        **engine_parts(driver, driver.list_nodes(), driver.list_networks()),
        **cluster_parts(driver, "lab", lambda _spec: (), host="here"),
    }
    return {name: json.loads(tell()) for name, tell in told.items() if name.endswith(".json")}


def test_every_part_is_as_its_schema_says(parts: dict[str, Any]) -> None:
    assert {name: validate(part) for name, part in parts.items()} == {
        "lxd/facts.json": "gpuprov.engine-facts/v1",
        "lxd/nodes.json": "gpuprov.engine-nodes/v1",
        "lxd/networks.json": "gpuprov.engine-networks/v1",
        "lxd/images.json": "gpuprov.engine-images/v1",
        "lxd/clusters/lab/spec.json": "gpuprov.cluster-spec/v1",
        "lxd/clusters/lab/status.json": "gpuprov.cluster-status/v1",
    }
    assert {part["host"] for part in parts.values()} == {"here"}
    nodes = {node["name"]: node for node in parts["lxd/nodes.json"]["nodes"]}
    assert nodes["backup"]["copy_of"] == "c000"
    assert nodes["theirs"] == {"name": "theirs", "status": "stopped", "addresses": {"eth0": "10.0.9.9/24"}}
    assert (nodes["web"]["host"], nodes["web"]["snapshots"]) == ("here", ["good"])
    assert parts["lxd/clusters/lab/spec.json"]["spec"]["nodes"]["environment"] == ["A=1", "DB_PASSWORD=(hidden)"]


@pytest.mark.parametrize(
    ("part", "inner", "key", "value"),
    [
        ("lxd/facts.json", "facts", "cpus", "two"),
        ("lxd/nodes.json", "nodes", "devices", ["/dev/nvidia0"]),
        ("lxd/networks.json", "networks", "isolated", "yes"),
        ("lxd/images.json", "images", "size_bytes", "1 GiB"),
        ("lxd/clusters/lab/spec.json", "spec", "nodes", []),
    ],
)
def test_the_schemas_refuse_what_is_not_so(
    parts: dict[str, Any], part: str, inner: str, key: str, value: object
) -> None:
    document = parts[part]
    held = document[inner][0] if isinstance(document[inner], list) else document[inner]
    assert key in held
    held[key] = value
    with pytest.raises(jsonschema.ValidationError):
        validate(document)
    with pytest.raises(jsonschema.ValidationError):
        validate({**document, inner: None if inner != "spec" else 1})


def test_the_schema_of_a_spec_names_every_key_that_a_spec_has() -> None:
    described = SCHEMAS["gpuprov.cluster-spec/v1"]["$defs"]
    spec = write(ClusterSpec())
    assert described["ClusterSpec"]["properties"].keys() == spec.keys()
    for part in ("nodes", "gpus", "network", "image", "slurm", "worker", "jobs", "placement", "unreachable"):
        name = type(getattr(ClusterSpec(), part)).__name__
        assert described[name]["properties"].keys() == spec[part].keys()
        assert all("description" in one for one in described[name]["properties"].values() if "$ref" not in one)


def test_a_cluster_that_was_never_brought_up_has_no_spec() -> None:
    assert validate(json.loads(as_json(spec_document("lab", None, host="here")))) == "gpuprov.cluster-spec/v1"


def test_facts_name_the_ways_of_the_engine(world: World) -> None:
    facts = changed(world.driver.facts(), name="docker", gpu_access={"cdi": "docker 28 uses CDI"}, free_bytes=None)
    assert validate(write(FactsOfEngine(host="here", facts=facts))) == "gpuprov.engine-facts/v1"
