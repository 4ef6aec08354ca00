"""One part of the proof, in a process of its own: `python -m benchmarks.gpu_proof.part NAME` prints its document."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

SCHEMA = "gpuprov.gpu-proof-part/v1"


def main(arguments: list[str] | None = None) -> int:
    """Run the part that is named; each imports what it needs only."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu_proof.part")
    parser.add_argument("name", choices=sorted(_PARTS))
    parser.add_argument("seconds", nargs="?", type=float, default=0.0)
    parser.add_argument("--simulate", action="store_true")
    wanted = parser.parse_args(arguments)
    document = {"schema": SCHEMA, "part": wanted.name, **_PARTS[wanted.name](wanted)}
    sys.stdout.write(json.dumps(document) + "\n")
    return 1 if document["passed"] is False else 0


def _record(wanted: argparse.Namespace) -> dict[str, Any]:
    from benchmarks.gpu_proof.host import record

    return record(simulated=wanted.simulate)


def _doctor(_wanted: argparse.Namespace) -> dict[str, Any]:
    from benchmarks.gpu_proof.host import doctor

    return doctor()


def _host(wanted: argparse.Namespace) -> dict[str, Any]:
    from benchmarks.gpu_proof.host import check

    return check(simulated=wanted.simulate)


def _watch(wanted: argparse.Namespace) -> dict[str, Any]:
    from benchmarks.gpu_proof.host import watch

    return watch(seconds=wanted.seconds, simulated=wanted.simulate)


def _container(wanted: argparse.Namespace) -> dict[str, Any]:
    from benchmarks.gpu_proof.container import verify_container

    return verify_container(simulated=wanted.simulate)


def _node(_wanted: argparse.Namespace) -> dict[str, Any]:
    from benchmarks.gpu_proof.node import verify_node

    return verify_node()


def _loaded(_wanted: argparse.Namespace) -> dict[str, Any]:
    from benchmarks.gpu_proof.loaded import load_kernels

    return load_kernels()


def _tests(wanted: argparse.Namespace) -> dict[str, Any]:
    from benchmarks.gpu_proof.gpu_tests import run_tests

    return run_tests(limit_s=wanted.seconds)


_PARTS: dict[str, Callable[[argparse.Namespace], dict[str, Any]]] = {
    "record": _record,
    "doctor": _doctor,
    "host": _host,
    "watch": _watch,
    "container": _container,
    "loaded": _loaded,
    "node": _node,
    "tests": _tests,
}

if __name__ == "__main__":
    sys.exit(main())
