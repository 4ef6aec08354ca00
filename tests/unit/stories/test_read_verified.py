"""The answer of another host to `verify`: read as it was said, or refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.core.errors import HostNotReady
from gpuprov.fleet.verify_hosts import read_verified
from gpuprov.shapes.base import write
from gpuprov.shapes.verify import (
    Between,
    Check,
    GpuRate,
    GpuSamples,
    KernelRun,
    KnownGood,
    Measured,
    NodeReport,
    Report,
    Sample,
)

if TYPE_CHECKING:
    from collections.abc import Callable

CHECKS = (
    Check(id="node-running", layer="node", status="pass", severity="critical", evidence="running"),
    Check(id="node-answers", layer="node", status="fail", severity="critical", evidence="no", fix="gpuprov logs c000"),
    Check(id="nvml-answers", layer="nvml", status="skip", severity="critical", evidence="-", cause="node-answers"),
)
MEASURED = Measured(
    runs=(KernelRun(kernel="matmul", gpu="GPU-1", passed=True, digest="ab"),),
    rates=(
        GpuRate(
            kernel="matmul",
            gpu="GPU-1",
            model="H100",
            unit="TFLOP/s",
            median=1.5,
            known_good=KnownGood(good=2.0, fraction=0.75, verdict="pass", source="here"),
        ),
        GpuRate(kernel="membw", gpu="GPU-1", model="H100", unit="GB/s", median=2.0),
    ),
    gpus=(GpuSamples(uuid="GPU-1", samples=(Sample(at_s=0.5, temperature_c=40.0),)),),
    problem="ended early",
)
NODE = NodeReport(node="c000", access="raw", gpus=("GPU-1",), checks=CHECKS, duration_s=1.5, measured=MEASURED)
HOST = NodeReport(node="host", access="raw", gpus=("GPU-1",), checks=CHECKS[:1], duration_s=0.5)


def answer() -> dict[str, Any]:
    between = Between(driver="550.54", overlay={"anything": [1]}, began_s=10.0, ended_s=12.0)
    return write(Report(cluster="lab", nodes=(NODE,), duration_s=2.0, host=HOST, between=between))


def test_a_report_is_read_as_it_was_written() -> None:
    found = read_verified(answer(), "hoff")
    assert (found.nodes[0].checks, found.nodes[0].measured) == (CHECKS, MEASURED)
    assert (found.nodes[0].host, found.nodes[0].verdict, found.own.verdict) == ("hoff", "fail", "pass")
    assert write(found.between) == {"driver": "550.54", "overlay": {"anything": [1]}, "began_s": 10.0, "ended_s": 12.0}


@pytest.mark.parametrize(
    "spoil",
    [
        lambda told: told.pop("between"),
        lambda told: told["between"].update(more=1),
        lambda told: told["between"].update(driver=7),
        lambda told: told["between"].update(ended_s=float("inf")),
        lambda told: told.update(schema="gpuprov.nodes/v1"),
        lambda told: told.update(host=None),
        lambda told: told.update(nodes={}),
        lambda told: told["nodes"].append(told["nodes"][0]),
        lambda told: told["nodes"][0].update(checks=[]),
        lambda told: told["nodes"][0].update(access="magic"),
        lambda told: told["nodes"][0].update(node="x" * 1000),
        lambda told: told["nodes"][0]["checks"][0].update(status="fine"),
        lambda told: told["nodes"][0]["checks"][0].update(id="../x"),
        lambda told: told["nodes"][0]["checks"][0].update(evidence="x" * 20_000),
        lambda told: told["nodes"][0]["measured"]["rates"][0].update(median="much"),
        lambda told: told["nodes"][0]["measured"]["gpus"][0]["samples"][0].update(power_w="much"),
    ],
)
def test_what_is_no_report_is_refused(spoil: Callable[[dict[str, Any]], object]) -> None:
    told = answer()
    spoil(told)
    with pytest.raises(HostNotReady, match="hoff gave an unexpected answer"):
        read_verified(told, "hoff")


def test_a_number_that_is_too_large_is_refused_in_words() -> None:
    told = answer()
    told["between"]["began_s"] = 10**400
    with pytest.raises(HostNotReady):
        read_verified(told, "hoff")
