"""Names of nodes for a shell that completes a word: what the drivers would list, without their SDKs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.drivers.base import LABEL_CLUSTER, LABEL_ROLE, LABEL_SELF, ROLE_BUILDER, NodeRequest
from gpuprov.drivers.docker import documents
from gpuprov.drivers.docker.blueprint import plan_blueprint
from gpuprov.drivers.registry import glance_at_nodes
from tests.fakes.answers import answering, http

if TYPE_CHECKING:
    from pathlib import Path

    from gpuprov.shapes.choices import Engine

LOADED = """
import sys
from gpuprov.cli import options
options.COMPLETION_S = 60.0
offered = options.complete_nodes(None, None, "c")
print(offered, sorted({"pylxd", "docker", "requests", "urllib3"} & set(sys.modules)))
"""


def instance(name: str, **more: Any) -> dict[str, Any]:
    config = {f"user.{LABEL_CLUSTER}": "lab", f"user.{LABEL_SELF}": name}
    seen = {"name": name, "status": "Running", "config": config, "expanded_devices": {}, "location": "none"}
    return {**seen, **more}


LXD_HAS = [
    instance("c000"),
    instance("c001", status="Stopped"),
    instance("mine", config={}),
    instance("c000-copy", config=instance("c000")["config"]),
    instance("gpuprov-build", config=instance("gpuprov-build")["config"] | {f"user.{LABEL_ROLE}": ROLE_BUILDER}),
]
ONE_OF_TWO = [instance("c000", location="here"), instance("c001", location="there")]


def server(**environment: object) -> bytes:
    return http(200, json.dumps({"metadata": {"environment": environment}}))


def instances(found: list[dict[str, Any]]) -> bytes:
    return http(200, json.dumps({"metadata": found}))


def container(name: str, labels: dict[str, str]) -> dict[str, Any]:
    request = NodeRequest(name=name, image="i", labels=labels)
    blueprint = plan_blueprint(request, uid="u1")
    body = documents.render_container(blueprint, labels, image="i", command=["true"], host_paths={}, api="1.41")
    return {"Id": name, "Names": [f"/{name}"], "State": "running", "Labels": body["Labels"], "Created": 1}


DOCKER_HAS = [
    container("d000", {LABEL_CLUSTER: "lab"}),
    container("gpuprov-build", {LABEL_CLUSTER: "lab", LABEL_ROLE: ROLE_BUILDER}),
    {"Id": "x", "Names": ["/web"], "State": "running", "Labels": {}, "Created": 1},
]


@pytest.mark.parametrize(
    ("engine", "variable", "answers", "names"),
    [
        ("lxd", "LXD_DIR", [server(), instances(LXD_HAS)], ["c000", "c001"]),
        ("incus", "INCUS_DIR", [server(server_clustered=True, server_name="here"), instances(ONE_OF_TWO)], ["c000"]),
        ("docker", "DOCKER_HOST", [http(200, json.dumps(DOCKER_HAS))], ["d000"]),
    ],
)
def test_the_nodes_of_ours_are_named(
    engine: Engine,
    variable: str,
    answers: list[bytes],
    names: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with answering(tmp_path / "unix.socket", *answers) as place:
        monkeypatch.setenv(variable, f"unix://{place}" if engine == "docker" else str(place.parent))
        assert glance_at_nodes(engine) == names


def test_a_completion_loads_no_sdk(tmp_path: Path) -> None:
    """Loading them takes longer than all the rest."""
    with answering(tmp_path / "unix.socket", server(), instances(LXD_HAS)) as place:
        there = {"LXD_DIR": str(place.parent), "INCUS_DIR": "/none", "DOCKER_HOST": "unix:///none"}
        run = [sys.executable, "-c", LOADED]
        said = subprocess.run(run, env={**os.environ, **there}, capture_output=True, text=True, check=True)
    assert said.stdout == "['c000', 'c001'] []\n"
