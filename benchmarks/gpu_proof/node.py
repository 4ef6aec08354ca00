"""A real node on an engine that is there, from an image that is there: no network is needed."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from benchmarks.gpu_proof.host import passed_by
from benchmarks.gpu_proof.parts import ROOT
from gpuprov.cluster.build_image import find_built
from gpuprov.cluster.images import node_recipe
from gpuprov.cluster.services import init_of
from gpuprov.core.errors import GpuprovError
from gpuprov.core.execution import run
from gpuprov.machine.local import LocalHost
from gpuprov.machine.survey import survey
from gpuprov.roles.registry import ROLES
from gpuprov.shapes.cluster_spec import ClusterSpec

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuprov.core.execution import Completed
    from gpuprov.drivers.base import Driver
    from gpuprov.machine.base import Host

CLUSTER: Final = "gpu-proof"
UP_S, VERIFY_S, DOWN_S = 60.0, 80.0, 40.0
_START = "import sys; from gpuprov.cli.main import main; sys.exit(main())"


@dataclass(frozen=True, kw_only=True)
class NodeImage:
    """Where there is a node image for this machine's GPUs, and for which role."""

    engine: str
    role: str


def gpuprov(*arguments: str, timeout_s: float) -> Completed:
    """Run a command of gpuprov's."""
    return run((sys.executable, "-c", _START, *arguments), timeout_s=timeout_s, cwd=ROOT, check=False)


def find_image(host: Host | None = None) -> NodeImage | None:
    """Find the image that `cluster up` would take; one for simulated GPUs or another driver would be built anew.

    Raises:
        GpuprovError: The host's GPUs cannot be told.
    """
    host = host or LocalHost()
    gpus = host.gpus("real")
    spec = ClusterSpec()

    def roles_with_image(driver: Driver) -> list[str]:
        recipes = {name: node_recipe(spec, role.recipe, gpus, init=init_of(driver)) for name, role in ROLES.items()}
        return [name for name, recipe in recipes.items() if find_built(driver, recipe)]

    for engine, roles in survey(host.engines, roles_with_image).answers.items():
        if roles:
            return NodeImage(engine=engine, role=spec.nodes.role if spec.nodes.role in roles else roles[0])
    return None


def verify_node(
    *, command: Callable[..., Completed] = gpuprov, find: Callable[[], NodeImage | None] = find_image
) -> dict[str, Any]:
    """Create a cluster of one node with a real GPU, verify it at the full level, remove it."""
    try:
        image = find()
    except GpuprovError as error:
        return {"passed": False, "why": f"{error.what}: {error.evidence}", "checks": []}
    if image is None:
        why = "no engine here has a node image for this machine's GPUs, and to build one takes a network"
        return {"passed": None, "why": why, "checks": []}
    try:
        document = _verify(command, image)
    except GpuprovError as error:
        document = {"passed": False, "why": f"{error.what}: {error.evidence}", "checks": []}
    left = _remove(command, image)
    if left:
        document |= {"passed": False, "why": "; ".join(filter(None, (document["why"], left)))}
    return {**document, "engine": image.engine, "role": image.role}


def _verify(command: Callable[..., Completed], image: NodeImage) -> dict[str, Any]:
    wanted = ("--name", CLUSTER, "-n", "1", "--gpus-per-node", "1", "--gpu-mode", "real", "--no-verify")
    place = ("--engine", image.engine, "--json")
    up = command("cluster", "up", *wanted, "--role", image.role, *place, timeout_s=UP_S)
    if up.exit_code:
        return {"passed": False, "why": f"cluster up: {_said(up)}", "checks": []}
    done = command("verify", "--cluster", CLUSTER, "--level", "full", "--seconds", "5", *place, timeout_s=VERIFY_S)
    report = _document(done)
    node: dict[str, Any] = next(iter(report.get("nodes") or ()), {"verdict": None, "checks": []})
    # The host's own checks are another part of the proof.
    passed = False if report.get("simulated") else passed_by(node["verdict"])
    return {
        "passed": passed,
        "why": "" if passed else _said(done),
        "verdict": node["verdict"],
        "up": _document(up),
        "measured": node.get("measured"),
        "checks": node["checks"],
    }


def _remove(command: Callable[..., Completed], image: NodeImage) -> str:
    """Remove the cluster, also one that is not complete; says why it is still there, which holds a GPU."""
    arguments = ("cluster", "down", CLUSTER, "--yes", "--force", "--engine", image.engine)
    try:
        done = command(*arguments, timeout_s=DOWN_S)
    except GpuprovError as error:
        said = f"{error.what}: {error.evidence}"
    else:
        said = _said(done) if done.exit_code else ""
    return f"the cluster may be left, with a GPU ({said}): gpuprov {' '.join(arguments)}" if said else ""


def _document(done: Completed) -> dict[str, Any]:
    try:
        document = json.loads(done.stdout)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _said(done: Completed) -> str:
    return " ".join((done.stderr or done.stdout).split())[-400:] or f"exit status {done.exit_code}"
