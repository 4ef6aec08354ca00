"""What `verify` of another host answers, read back strictly; verdicts are made here, from the checks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, cast

from gpuprov.core.answer_kinds import (
    fields_of,
    is_bool,
    is_list,
    is_string,
    items_of,
    matches,
    or_none,
    pick,
    text_of,
)
from gpuprov.documents.member_answers import strictly
from gpuprov.verify.measured import GpuRate, GpuSamples, KernelRun, KnownGood, Measured, Sample
from gpuprov.verify.models import Check, NodeReport

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.core.answer_kinds import Accepts

_WORD: Final = text_of(300)
_WORDS: Final = text_of(10_000)
_MAPPING: Final[Accepts] = lambda value: isinstance(value, dict)  # noqa: E731 - a kind, as those beside it
_MOST_CHECKS: Final = 500


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and isfinite(value)


def _one_of(*words: str) -> Accepts:
    return lambda value: value in words


_ID: Final = matches(re.compile(r"[a-z0-9-]{1,64}"))
_LAYER: Final = matches(re.compile(r"[a-z]{1,32}"))
_CHECK: Final[Mapping[str, Accepts]] = {
    "id": _ID,
    "layer": _LAYER,
    "status": _one_of("pass", "warn", "fail", "skip", "unknown"),
    "severity": _one_of("critical", "warning"),
    "evidence": _WORDS,
    "fix": or_none(_WORDS),
    "cause": or_none(_ID),
}
_PLACE: Final[Mapping[str, Accepts]] = {
    "node": _WORD,
    "host": _WORD,
    "verdict": _WORD,
    "simulated": is_bool,
    "access": _one_of("none", "raw", "simulated", "cdi", "nvidia-runtime"),
    "gpus": items_of(_WORD),
    "duration_s": _is_number,
    "counts": _MAPPING,
    "first_problem": or_none(_ID),
    "checks": lambda value: isinstance(value, list) and 0 < len(value) <= _MOST_CHECKS,
    "measured": or_none(_MAPPING),
}
_RATE: Final[Mapping[str, Accepts]] = {
    **dict.fromkeys(("kernel", "gpu", "model", "unit"), _WORD),
    "median": _is_number,
    "known_good": or_none(_MAPPING),
}
_SAMPLE: Final[Mapping[str, Accepts]] = {
    "at_s": _is_number,
    **dict.fromkeys(("temperature_c", "sm_clock_mhz", "memory_clock_mhz", "power_w", "throttle"), or_none(_is_number)),
}


@dataclass(frozen=True, kw_only=True)
class HostVerified:
    """What a host says of itself and its nodes.

    Attributes:
        host: Its own checks.
        nodes: Those of its nodes.
        driver: Version of NVIDIA's kernel module; None where none is loaded.
        overlay: As verify/checks/between.py reads it, which expects any form.
        began_s: When it began, by its own clock, and `ended_s` when it had ended.
    """

    host: NodeReport
    nodes: tuple[NodeReport, ...]
    driver: str | None
    overlay: Mapping[str, Any]
    began_s: float
    ended_s: float


def read_verified(told: Mapping[str, Any], host: str) -> HostVerified:
    """The answer to `verify` of a host of a cluster that spans hosts.

    Raises:
        HostNotReady: It is none.
    """
    return strictly(lambda: _read(told, host), host)


def _read(told: Mapping[str, Any], host: str) -> HostVerified:
    kinds: dict[str, Accepts] = {
        **dict.fromkeys(("cluster", "level", "verdict"), is_string),
        **dict.fromkeys(("passed", "simulated"), is_bool),
        "duration_s": _is_number,
        "host": _MAPPING,
        "nodes": is_list,
        "between": _MAPPING,
    }
    *_, own, nodes, between = fields_of(told, "gpuprov.verify/v1", kinds)
    driver, overlay, began_s, ended_s = pick(
        between, {"driver": or_none(_WORD), "overlay": _MAPPING, "began_s": _is_number, "ended_s": _is_number}
    )
    found = tuple(_place(node, host) for node in nodes)
    if len({node.node for node in found}) < len(found):
        raise ValueError("a node occurs twice")
    return HostVerified(
        host=_place(own, host), nodes=found, driver=driver, overlay=overlay, began_s=began_s, ended_s=ended_s
    )


def _place(told: object, host: str) -> NodeReport:
    place = dict(zip(_PLACE, pick(told, _PLACE), strict=True))
    return NodeReport(
        node=place["node"],
        access=place["access"],
        gpus=tuple(place["gpus"]),
        checks=tuple(_check(check) for check in place["checks"]),
        seconds=place["duration_s"],
        measured=_measured(place["measured"]) if place["measured"] is not None else None,
        host=host,
    )


def _check(told: object) -> Check:
    check = dict(zip(_CHECK, pick(told, _CHECK), strict=True))
    return Check(**{**check, "fix": check["fix"] or "", "cause": check["cause"] or ""})


def _measured(told: object) -> Measured:
    runs, rates, gpus, problem = pick(
        told, {**dict.fromkeys(("runs", "rates", "gpus"), is_list), "problem": or_none(_WORDS)}
    )
    run = {**dict.fromkeys(("kernel", "gpu"), _WORD), "passed": is_bool, "digest": _WORD}
    return Measured(
        runs=tuple(KernelRun(**dict(zip(run, pick(one, run), strict=True))) for one in runs),
        rates=tuple(_rate(one) for one in rates),
        gpus=tuple(_samples(one) for one in gpus),
        problem=problem or "",
    )


def _rate(told: object) -> GpuRate:
    rate = dict(zip(_RATE, pick(told, _RATE), strict=True))
    good = {"good": _is_number, "fraction": _is_number, "verdict": _WORD, "source": _WORD}
    known = rate.pop("known_good")
    values = KnownGood(**dict(zip(good, pick(known, good), strict=True))) if known is not None else None
    return GpuRate(**rate, known_good=values)


def _samples(told: object) -> GpuSamples:
    uuid, samples = pick(told, {"uuid": _WORD, "samples": is_list})
    found = (dict(zip(_SAMPLE, pick(one, _SAMPLE), strict=True)) for one in cast("list[object]", samples))
    return GpuSamples(uuid=uuid, samples=tuple(Sample(**sample) for sample in found))
