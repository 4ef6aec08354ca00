"""A real node on an engine that is there, from an image that is there: no network is needed."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from benchmarks.gpu_proof.parts import ROOT
from gpuprov.core.execution import run

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuprov.core.execution import Completed

CLUSTER = "gpu-proof"
_START = "import sys; from gpuprov.cli.main import main; sys.exit(main())"
_UP_S, _VERIFY_S, _DOWN_S = 90.0, 150.0, 60.0


def gpuprov(*arguments: str, timeout_s: float) -> Completed:
    """Run a command of gpuprov's."""
    return run((sys.executable, "-c", _START, *arguments), timeout_s=timeout_s, cwd=ROOT, check=False)


def verify_node(*, command: Callable[..., Completed] = gpuprov) -> dict[str, Any]:
    """Create a cluster of one node with a real GPU, verify it at the full level, remove it."""
    listed = command("image", "list", "--json", timeout_s=_DOWN_S)
    if not _document(listed).get("images"):
        return {"passed": None, "why": f"no engine here has a node image: {_said(listed)}", "checks": []}
    up = command(
        "cluster", "up", "--name", CLUSTER, "-n", "1", "--gpu-mode", "real", "--no-verify", "--json", timeout_s=_UP_S
    )
    try:
        if up.exit_code:
            return {"passed": False, "why": f"cluster up: {_said(up)}", "checks": []}
        done = command(
            "verify", "--cluster", CLUSTER, "--level", "full", "--seconds", "5", "--json", timeout_s=_VERIFY_S
        )
        report = _document(done)
        nodes = report.get("nodes") or [{"checks": []}]
        passed = report.get("passed") is True and report.get("simulated") is False
        return {
            "passed": passed,
            "why": "" if passed else _said(done),
            "verdict": report.get("verdict"),
            "up": _document(up),
            "measured": nodes[0].get("measured"),
            "checks": nodes[0]["checks"],
        }
    finally:
        command("cluster", "down", "--name", CLUSTER, "--yes", timeout_s=_DOWN_S)


def _document(done: Completed) -> dict[str, Any]:
    try:
        document = json.loads(done.stdout)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _said(done: Completed) -> str:
    return " ".join((done.stderr or done.stdout).split())[-400:] or f"exit status {done.exit_code}"
