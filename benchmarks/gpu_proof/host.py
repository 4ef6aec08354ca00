"""The parts that look at the machine itself: record, doctor, the host's checks, and a watch over them."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.gpu_proof.lent import find_lent, leave_out_withheld, tell_withheld
from gpuprov.cluster.expected_nodes import expect_host
from gpuprov.core.errors import HostNotReady
from gpuprov.core.reporter import Silent
from gpuprov.core.rounds import every, watch_rounds
from gpuprov.core.waiting import SystemClock
from gpuprov.machine.examine import examine_host
from gpuprov.machine.local import LocalHost
from gpuprov.machine.record import take_record
from gpuprov.shapes.base import changed, write
from gpuprov.verify.chain import judge_host
from gpuprov.verify.changes import Seen, change_of_cluster, compare
from gpuprov.verify.models import Expectation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from gpuprov.core.waiting import Clock
    from gpuprov.drivers.base import Driver
    from gpuprov.shapes.verify import NodeReport
    from gpuprov.shapes.watch import Change

WATCH_EVERY_S = 5.0
PACKAGES = (
    "numba-cuda", "numba", "llvmlite", "numpy", "nvidia-ml-py", "cuda-core", "cuda-bindings", "nvidia-nvvm",
    "nvidia-nvjitlink", "nvidia-cuda-nvrtc", "nvidia-cuda-runtime", "torch", "cupy-cuda12x", "cupy-cuda13x",
)  # fmt: skip


def record(*, simulated: bool) -> dict[str, Any]:
    """Return what `gpuprov record` prints, with Python's packages; it must list a GPU, with the UUID of one."""
    told = take_record(Path("/"))
    gpus = (told["nvml"] or {}).get("gpus", [])
    why = "" if gpus else "NVML lists no GPU"
    if any(not gpu["uuid"].startswith("GPU-") for gpu in gpus):
        why = "a UUID does not begin with GPU-"
    machine = {
        "python": platform.python_version(),
        "executable": sys.executable,
        "processors": os.cpu_count(),
        "root": os.geteuid() == 0,
        "cuda_home": os.environ.get("CUDA_HOME", ""),
        "packages": {name: version for name in PACKAGES if (version := _version(name))},
    }
    return {"passed": simulated or not why, "why": why, "machine": machine, "record": told}


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


class _HostAsItIs(LocalHost):
    """This machine, on which Python may lack the packages by which engines are asked."""

    def open(self, engine: str) -> Driver:
        try:
            return super().open(engine)
        except ImportError as error:
            raise HostNotReady(
                f"{engine} cannot be asked", evidence=str(error), fix=f"python -m pip install {error.name}"
            ) from error


def doctor() -> dict[str, Any]:
    """Return what `gpuprov doctor` finds; a machine that lacks an engine is no failure of a GPU."""
    host = _HostAsItIs()
    seen = examine_host(host, Silent())
    lacking = [finding.id for finding in seen.findings if finding.status == "fail"]
    return {"passed": True, "lacking": lacking, "doctor": write(changed(seen, host="this machine"))}


def look(*, simulated: bool) -> NodeReport:
    """Ask every check of the host, and of each of its GPUs."""
    host = LocalHost()
    seen = host.look(host.gpus("simulated").document if simulated else None)
    # Without a driver, the host has what a node with simulated GPUs sees.
    nodes = (Expectation(node="simulated", status="stopped", access="simulated"),) if simulated else ()
    withheld: tuple[str, ...] = ()
    if seen.facts and (lent := find_lent(host.root)):
        facts, withheld = leave_out_withheld(dict(seen.facts), lent)
        seen = replace(seen, facts=facts)
    return tell_withheld(judge_host(expect_host(nodes, seen, name="this machine", gateway=None), seen), withheld)


def check(*, simulated: bool) -> dict[str, Any]:
    """Return the host's checks."""
    return report_document(look(simulated=simulated))


def report_document(report: NodeReport) -> dict[str, Any]:
    """Return a report of the host or of a node as a part of the proof tells it."""
    problem = report.problem
    passed = passed_by(report.verdict)
    unknown = [check.id for check in report.checks if check.status == "unknown"]
    why = f"{problem.id}: {problem.evidence}" if problem and not passed else ""
    return {
        "passed": passed,
        "why": f"{', '.join(unknown)} could not be judged; {why}" if passed is None and unknown else why,
        "verdict": report.verdict,
        "access": report.access,
        "gpus": list(report.gpus),
        "counts": dict(report.counts),
        "checks": [write(one) for one in report.checks],
    }


def passed_by(verdict: str | None) -> bool | None:
    """Return what a verdict says of a part; None where it is unknown, which is no failure of a GPU."""
    return None if verdict == "unknown" else verdict in ("pass", "warn")


def watch(*, seconds: float, simulated: bool) -> dict[str, Any]:
    """Look at the host again and again, as `verify --watch` does: a healthy one does not change."""
    return watch_for(seconds, lambda: look(simulated=simulated), clock=SystemClock())


def watch_for(seconds: float, look_once: Callable[[], NodeReport], *, clock: Clock) -> dict[str, Any]:
    """Watch for so long; every change is told, and so is what the first look found."""
    changes: list[Change] = []
    first: list[NodeReport] = []
    durations: list[float] = []

    def look_again(_before: Seen | None) -> Seen:
        began_s = time.monotonic()
        report = look_once()
        durations.append(round(time.monotonic() - began_s, 3))
        first.append(report)
        return Seen(host=report)

    watch_rounds(
        look_again,
        compare,
        rounds=_rounds(every(WATCH_EVERY_S, clock), clock, clock.now_s() + seconds),
        first=lambda _seen: None,
        tell=changes.extend,
        trouble=change_of_cluster,
    )
    well = passed_by(first[0].verdict)
    why = "" if well else f"the first look said {first[0].verdict}"
    return {
        "passed": False if changes else well,
        "why": f"{len(changes)} changes" if changes else why,
        "seconds": seconds,
        "rounds": len(first),
        "look_seconds": {"least": min(durations), "most": max(durations)},
        "verdict": first[0].verdict,
        "changes": [write(change) for change in changes],
    }


def _rounds(endless: Iterable[None], clock: Clock, end_s: float) -> Iterator[None]:
    """At least two rounds, and no new one after the end."""
    for number, _ in enumerate(endless):
        if number > 1 and clock.now_s() >= end_s:
            return
        yield
