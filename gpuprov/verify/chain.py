"""All checks of a node, in order; what an earlier failure explains is skipped and is no second failure."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, cast

from gpuprov.core.catalogue import find_fix
from gpuprov.core.names import name_cluster
from gpuprov.shapes.verify import Check, NodeReport
from gpuprov.verify.checks import (
    between,
    devices,
    driver,
    host,
    kernel_log,
    kernels,
    limits,
    links,
    load,
    memory,
    network,
    node,
    nvml,
    people,
    rates,
    services,
    sssd,
)
from gpuprov.verify.finding import not_asked, unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from gpuprov.shapes.choices import AccessName
    from gpuprov.shapes.verify import CheckStatus, Level
    from gpuprov.verify.models import Expectation, Finding, Observation, Rule

    Judge = Callable[[Expectation, Observation], Finding]

_LONGEST_EVIDENCE = 2000  # some of it is what a node says

CHAIN: tuple[Rule, ...] = (
    *node.RULES,
    *people.RULES,
    *sssd.RULES,
    *driver.RULES,
    *devices.RULES,
    *nvml.RULES,
    *memory.RULES,
    *limits.RULES,
    *links.RULES,
    *nvml.CUDA_RULES,
    *load.WATCH_RULES,
    *kernels.RULES,
    *rates.RULES,
    *load.RULES,
    *network.RULES,
)


def _judge_unlooked(judge: Judge, expected: Expectation, seen: Observation) -> Finding:
    """Ask about those GPUs only that the expectation names."""
    nvml = (seen.facts or {})["nvml"]
    gpus = [gpu for gpu in nvml["gpus"] if gpu["uuid"] in expected.gpus]
    return judge(expected, replace(seen, facts={"nvml": {**nvml, "gpus": gpus}}))


HOST_CHAIN: tuple[Rule, ...] = (*host.RULES, *links.PEER_RULES, *services.RULES, *kernel_log.RULES)
BETWEEN_CHAIN: tuple[Rule, ...] = between.RULES
# Of a GPU that no node is asked about, on the host. What depends on a lease is left out.
_UNLOOKED: tuple[Rule, ...] = tuple(
    replace(rule, needs=("host-nvml",), judge=partial(_judge_unlooked, rule.judge))
    for rule in (*nvml.HEALTH_RULES, *memory.RULES, *limits.RULES, *links.RULES)
    if rule.id not in ("nvml-processes", "nvml-p2p", "nvml-ecc-shared")
)


def rules_of(level: Level, more: tuple[Rule, ...] = ()) -> tuple[Rule, ...]:
    """The checks that a level asks, those of roles (`more`) last; the quick ones are asked at every level."""
    return tuple(rule for rule in (*CHAIN, *more) if rule.level == "quick" or level == "full")


def judge_host(expected: Expectation, seen: Observation) -> NodeReport:
    """Ask every check of the host; `expected.gpus` are those that no node is asked about."""
    return _judge((*HOST_CHAIN, *(_UNLOOKED if expected.gpus else ())), expected, seen, below=())


def judge_between(expected: Expectation, seen: Observation) -> NodeReport:
    """Ask what each host of a cluster over several needs of the others; `expected.node` is the host's name."""
    return _judge(BETWEEN_CHAIN, expected, seen, below=())


def judge_node(
    expected: Expectation,
    seen: Observation,
    level: Level = "quick",
    *,
    host: NodeReport | None = None,
    more: tuple[Rule, ...] = (),
) -> NodeReport:
    """Ask every check of that level about one node; what fails because of the host is skipped.

    Args:
        expected: What the node must be.
        seen: What it is.
        level: How hard it was asked to work.
        host: What was found on its host.
        more: The checks of roles.
    """
    return _judge(rules_of(level, more), expected, seen, below=host.checks if host else ())


def _judge(rules: Iterable[Rule], expected: Expectation, seen: Observation, below: Iterable[Check]) -> NodeReport:
    done: dict[str, Check] = {}
    under = {check.id for check in below if check.status in ("fail", "unknown") and check.severity == "critical"}
    for rule in rules:
        leans = rule.layer == "network" or (expected.gpus and not expected.simulated)
        cause = next((name for name in rule.host if name in under and leans), "") or _cause(rule, done)
        finding = not_asked(f"because of {cause}") if cause else _ask(rule, expected, seen)
        status: CheckStatus = finding.status
        if status == "fail" and rule.severity == "warning":
            status = "warn"
        done[rule.id] = Check(
            id=rule.id,
            layer=rule.layer,
            status=status,
            severity=rule.severity,
            evidence=" ".join(finding.evidence.split())[:_LONGEST_EVIDENCE],
            fix=name_cluster(_fix(rule, finding, status, expected.node), expected.cluster) or None,
            cause=cause or None,
        )
    return NodeReport(
        node=expected.node,
        access=cast("AccessName", expected.access),
        gpus=expected.gpus,
        checks=tuple(done.values()),
        duration_s=seen.seconds,
        host=expected.host,
    )


def _cause(rule: Rule, done: dict[str, Check]) -> str:
    """The first failed or unknown check that this one depends on, directly or not."""
    for need in rule.needs:
        check = done[need]
        if check.status in ("fail", "unknown"):
            return check.id
        if check.cause:
            return check.cause
    return ""


def _fix(rule: Rule, finding: Finding, status: CheckStatus, node: str) -> str:
    return find_fix(finding.fix, rule.id, node=node, **finding.known) if status in ("fail", "unknown", "warn") else ""


def _ask(rule: Rule, expected: Expectation, seen: Observation) -> Finding:
    if rule.fact and seen.facts is not None:
        part = seen.facts.get(rule.fact)
        if isinstance(part, dict) and set(part) == {"error"}:
            return unknown(f"this could not be examined: {part['error']}", "node-answers/hangs")
    try:
        return rule.judge(expected, seen)
    except (KeyError, TypeError, IndexError, AttributeError, ValueError, ArithmeticError, RecursionError) as error:
        # A node may be compromised or run another version of the kernels: answers may have any form.
        said = cast("object", (seen.facts or {}).get(rule.fact))
        evidence = f"the answer is malformed ({type(error).__name__}: {error}): {str(said)[:200]}"
        return unknown(evidence, "node-answers/nonsense")
