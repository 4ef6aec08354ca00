"""What the probe is asked in one node, and what its answer is: pure functions."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any

from gpuprov.gpu.simulator import simulator_environment
from gpuprov.verify.checks.network import PRIVATE, PUBLIC
from gpuprov.verify.models import Observation
from gpuprov.verify.program import probe_program
from gpuprov.verify.smoke_document import KERNELS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.shapes.verify import Level
    from gpuprov.verify.models import Expectation

    Questions = Mapping[str, Mapping[str, Mapping[str, object]]]

SIMULATION = "@simulation"  # an argument for which the probe puts what the simulated NVML answers, as JSON
FULL_SECONDS = 10.0
QUICK_TIMEOUT_S = 60.0
FULL_TIMEOUT_S = 180.0
# For each further GPU, since they work one after the other
QUICK_MORE_S = 10.0
FULL_MORE_S = 30.0
_SAMPLE_INTERVAL_S = 0.25
_TAIL = 500


@dataclass(frozen=True, kw_only=True)
class Work:
    """What nodes are asked to do: above all, how hard the smoke kernels work.

    Attributes:
        level: `quick` runs small problems; `full` large ones, repeatedly, while clocks and temperature are sampled.
        seconds: How long each kernel is kept busy at the full level; None for FULL_SECONDS on a GPU, and for a few
            repeats on the simulator.
        limit_s: What a node may take; None for what the work needs, with room for a node that is slow.
        beside: Running nodes on other hosts, which each node tries to reach.
    """

    level: Level = "quick"
    seconds: float | None = None
    limit_s: float | None = None
    beside: tuple[str, ...] = ()

    def timeout_s(self, gpus: int, *, slowness: float = 1.0) -> float:
        """After so many seconds the verdict of a node with that many GPUs is `unknown`.

        Args:
            gpus: How many the node has.
            slowness: How many times longer than usual everything takes on its machine.
        """
        if self.limit_s is not None:
            return self.limit_s
        more = max(0, gpus - 1)
        if self.level == "quick":
            return (QUICK_TIMEOUT_S + more * QUICK_MORE_S) * slowness
        busy_s = len(KERNELS) * self.kernel_seconds(simulated=False) * max(1, gpus)
        return (FULL_TIMEOUT_S + more * FULL_MORE_S) * slowness + busy_s

    def kernel_seconds(self, *, simulated: bool) -> float:
        """How long each kernel is kept busy."""
        if self.level == "quick":
            return 0.0
        if self.seconds is None:
            return 0.0 if simulated else FULL_SECONDS
        return self.seconds


def probe_argv(expected: Expectation, *, part_timeout_s: float, work: Work, questions: Questions) -> list[str]:
    """The command that runs the probe in a node.

    Args:
        expected: What the node must be.
        part_timeout_s: What the kernels may take.
        work: How hard they work.
        questions: Commands of the node's role, by the fact that is made of them and by name (roles/base.py).
    """
    parameters = {
        "devices": [[device.path, device.major, device.minor] for device in expected.devices],
        "denied": list(expected.denied),
        "nvml": _simulated(expected.simulation),
        "cuda": bool(expected.gpus) and not expected.simulated,
        "kernels": _kernels(expected, part_timeout_s, work) if expected.gpus else None,
        "sampling": {"interval_s": _SAMPLE_INTERVAL_S} if expected.gpus and work.level == "full" else None,
        "network": _network(expected),
        "questions": questions,
    }
    return ["python3", "-I", "-c", probe_program(), json.dumps(parameters)]


def host_probe_argv(python: str, simulation: Mapping[str, Any] | None) -> list[str]:
    """The command that asks the host's own NVML, or its simulation: the questions are those that nodes are asked."""
    parameters: dict[str, object] = {
        "devices": [],
        "denied": [],
        "nvml": _simulated(simulation),
        "cuda": False,
        "network": {},
    }
    return [python, "-I", "-c", probe_program(), json.dumps(parameters)]


def _kernels(expected: Expectation, timeout_s: float, work: Work) -> dict[str, object]:
    options = ["--quick"]
    if work.level == "full":
        options = ["--seconds", f"{work.kernel_seconds(simulated=expected.simulated):g}"]
        if expected.simulated:
            options += ["--repeats", "2"]  # its default of one run for some kernels cannot show nondeterminism
    options += ["--all-devices", *stand_for(expected)]
    environment = simulator_environment(simulated=expected.simulated)
    return {"names": KERNELS, "options": options, "environment": environment, "timeout_s": timeout_s}


def stand_for(expected: Expectation) -> list[str]:
    """The smoke kernels' option by which the simulator runs once for each simulated GPU."""
    return [f"--stand-for={','.join(expected.gpus)}"] if expected.simulated else []


def _simulated(document: Mapping[str, Any] | None) -> dict[str, object] | None:
    if document is None:
        return None
    source = (resources.files("gpuprov.gpu") / "simulate.py").read_text(encoding="utf-8")
    return {"source": source, "document": document}


def _network(expected: Expectation) -> dict[str, list[str]]:
    public = [peer.address for peer in expected.peers if peer.address]
    private = [peer.private_address for peer in expected.peers if peer.private_address]
    if expected.gateway is not None:
        public.insert(0, expected.gateway)
    return {interface: addresses for interface, addresses in ((PUBLIC, public), (PRIVATE, private)) if addresses}


def parse_answer(exit_code: int, stdout: str, stderr: str, *, seconds: float) -> Observation:
    """What the probe printed, or why that is nothing."""
    if exit_code:
        said = (stderr or stdout).strip()[-_TAIL:]
        return Observation(problem=f"the probe exited with status {exit_code}: {said}", seconds=seconds)
    try:
        facts = json.loads(stdout)
    except (ValueError, RecursionError):
        facts = None
    if not isinstance(facts, dict):
        return Observation(problem=f"the probe printed no facts: {stdout[:_TAIL]!r}", seconds=seconds)
    return Observation(facts=facts, seconds=seconds)
