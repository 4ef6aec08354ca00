"""A report as one HTML file: no script, nothing loaded from anywhere, readable in black and white."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.assets import get_asset
from gpuprov.render.axes import LEFT, RIGHT
from gpuprov.render.templates import render
from gpuprov.verify import charts
from gpuprov.verify.report import SIMULATED, gpu_text, layer_status, summary, verdict_text
from gpuprov.verify.smoke_document import KERNELS

if TYPE_CHECKING:
    from datetime import datetime

    from gpuprov.shapes.verify import KernelRun, NodeReport, Report

LAYOUT = {"width": charts.WIDTH, "height": charts.HEIGHT, "left": LEFT, "right": RIGHT}
MARKS = {"pass": "\u2713", "warn": "!", "fail": "\u2717", "skip": "\u2013", "unknown": "?"}


def render_html(report: Report, *, made_at: datetime) -> str:
    """The page; charts of rates and, at the full level, of clocks, temperature and power over the run."""
    return render(
        get_asset("templates"),
        "report/verify.html.j2",
        report=report,
        made_at=made_at.strftime("%Y-%m-%d %H:%M:%S %Z"),
        summary=summary(report),
        simulated=SIMULATED,
        layers=report.layers,
        marks=MARKS,
        layout=LAYOUT,
        kernels=KERNELS,
        nodes=[_node(node, report.layers) for node in report.places],
        rates=[(kernel, bars, _sources(bars)) for kernel in KERNELS if (bars := _bars(report, kernel))],
        pass_fraction=charts.PASS_FRACTION,
    )


def _node(node: NodeReport, layers: tuple[str, ...]) -> dict[str, object]:
    measured = node.measured
    return {
        "report": node,
        "verdict": verdict_text(node),
        "gpu": gpu_text(node),
        "layers": [layer_status(node, layer) for layer in layers],
        "problem": node.problem,
        "runs": _runs(node),
        "sampling_problem": measured.problem if measured else "",
        "gpus": [
            {"uuid": gpu.uuid, "charts": charts.line_charts(gpu), "reasons": charts.reasons(gpu)}
            for gpu in (measured.gpus if measured else ())
            if gpu.samples
        ],
    }


def _runs(node: NodeReport) -> dict[str, dict[str, KernelRun]]:
    """GPU to kernel to what that gave."""
    found: dict[str, dict[str, KernelRun]] = {}
    for run in node.measured.runs if node.measured else ():
        found.setdefault(run.gpu, {})[run.kernel] = run
    return found


def _bars(report: Report, kernel: str) -> list[tuple[str, charts.Bar]]:
    found = [
        (node.node, rate)
        for node in report.nodes
        if node.measured
        for rate in node.measured.rates
        if rate.kernel == kernel
    ]
    return list(zip([name for name, _ in found], charts.bars([rate for _, rate in found]), strict=True))


def _sources(bars: list[tuple[str, charts.Bar]]) -> list[str]:
    """Each known-good rate that is drawn, with where it is from; once for each model."""
    rates = [bar.rate for _, bar in bars]
    return list(dict.fromkeys(f"{rate.model}: {rate.known_good.source}" for rate in rates if rate.known_good))
