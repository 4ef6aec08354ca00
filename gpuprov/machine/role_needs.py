"""What each role needs of a host (core/requirements.json), held against what this host has. Pure functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.core.catalogue import find_fix
from gpuprov.core.requirements import load_requirements, older
from gpuprov.shapes.doctor import HostFinding, Need

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from gpuprov.core.requirements import Requirement
    from gpuprov.machine.facts import HostFacts
    from gpuprov.shapes.doctor import FindingStatus, Met, Part

WORDS: dict[Part, str] = {
    "kernel": "Linux",
    "engine": "engine",
    "driver": "driver",
    "compute_capability": "compute capability",
}


def compare_roles(facts: HostFacts) -> tuple[Need, ...]:
    """Every role's needs, in the order of the table."""
    return tuple(need for line in load_requirements().values() for need in _compare(line, facts))


def judge_roles(needs: Sequence[Need], wanted: str) -> HostFinding:
    """The wanted role's needs are met; another role's are only worth a warning."""
    unmet = [need for need in needs if need.met == "no"]
    if unmet:
        status: FindingStatus = "fail" if any(need.role == wanted for need in unmet) else "warn"
        lacks: dict[str, list[str]] = {}
        for need in unmet:
            lacks.setdefault(f"{WORDS[need.part]} {need.has}, {need.least} required", []).append(need.role)
        evidence = "; ".join(f"{lack} for {', '.join(roles)}" for lack, roles in lacks.items())
        first, *_ = unmet
        return HostFinding(id="roles", status=status, evidence=evidence, fix=find_fix(first.part, "roles"))
    met = _names(need.role for need in needs)
    mark = "; there are no requirements for SIMULATED GPUs" if any(need.met == "SIMULATED" for need in needs) else ""
    if any(need.met == "unknown" for need in needs):
        untold = _names(WORDS[need.part] for need in needs if need.met == "unknown")
        return HostFinding(id="roles", status="info", evidence=f"cannot be determined: {untold}{mark}")
    return HostFinding(id="roles", status="ok", evidence=f"this host meets the requirements of {met}{mark}")


def _names(words: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(words))


def _compare(line: Requirement, facts: HostFacts) -> Iterator[Need]:
    if line.kernel is not None:
        yield _need(line, "kernel", line.kernel, facts.kernel)
    engine = facts.engine.facts
    if line.engine is not None and engine is not None and engine.name in line.engine:
        yield _need(line, "engine", line.engine[engine.name], engine.version)
    gpus = facts.gpus
    simulated = gpus is not None and gpus.simulated
    if line.driver is not None:
        yield _need(line, "driver", line.driver, gpus.driver_version if gpus else None, simulated=simulated)
    if line.compute_capability is not None:
        known = [gpu.compute_capability for gpu in gpus.gpus if gpu.compute_capability] if gpus else []
        least = ".".join(map(str, min(known))) if known else None
        yield _need(line, "compute_capability", line.compute_capability, least, simulated=simulated)


def _need(line: Requirement, part: Part, least: str, has: str | None, *, simulated: bool = False) -> Need:
    if simulated:
        return Need(role=line.role, part=part, least=least, has=None, met="SIMULATED")
    met: Met = "unknown" if has is None else "no" if older(has, least) else "yes"
    return Need(role=line.role, part=part, least=least, has=has, met=met)
